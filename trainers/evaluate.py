"""Evaluates the agent of a run as its newest checkpoint has it, or its best one.

  nec-tf evaluate --run_dir=runs/nec-frostbite-1 --eval_episodes=30

Plays whole games (a lost life does not end them) with the run's own configuration, prints the
scores and can record the best one. The run is not changed.
"""

from nec_tf.runtime import startup

startup.configure(restart=__name__ == "__main__")

from absl import app, flags
from tqdm import tqdm

from nec_tf.experiments.run_files import CHECKPOINTS

FLAGS = flags.FLAGS
flags.DEFINE_string("run_dir", None, "Folder of a run, such as runs/nec-frostbite-1.")
flags.DEFINE_enum("checkpoint", "newest", CHECKPOINTS, "newest, or that of the best evaluation.")
flags.DEFINE_integer("eval_episodes", 30, "Episodes to play.")
flags.DEFINE_integer("seed", 1, "Random seed.")
flags.DEFINE_string("video", None, "File for a video of the best episode, *.mp4 or *.gif.")


def main() -> None:
    """Evaluates and prints."""
    from nec_tf.experiments.api import load_run

    run = load_run(FLAGS.run_dir, FLAGS.checkpoint)
    with tqdm(total=FLAGS.eval_episodes, desc="evaluating", unit=" episodes") as bar:
        played = run.evaluate(
            FLAGS.eval_episodes, FLAGS.seed, FLAGS.video, lambda n: bar.update(n - bar.n)
        )
    print(f"{run.run_dir} at {run.frames:,} {run.task.unit}, {len(played.scores)} episodes:")
    print("scores  " + " ".join(f"{score:g}" for score in played.scores))
    for name, value in played.summary.items():
        print(f"{name:17s} {value:.2f}")
    if FLAGS.video:
        print(f"video of the best: {FLAGS.video}")


if __name__ == "__main__":
    app.run(startup.guarded(main, required=["run_dir"]))
