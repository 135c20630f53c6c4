"""Keeps the learning curve of a run, with the command that repeats it.

  python trainers/record_result.py --run_dir=runs/nec-frostbite-1

Writes `results/<agent>/<game>/<seed>.csv`: the evaluations of the run, after lines that begin with
# and tell the commands, the commit and all settings. With --name, that stands for the agent's.
"""

from nec_tf.runtime import startup

startup.configure(restart=__name__ == "__main__")

from pathlib import Path

from absl import app, flags

from nec_tf.experiments.results import save_result
from nec_tf.runtime.errors import UserError

FLAGS = flags.FLAGS
flags.DEFINE_string("run_dir", None, "Folder of a run of train_atari.py or train_gym.py.")
flags.DEFINE_string("results_dir", "results", "Folder of the results.")
flags.DEFINE_string("name", "", "Instead of the agent's, to compare two settings of one agent.")


def main() -> None:
    """Writes the file and says where it is."""
    if FLAGS.run_dir is None:
        raise UserError("--run_dir is wanted: the folder of a run, such as runs/nec-frostbite-1")
    if "/" in FLAGS.name:
        raise UserError(f"--name must be one word without /, not {FLAGS.name!r}")
    print(save_result(Path(FLAGS.run_dir), Path(FLAGS.results_dir), FLAGS.name))


if __name__ == "__main__":
    app.run(startup.guarded(main))
