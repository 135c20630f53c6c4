"""Trains an agent on an Atari game by the paper's protocol.

  nec-tf train --game=Frostbite
  nec-tf train --game=ms_pacman --frames=1000000 --seed=2

The run's folder (--run_dir) gets config.json, metrics.csv, TensorBoard events, checkpoints and a
video of the best evaluation. Ctrl-C saves a checkpoint; run the same command to resume, or raise
--frames to extend the run. Frames are emulator frames: one step of the agent is four.
"""

from nec_tf.runtime import startup

startup.configure(restart=__name__ == "__main__")

from absl import flags

from trainers import command_line

FLAGS = flags.FLAGS
command_line.define_task_flag("game", "Frostbite", "Atari game, such as ms_pacman; there are 57.")
command_line.define_task_flag(
    "protocol", "paper", "Rules of play: paper, or machado (sticky actions)."
)
command_line.define_preset_flag()
command_line.define_flags("atari", unit="emulator frames")


def main() -> None:
    """Trains, or resumes training."""
    from nec_tf.experiments.tasks import atari_task

    command_line.train(atari_task(FLAGS.game, FLAGS.protocol))


if __name__ == "__main__":
    command_line.run(main)
