"""Trains an agent on any Gymnasium environment with discrete actions.

  python trainers/train_gym.py --env=CartPole-v1

Frames are steps of the environment here. Everything else is as in train_atari.py.
"""

from nec_tf.runtime import startup

startup.configure(restart=__name__ == "__main__")

from absl import app, flags

from nec_tf.experiments import tasks
from trainers import command_line

FLAGS = flags.FLAGS

# For a few ten thousand steps of a small problem; measured, see docs/results.md.
DEFAULTS = {
    "key_size": 16,
    "replay_capacity": 20_000,
    "capacity": 50_000,
    "epsilon_from": 500,
    "epsilon_until": 5_000,
    "epsilon_fall": "linear",
    "exploration_repeats": 1,  # a pole falls in ten steps
    "learning_starts": 500,
    "values_learning_rate": 0.1,
}

flags.DEFINE_string("env", "CartPole-v1", "Id of a Gymnasium environment.")
command_line.define_run_flags(
    frames=30_000, eval_every_frames=5_000, log_every_frames=1_000, unit="steps"
)
command_line.define_agent_flags(**DEFAULTS)
flags.adopt_module_key_flags(command_line)


def main() -> None:
    """Trains, or goes on training."""
    command_line.train(tasks.gym_task(FLAGS.env), **DEFAULTS)


if __name__ == "__main__":
    app.run(startup.guarded(main))
