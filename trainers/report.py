"""Compares recorded learning curves: a table at a number of frames, and a plot for each game.

  python trainers/report.py
  python trainers/report.py --frames=400000 --plots_dir=/tmp/curves

Reads `results/<agent>/<game>/<seed>.csv`, which trainers/record_result.py writes of a run.
"""

from nec_tf.runtime import startup

startup.configure(restart=__name__ == "__main__")

from pathlib import Path

from absl import app, flags

from nec_tf.experiments import curves

FLAGS = flags.FLAGS
flags.DEFINE_string("results_dir", "results", "Folder of the results.")
flags.DEFINE_integer("frames", 1_000_000, "At how many frames the agents are compared.")
flags.DEFINE_string("plots_dir", "docs/curves", "Folder of the plots, one SVG for each game.")


def main() -> None:
    """Prints the table and says where the plots are."""
    recorded = curves.load_curves(Path(FLAGS.results_dir))
    print(curves.table(recorded, FLAGS.frames), end="\n\n")
    for path in curves.plot(recorded, Path(FLAGS.plots_dir)):
        print(path)


if __name__ == "__main__":
    app.run(startup.guarded(main))
