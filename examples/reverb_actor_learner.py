"""NEC with a Reverb server and TF-Agents' Actor and Learner; saves the policy as a SavedModel.

python examples/reverb_actor_learner.py [--env=CartPole-v1] [--steps=10000] [--root_dir=/tmp/nec]
"""

import tempfile

import gymnasium
import reverb
from absl import app, flags
from tf_agents.policies import policy_saver, py_tf_eager_policy
from tf_agents.replay_buffers import reverb_replay_buffer, reverb_utils
from tf_agents.specs import tensor_spec
from tf_agents.train import actor, learner
from tf_agents.train.utils import train_utils

from nec_tf import NecAgent, NecConfig, SingleGymnasiumEnvironment, encoders

FLAGS = flags.FLAGS
flags.DEFINE_string("env", "CartPole-v1", "A Gymnasium environment with discrete actions.")
flags.DEFINE_integer("steps", 10_000, "Training steps.")
flags.DEFINE_integer("seed", 1, "Random seed.")
flags.DEFINE_string("root_dir", None, "Folder for the policy; a temporary one by default.")

CONFIG = NecConfig.small()
STEPS_PER_RUN, UPDATES_PER_RUN = 100, 25  # an update every 4 steps, as in the paper
TABLE = "steps"


def main(_) -> None:
    """Trains, prints the actor's metrics every 1,000 steps, and saves the policy."""
    root_dir = FLAGS.root_dir or tempfile.mkdtemp(prefix="nec-")
    environment = SingleGymnasiumEnvironment(gymnasium.make(FLAGS.env), seed=FLAGS.seed)
    train_step = train_utils.create_train_step()
    agent = NecAgent(
        tensor_spec.from_spec(environment.time_step_spec()),
        tensor_spec.from_spec(environment.action_spec()),
        encoders.mlp(environment.observation_spec().shape, CONFIG.key_size, seed=FLAGS.seed),
        CONFIG,
        FLAGS.seed,
        train_step,
    )

    sequence_length = CONFIG.horizon + 1
    server = reverb.Server(
        [
            reverb.Table(
                TABLE,
                sampler=reverb.selectors.Uniform(),
                remover=reverb.selectors.Fifo(),
                max_size=FLAGS.steps,
                rate_limiter=reverb.rate_limiters.MinSize(1),
            )
        ]
    )
    replay = reverb_replay_buffer.ReverbReplayBuffer(
        agent.collect_data_spec, TABLE, sequence_length, local_server=server
    )
    # Tiled and padded: a sequence begins at every step of an episode, also at the last ones.
    add_to_replay = reverb_utils.ReverbAddTrajectoryObserver(
        replay.py_client,
        TABLE,
        sequence_length,
        pad_end_of_episodes=True,
        tile_end_of_episodes=True,
    )
    collector = actor.Actor(
        environment,
        py_tf_eager_policy.PyTFEagerPolicy(agent.collect_policy, use_tf_function=True),
        train_step,
        steps_per_run=STEPS_PER_RUN,
        observers=[agent.memory_observer(), add_to_replay],
        metrics=actor.collect_metrics(buffer_size=10),
    )
    trainer = learner.Learner(
        root_dir,
        train_step,
        agent,
        lambda: replay.as_dataset(sample_batch_size=32, num_steps=sequence_length).prefetch(2),
    )

    collector.run()
    for step in range(STEPS_PER_RUN, FLAGS.steps, STEPS_PER_RUN):
        collector.run()
        loss = trainer.run(iterations=UPDATES_PER_RUN)
        if step % 1_000 == 0:
            measured = ", ".join(f"{metric.name} {metric.result()}" for metric in collector.metrics)
            print(f"step {step}: loss {loss.loss:.2f}, {measured}")

    saved = f"{root_dir}/policy"
    policy_saver.PolicySaver(agent.post_process_policy(), batch_size=None).save(saved)
    print(f"mean return of the last ten episodes: {collector.metrics[2].result():.1f}")
    print(f"saved {saved}; load it with tf.saved_model.load")
    add_to_replay.close()
    server.stop()


if __name__ == "__main__":
    app.run(main)
