"""Plays a game through a policy that TF Serving runs, and shows score and latency.

python export/serving_client.py --server=localhost:8500 --model=frostbite --game=Frostbite
python export/serving_client.py --server=localhost:8501 --rest --model=cartpole --env=CartPole-v1
"""

from nec_tf.runtime import startup

startup.configure(restart=__name__ == "__main__")

import numpy as np
from absl import app, flags
from tf_agents.trajectories import time_step as ts
from tqdm import tqdm

from nec_tf.experiments.tasks import Task, atari_task, gym_task
from nec_tf.runtime.errors import UserError
from nec_tf.serving.client import GrpcPolicy, RestPolicy, Timed

FLAGS = flags.FLAGS
flags.DEFINE_string("server", "localhost:8500", "host:port; 8500 is TF Serving's gRPC, 8501 REST.")
flags.DEFINE_bool("rest", False, "Speak REST, not gRPC.")
flags.DEFINE_string("model", None, "Name of the model at the server.")
flags.DEFINE_string("game", None, "Atari game to play; or --env.")
flags.DEFINE_string("protocol", "paper", "Rules of play: paper, or machado (sticky actions).")
flags.DEFINE_string("env", None, "Gymnasium environment to play; or --game.")
flags.DEFINE_integer("eval_episodes", 1, "Games to play.")
flags.DEFINE_integer("seed", 1, "Seed of the games.")


def play(task: Task, policy: Timed, seed: int) -> float:
    """Returns the score of one game."""
    environment = task.environment(1, seed, evaluation=True)
    step, score = environment.reset(), 0.0
    with tqdm(desc=task.name, unit="step") as bar:
        while step.step_type[0] != ts.StepType.LAST:
            step = environment.step(policy(step.observation))
            score += float(step.reward[0])
            bar.update()
    environment.close()
    return score


def main() -> None:
    """Plays and prints."""
    if FLAGS.model is None or (FLAGS.game is None) == (FLAGS.env is None):
        raise UserError("--model is wanted, and either --game or --env")
    task = atari_task(FLAGS.game, FLAGS.protocol) if FLAGS.game else gym_task(FLAGS.env)
    client: type[RestPolicy] | type[GrpcPolicy] = RestPolicy if FLAGS.rest else GrpcPolicy
    policy = Timed(client(FLAGS.server, FLAGS.model))
    for episode in range(FLAGS.eval_episodes):
        print(f"score {play(task, policy, FLAGS.seed + episode):g}")
    p50, p99 = np.percentile(policy.milliseconds, [50, 99])
    print(f"{len(policy.milliseconds)} decisions, p50 {p50:.2f} ms, p99 {p99:.2f} ms")


if __name__ == "__main__":
    app.run(startup.guarded(main))
