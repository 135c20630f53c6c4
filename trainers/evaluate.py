"""Evaluates the agent of a run as its newest checkpoint has it, or its best one.

  python trainers/evaluate.py --run_dir=runs/nec-frostbite-1 --eval_episodes=30

Plays whole games (a lost life does not end them) with the run's own configuration, prints the
scores and can film the best one. The run is not changed.
"""

from nec_tf.runtime import startup

startup.configure(restart=__name__ == "__main__")

from pathlib import Path

from absl import app, flags
from tqdm import tqdm

from nec_tf.experiments import evaluation
from nec_tf.experiments.run import load_trained_run
from nec_tf.experiments.run_files import CHECKPOINTS
from nec_tf.runtime.errors import UserError

FLAGS = flags.FLAGS
flags.DEFINE_string("run_dir", None, "Folder of a run of train_atari.py or train_gym.py.")
flags.DEFINE_enum("checkpoint", "newest", CHECKPOINTS, "newest, or that of the best evaluation.")
flags.DEFINE_integer("eval_episodes", 30, "Episodes to play.")
flags.DEFINE_integer("seed", 1, "Seed of the environments and of the policy.")
flags.DEFINE_string("video", None, "Where to write a film of the best episode, *.mp4 or *.gif.")


def main() -> None:
    """Evaluates and prints."""
    if FLAGS.run_dir is None:
        raise UserError("--run_dir is wanted: the folder of a run, such as runs/nec-frostbite-1")
    if FLAGS.eval_episodes < 1:
        raise UserError(f"--eval_episodes must be at least 1, not {FLAGS.eval_episodes}")
    run = load_trained_run(FLAGS.run_dir, FLAGS.checkpoint)
    task = run.task
    run.learner.begin_evaluation(FLAGS.seed)
    evaluator = evaluation.Evaluator(task, run.learner.agent.policy, FLAGS.eval_episodes)
    with tqdm(total=FLAGS.eval_episodes, desc="evaluating", unit="episode") as bar:
        episodes = evaluator.play(FLAGS.seed, lambda over: bar.update(over - bar.n))
    frames = run.progress.frames
    print(f"{FLAGS.run_dir} at {frames:,} frames, {FLAGS.eval_episodes} episodes of {task.name}:")
    print("scores  " + " ".join(f"{episode.score:g}" for episode in episodes))
    for name, value in evaluation.summarise(task, episodes).items():
        print(f"{name:17s} {value:.2f}")
    if FLAGS.video:
        evaluation.record_video(task, max(episodes), Path(FLAGS.video))
        print(f"film of the best: {FLAGS.video}")


if __name__ == "__main__":
    app.run(startup.guarded(main))
