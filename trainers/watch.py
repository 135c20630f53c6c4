"""Shows an agent deciding, and what it remembers, on a page in your browser.

  nec-tf watch --run_dir=runs/nec-frostbite-1 --checkpoint=best
  nec-tf watch --export=exported/frostbite
  nec-tf watch --run_dir=runs/nec-frostbite-1 --record=frostbite.mp4

The page is served to this machine only, needs no network and changes nothing: a run that is still
training can be watched. Ctrl-C ends it.
"""

from nec_tf.runtime import startup

startup.configure(restart=__name__ == "__main__")

import os
import webbrowser
from pathlib import Path

from absl import app, flags

from nec_tf.experiments.run_files import CHECKPOINTS
from nec_tf.experiments.settings import SEEDS
from nec_tf.runtime.errors import UserError

FLAGS = flags.FLAGS
flags.DEFINE_string("run_dir", None, "Folder of a run, such as runs/nec-frostbite-1.")
flags.DEFINE_enum("checkpoint", "newest", CHECKPOINTS, "newest, or that of the best evaluation.")
flags.DEFINE_string("export", None, "Folder of an exported policy, instead of a run.")
flags.DEFINE_integer("seed", 1, "Random seed of the first episode.")
flags.DEFINE_string("host", "127.0.0.1", "Address to serve at; 0.0.0.0 for the whole network.")
flags.DEFINE_integer("port", 8420, "Port to serve at; 0 for any free one.")
flags.DEFINE_bool("browser", True, "Open the page in a browser.")
flags.DEFINE_string("record", None, "Film an episode to this file, *.mp4 or *.gif, and end.")
flags.DEFINE_integer("record_seconds", 60, "Longest recording, in seconds.")


def main() -> None:
    """Serves the page, or films."""
    if (FLAGS.run_dir is None) == (FLAGS.export is None):
        raise UserError("either --run_dir or --export is required: what is watched")
    if not 0 <= FLAGS.seed < SEEDS:
        raise UserError(f"--seed must be at least 0 and below 2**32, not {FLAGS.seed}")
    from nec_tf.experiments.viewer import recording, server, watching

    if FLAGS.record:
        recording.require_file(Path(FLAGS.record), FLAGS.record_seconds)
    if FLAGS.run_dir is not None:
        watched = watching.watch_run(Path(FLAGS.run_dir), FLAGS.checkpoint, FLAGS.seed)
    else:
        watched = watching.watch_export(Path(FLAGS.export), FLAGS.seed)
    try:
        if FLAGS.record:
            print(recording.record(watched, Path(FLAGS.record), FLAGS.record_seconds))
            return
        serving = server.Server(watched.answers(), FLAGS.host, FLAGS.port)
        print(f"{watched.subject.origin}\n{serving.url}  (Ctrl-C ends it)", flush=True)
        # Without a screen Python would start a browser for terminals, in this one.
        if FLAGS.browser and ("DISPLAY" in os.environ or "WAYLAND_DISPLAY" in os.environ):
            webbrowser.open(serving.url)
        serving.run()
    finally:
        watched.close()


if __name__ == "__main__":
    app.run(startup.guarded(main))
