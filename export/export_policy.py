"""Exports the policy of a run as a SavedModel that TF Serving runs, with its memory beside it.

  nec-tf export --run_dir=runs/nec-frostbite-1 --output_dir=exported/frostbite
  nec-tf export --run_dir=runs/nec-pong-1 --output_dir=pretrained/pong --compact --key_bits=4
  nec-tf export --check --output_dir=exported/frostbite

Each call writes a new version, <output_dir>/<version>/, aside and renames it into place. The lookup
is made of TensorFlow's own operations (--lookup=ivf, or exact). --compact stores keys in few bits
and no memory files, compares all keys, and measures what that changes. --check writes nothing: it
replays the states that the newest version keeps. docs/serving.md: how to serve it.
"""

from nec_tf.runtime import startup

startup.configure(restart=__name__ == "__main__")

from pathlib import Path

from absl import app, flags

from nec_tf.experiments.run_files import CHECKPOINTS
from nec_tf.runtime.errors import UserError

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
flags.DEFINE_bool("compact", False, "Write a small export: keys in few bits, no memory files.")
flags.DEFINE_integer("key_bits", 8, "With --compact: bits of each number of a key, 8 or 4.")
flags.DEFINE_integer("most_entries", None, "With --compact: keep this many, the last used.")
flags.DEFINE_bool("check", False, "Only compare an export's answers with those that it keeps.")


def main() -> None:
    """Exports and prints what was written, or checks an export."""
    from nec_tf.serving.exporting import describe, find_version

    if FLAGS.check:
        from nec_tf.serving import checking

        print(checking.check(find_version(Path(FLAGS.output_dir))))
        return
    if not FLAGS.run_dir:
        raise UserError(f"--run_dir is required: {FLAGS['run_dir'].help}")
    from nec_tf.experiments.api import load_run
    from nec_tf.serving.compacting import Compact

    if not FLAGS.compact and (FLAGS["key_bits"].present or FLAGS["most_entries"].present):
        raise UserError("--key_bits and --most_entries are for --compact: add it")
    run = load_run(FLAGS.run_dir, FLAGS.checkpoint)
    compact = Compact(FLAGS.key_bits, FLAGS.most_entries) if FLAGS.compact else None
    arguments = FLAGS.output_dir, FLAGS.lookup, FLAGS.recall, FLAGS.version, compact
    print(describe(run.export(*arguments, log=lambda text: print(text + " ..."))))


if __name__ == "__main__":
    app.run(startup.guarded(main, required=["output_dir"]))
