"""Plays a game through a policy that TF Serving runs, and shows score and latency.

nec-tf client --server=localhost:8500 --model=frostbite --game=Frostbite
nec-tf client --server=localhost:8501 --rest --model=cartpole --env=CartPole-v1
"""

from nec_tf.runtime import startup

startup.configure(restart=__name__ == "__main__")

from absl import app, flags

from nec_tf.experiments.settings import EVAL_MAX_STEPS
from nec_tf.runtime.errors import UserError

FLAGS = flags.FLAGS
flags.DEFINE_string("server", "localhost:8500", "host:port; 8500 is TF Serving's gRPC, 8501 REST.")
flags.DEFINE_bool("rest", False, "Use REST instead of gRPC.")
flags.DEFINE_string("model", None, "Name of the model at the server.")
flags.DEFINE_string("label", "", "Label of the version that answers, such as canary.")
flags.DEFINE_string("game", None, "Atari game to play; or --env.")
flags.DEFINE_string("protocol", "paper", "Rules of play: paper, or machado (sticky actions).")
flags.DEFINE_string("env", None, "Gymnasium environment to play; or --game.")
flags.DEFINE_integer("eval_episodes", 1, "Games to play.")
flags.DEFINE_integer("eval_max_steps", EVAL_MAX_STEPS, "Most agent steps of a game.")
flags.DEFINE_integer("seed", 1, "Random seed.")
flags.DEFINE_float(
    "deadline", 30.0, "Seconds after which a decision is given up, with its retries."
)


def main() -> None:
    """Plays and prints."""
    from nec_tf.experiments.tasks import atari_task, gym_task
    from nec_tf.serving.client import GrpcPolicy, RestPolicy, Timed, play

    if (FLAGS.game is None) == (FLAGS.env is None):
        raise UserError("either --game or --env is required: what is played")
    if FLAGS.eval_episodes < 1 or FLAGS.eval_max_steps < 1 or FLAGS.seed < 0:
        raise UserError(
            "--eval_episodes and --eval_max_steps must be at least 1, and --seed at least 0"
        )
    task = atari_task(FLAGS.game, FLAGS.protocol) if FLAGS.game else gym_task(FLAGS.env)
    client: type[RestPolicy] | type[GrpcPolicy] = RestPolicy if FLAGS.rest else GrpcPolicy
    policy = Timed(client(FLAGS.server, FLAGS.model, label=FLAGS.label), FLAGS.deadline)
    try:
        for seed in range(FLAGS.seed, FLAGS.seed + FLAGS.eval_episodes):
            environment = task.environment(1, seed, evaluation=True)
            print(f"score {play(environment, policy, FLAGS.eval_max_steps):g}")
    finally:  # also of a server that failed, when the latencies and errors so far count most
        print(policy.summary())


if __name__ == "__main__":
    app.run(startup.guarded(main, required=["model"]))
