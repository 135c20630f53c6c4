"""Puts exported memories, and the network that made their keys, into a run.

  python export/import_memory.py --memory=exported/frostbite --run_dir=runs/nec-frostbite-2
  python export/import_memory.py --memory=exported/a,exported/b --run_dir=runs/nec-frostbite-3

The run has to exist (train_atari.py --init_memory=... begins a new one with a memory). Several
memories merge, with that of the run too if it has one: the newest entries stay, as many as there is
room for. All keys must be of one network; what does not fit is refused, and nothing changes.
"""

from nec_tf.runtime import startup

startup.configure(restart=__name__ == "__main__")

from absl import app, flags

from nec_tf.experiments.memory_import import import_memories
from nec_tf.experiments.run import load_run
from nec_tf.runtime.errors import UserError

FLAGS = flags.FLAGS
flags.DEFINE_list("memory", None, "Exported memories: folders, with commas between them.")
flags.DEFINE_string("run_dir", None, "Folder of the run that gets them.")


def main() -> None:
    """Imports and writes a checkpoint."""
    if not FLAGS.memory or FLAGS.run_dir is None:
        raise UserError("--memory and --run_dir are wanted: from where, and into which run")
    run = load_run(FLAGS.run_dir)
    own = {"run_dir": FLAGS.run_dir, "frames": run.progress.frames}
    entries = import_memories(run.learner.agent, FLAGS.memory, own)
    run.save()
    print(f"{FLAGS.run_dir}: {entries:,} entries; its checkpoint holds them")


if __name__ == "__main__":
    app.run(startup.guarded(main))
