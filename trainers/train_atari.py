"""Trains an agent on an Atari game by the paper's protocol.

  python trainers/train_atari.py --game=Frostbite
  python trainers/train_atari.py --game=ms_pacman --frames=1000000 --seed=2

The run's folder (--run_dir) gets config.json, metrics.csv, TensorBoard events, checkpoints and a
video of the best evaluation. Ctrl-C saves; the same command goes on; a larger --frames goes on
further. Frames are emulator frames: one step of the agent is four.
"""

from nec_tf.runtime import startup

startup.configure(restart=__name__ == "__main__")

from absl import app, flags

from nec_tf.experiments import tasks
from trainers import command_line

FLAGS = flags.FLAGS
flags.DEFINE_string("game", "Frostbite", "Atari game: Frostbite, ms_pacman, ... (57 of them).")
flags.DEFINE_string("protocol", "paper", "Rules of play: paper, or machado (sticky actions).")
command_line.define_run_flags(
    frames=10_000_000, eval_every_frames=200_000, log_every_frames=10_000, unit="emulator frames"
)
command_line.define_agent_flags()
flags.adopt_module_key_flags(command_line)


def main() -> None:
    """Trains, or goes on training."""
    command_line.train(tasks.atari_task(FLAGS.game, FLAGS.protocol))


if __name__ == "__main__":
    app.run(startup.guarded(main))
