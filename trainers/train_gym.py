"""Trains an agent on any Gymnasium environment with discrete actions.

  nec-tf train-gym --env=CartPole-v1
  nec-tf train-gym --env=my_module:MyEnv-v0

Frames are steps of the environment here. Everything else is as in train_atari.py.
"""

from nec_tf.runtime import startup

startup.configure(restart=__name__ == "__main__")

from absl import flags

from trainers import command_line

FLAGS = flags.FLAGS
command_line.define_task_flag(
    "env", "CartPole-v1", "Gymnasium id: Name-v0, or module:Name-v0 to import a module first."
)
command_line.define_task_flag(
    "encoder", "auto", "Network: cnn for images, mlp, or auto to choose by the observations."
)
command_line.define_flags("small", unit="steps")


def main() -> None:
    """Trains, or resumes training."""
    from nec_tf.experiments.tasks import gym_task

    command_line.train(gym_task(FLAGS.env, FLAGS.encoder))


if __name__ == "__main__":
    command_line.run(main)
