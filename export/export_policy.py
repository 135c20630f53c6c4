"""Exports the policy of a run as a SavedModel that TF Serving runs, with its memory beside it.

  python export/export_policy.py --run_dir=runs/nec-frostbite-1 --output_dir=exported/frostbite

Each call writes a new version, <output_dir>/<version>/, aside and renames it into place. The lookup
is made of TensorFlow's own operations (--lookup=ivf, or exact). docs/serving.md: how to serve it.
"""

from nec_tf.runtime import startup

startup.configure(restart=__name__ == "__main__")

from absl import app, flags

from nec_tf.experiments.run_files import CHECKPOINTS

FLAGS = flags.FLAGS
flags.DEFINE_string("run_dir", None, "Folder of a run, such as runs/nec-frostbite-1.")
flags.DEFINE_string("output_dir", None, "Folder of all versions, which a server watches.")
flags.DEFINE_enum("checkpoint", "newest", CHECKPOINTS, "newest, or that of the best evaluation.")
flags.DEFINE_enum(
    "lookup",
    "ivf",
    ["ivf", "exact", "scann"],
    "ivf (an inverted file), exact, or scann for servers that link its operations.",
)
flags.DEFINE_float("recall", 0.99, "Share of the true neighbours that ivf has to find.")
flags.DEFINE_integer("version", None, "Number of the version; default: one above the highest.")


def main() -> None:
    """Exports and prints what was written."""
    from nec_tf.experiments.api import load_run
    from nec_tf.serving.exporting import describe

    run = load_run(FLAGS.run_dir, FLAGS.checkpoint)
    arguments = FLAGS.output_dir, FLAGS.lookup, FLAGS.recall, FLAGS.version
    print(describe(run.export(*arguments, log=lambda text: print(text + " ..."))))


if __name__ == "__main__":
    app.run(startup.guarded(main, required=["run_dir", "output_dir"]))
