"""NEC on a Gymnasium environment with TF-Agents' own driver, replay buffer and metrics.

  python examples/stock_drivers.py [--env=CartPole-v1] [--steps=10000]

The one difference from DQN: the agent's `memory_observer` is an observer of the driver, beside the
replay buffer.
"""

import gymnasium
from absl import app, flags
from tf_agents.drivers import dynamic_step_driver
from tf_agents.environments import tf_py_environment
from tf_agents.metrics import tf_metrics
from tf_agents.replay_buffers import tf_uniform_replay_buffer
from tf_agents.utils import common

from nec_tf import GymnasiumEnvironment, NecAgent, NecConfig, encoders

FLAGS = flags.FLAGS
flags.DEFINE_string("env", "CartPole-v1", "A Gymnasium environment with discrete actions.")
flags.DEFINE_integer("steps", 10_000, "Training steps.")
flags.DEFINE_integer("seed", 1, "Random seed.")

CONFIG = NecConfig.small()
STEPS_PER_UPDATE = 4  # as in the paper
LEARNING_STARTS = 500  # steps before the first update


def main(_) -> None:
    """Trains; prints the mean return of the last ten episodes every 1,000 steps."""
    environment = tf_py_environment.TFPyEnvironment(
        GymnasiumEnvironment([gymnasium.make(FLAGS.env)], seed=FLAGS.seed)
    )
    embedding = encoders.mlp(environment.observation_spec().shape, CONFIG.key_size, seed=FLAGS.seed)
    agent = NecAgent(
        environment.time_step_spec(), environment.action_spec(), embedding, CONFIG, FLAGS.seed
    )
    replay = tf_uniform_replay_buffer.TFUniformReplayBuffer(
        agent.collect_data_spec, environment.batch_size, max_length=FLAGS.steps
    )
    average_return = tf_metrics.AverageReturnMetric()
    driver = dynamic_step_driver.DynamicStepDriver(
        environment,
        agent.collect_policy,
        observers=[agent.memory_observer(), replay.add_batch, average_return],
        num_steps=STEPS_PER_UPDATE,
    )
    driver.run = common.function(driver.run)
    train = common.function(agent.train)

    for _ in range(LEARNING_STARTS // STEPS_PER_UPDATE):
        driver.run()
    dataset = replay.as_dataset(sample_batch_size=32, num_steps=CONFIG.horizon + 1)
    experience = iter(dataset.prefetch(2))
    for step in range(LEARNING_STARTS, FLAGS.steps, STEPS_PER_UPDATE):
        driver.run()
        trajectories, _ = next(experience)
        loss = train(trajectories)
        if step % 1_000 < STEPS_PER_UPDATE:
            print(
                f"step {step}: return {average_return.result():.1f}, loss {loss.loss:.2f},"
                f" entries {agent.dnd.sizes.tolist()}"
            )
    print(f"mean return of the last ten episodes: {average_return.result():.1f}")


if __name__ == "__main__":
    app.run(main)
