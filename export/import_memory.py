"""Puts exported memories, and the network that made their keys, into a run.

  nec-tf import --memory=exported/frostbite --run_dir=runs/nec-frostbite-2
  nec-tf import --memory=exported/a,exported/b --run_dir=runs/nec-frostbite-3

The run has to exist (train_atari.py --init_memory=... begins a new one with a memory). Several
memories are merged, with that of the run too if it has one: the newest entries are kept, up to the
capacity. All keys must be of one network; otherwise the import is refused and nothing changes.
"""

from nec_tf.runtime import startup

startup.configure(restart=__name__ == "__main__")

from absl import app, flags

FLAGS = flags.FLAGS
flags.DEFINE_list("memory", None, "Exported memories: folders, separated by commas.")
flags.DEFINE_string("run_dir", None, "Folder of the run that gets them.")


def main() -> None:
    """Imports and writes a checkpoint."""
    from nec_tf.experiments.run import import_into_run

    entries = import_into_run(FLAGS.run_dir, FLAGS.memory)
    print(f"{FLAGS.run_dir}: {entries:,} entries, saved in its checkpoint")


if __name__ == "__main__":
    app.run(startup.guarded(main, required=["memory", "run_dir"]))
