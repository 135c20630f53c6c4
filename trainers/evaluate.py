"""Evaluates the agent of a run, as its newest checkpoint or its best one has it, or an export.

  nec-tf evaluate --run_dir=runs/nec-frostbite-1 --eval_episodes=30
  nec-tf evaluate --export=pretrained/pong

Plays whole games (a lost life does not end them) with the run's own configuration, prints the
scores and can record the best one. The run is not changed. An export plays through its signature,
without random actions.
"""

import sys

from nec_tf.runtime import startup, streams

startup.configure(restart=__name__ == "__main__")

from collections.abc import Callable
from pathlib import Path
from typing import Any

from absl import app, flags
from tqdm import tqdm

from nec_tf.experiments.run_files import CHECKPOINTS
from nec_tf.runtime.errors import UserError

FLAGS = flags.FLAGS
flags.DEFINE_string("run_dir", None, "Folder of a run, such as runs/nec-frostbite-1.")
flags.DEFINE_enum("checkpoint", "newest", CHECKPOINTS, "newest, or that of the best evaluation.")
flags.DEFINE_string("export", None, "Folder of an exported policy, instead of a run.")
flags.DEFINE_integer("eval_episodes", 30, "Episodes to play.")
flags.DEFINE_integer(
    "eval_max_steps",
    None,
    "Most agent steps of an episode. (default: that of the run, or 100,000 for an export)",
)
flags.DEFINE_integer("seed", 1, "Random seed.")
flags.DEFINE_string("video", None, "File for a video of the best episode, *.mp4 or *.gif.")


def main() -> None:
    """Evaluates and prints."""
    if (FLAGS.run_dir is None) == (FLAGS.export is None):
        raise UserError("either --run_dir or --export is required: what is evaluated")
    name, unit, frames, evaluate = _open()
    shown = {"desc": "evaluating", "unit": " episodes", "file": streams.Unbreakable(sys.stderr)}
    with tqdm(total=FLAGS.eval_episodes, **shown) as bar:
        played = evaluate(
            FLAGS.eval_episodes,
            FLAGS.seed,
            FLAGS.video,
            lambda n: bar.update(n - bar.n),
            FLAGS.eval_max_steps,
        )
    print(f"{name} at {frames:,} {unit}, {len(played.scores)} episodes:")
    print("scores  " + " ".join(f"{score:g}" for score in played.scores))
    for name, value in played.summary.items():
        print(f"{name:17s} {value:.2f}")
    if FLAGS.video:
        print(f"video of the best: {FLAGS.video}")


def _open() -> tuple[Path, str, int, Callable[..., Any]]:
    """Returns the folder, the unit of frames, the frames trained on and what evaluates."""
    if FLAGS.export is not None:
        from nec_tf.experiments.exported import Exported

        exported = Exported(FLAGS.export)
        unit, frames = exported.task.unit, exported.source.get("frames", 0)
        return exported.folder, unit, frames, exported.evaluate
    from nec_tf.experiments.api import load_run

    run = load_run(FLAGS.run_dir, FLAGS.checkpoint)
    return run.run_dir, run.task.unit, run.frames, run.evaluate


if __name__ == "__main__":
    app.run(startup.guarded(main))
