"""Exports the policy of a run as a SavedModel that TF Serving runs, with its memory beside it.

  python export/export_policy.py --run_dir=runs/nec-frostbite-1 --output_dir=exported/frostbite

Each call writes a new version, <output_dir>/<version>/, aside and renames it into place. The lookup
is made of TensorFlow's own operations (--lookup=ivf, or exact). docs/serving.md: how to serve it.
"""

from nec_tf.runtime import startup

startup.configure(restart=__name__ == "__main__")

from pathlib import Path

from absl import app, flags

from nec_tf.experiments.exporting import export_run
from nec_tf.experiments.run import load_trained_run
from nec_tf.experiments.run_files import CHECKPOINTS
from nec_tf.runtime.errors import UserError
from nec_tf.serving.exporting import describe
from nec_tf.serving.freezing import LOOKUPS

FLAGS = flags.FLAGS
flags.DEFINE_string("run_dir", None, "Folder of a run of train_atari.py or train_gym.py.")
flags.DEFINE_enum("checkpoint", "newest", CHECKPOINTS, "newest, or that of the best evaluation.")
flags.DEFINE_string("output_dir", None, "Folder for versions; a server watches it.")
flags.DEFINE_enum("lookup", "ivf", LOOKUPS, "ivf, exact, or scann for servers that link its ops.")
flags.DEFINE_float("recall", 0.99, "Share of the true neighbours that ivf has to find.")
flags.DEFINE_integer("version", None, "Number of the version; the next one where not given.")


def main() -> None:
    """Exports and says what was written."""
    if FLAGS.run_dir is None or FLAGS.output_dir is None:
        raise UserError("--run_dir and --output_dir are wanted: from where, and where to")
    run = load_trained_run(FLAGS.run_dir, FLAGS.checkpoint)
    arguments = FLAGS.lookup, FLAGS.recall, FLAGS.version
    folder = export_run(
        run, Path(FLAGS.output_dir), *arguments, say=lambda text: print(text + " ...")
    )
    print(describe(folder))


if __name__ == "__main__":
    app.run(startup.guarded(main))
