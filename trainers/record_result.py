"""Keeps the learning curve of a run, with the command that repeats it.

  nec-tf record --run_dir=runs/nec-frostbite-1

Writes `results/<agent>/<game>/<seed>.csv`: the evaluations of a run, with the score of every game,
wall time and frames/s, after lines that begin with # and hold the commands, the commit and all
settings. --name replaces the name of the agent.
"""

from nec_tf.runtime import startup

startup.configure(restart=__name__ == "__main__")

from pathlib import Path

from absl import app, flags

FLAGS = flags.FLAGS
flags.DEFINE_string("run_dir", None, "Folder of a run, such as runs/nec-frostbite-1.")
flags.DEFINE_string("results_dir", "results", "Folder of the results.")
flags.DEFINE_string("name", "", "Replaces the agent's name, to compare two settings of one agent.")


def main() -> None:
    """Writes the file and prints its path."""
    from nec_tf.experiments.results import save_result

    print(save_result(Path(FLAGS.run_dir), Path(FLAGS.results_dir), FLAGS.name))


if __name__ == "__main__":
    app.run(startup.guarded(main, required=["run_dir"]))
