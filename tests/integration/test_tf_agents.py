"""NecAgent in the hands of TF-Agents: its drivers, buffers, metrics, learner, savers."""

import subprocess
import sys

import gin
import numpy as np
import pytest
import tensorflow as tf
from lanes import needs_reverb
from memories import assert_same_contents, contents
from small_environments import SmallLock
from tf_agents.drivers import dynamic_episode_driver, dynamic_step_driver, py_driver
from tf_agents.environments import tf_py_environment, utils
from tf_agents.metrics import py_metrics, tf_metrics
from tf_agents.policies import policy_saver, py_tf_eager_policy
from tf_agents.replay_buffers import (
    reverb_replay_buffer,
    reverb_utils,
    tf_uniform_replay_buffer,
)
from tf_agents.specs import tensor_spec
from tf_agents.train import actor, learner
from tf_agents.train.utils import train_utils
from tf_agents.trajectories import time_step as ts
from tf_agents.utils import common, nest_utils

from nec_tf import NecAgent, NecConfig, NStepDriver
from nec_tf.agents.episodic_agent import Experience
from nec_tf.agents.nec.config import NecLearnerConfig
from nec_tf.agents.nec.learner import NecLearner
from nec_tf.environments.gymnasium_env import GymnasiumEnvironment, SingleGymnasiumEnvironment
from nec_tf.networks.encoders import mlp

CONFIG = NecLearnerConfig(
    key_size=8,
    capacity=1_000,
    num_neighbours=5,
    horizon=3,
    epsilon_from=400,
    epsilon_until=600,
    learning_starts=50,
    learning_rate=1e-3,
    values_learning_rate=0.1,
    index="exact",
)
STEPS = 800  # about 500 episodes, of which random play opens the lock in about 18


def make_environment(seed=1):
    return GymnasiumEnvironment([SmallLock(seed)], seed=seed)


def specs_of(environment):
    return map(tensor_spec.from_spec, (environment.time_step_spec(), environment.action_spec()))


def make_agent(seed=1, train_step=None):
    embedding = mlp((SmallLock.LENGTH + 1,), CONFIG.key_size, seed=seed)
    return NecAgent(*specs_of(make_environment()), embedding, CONFIG, seed, train_step)


def greedy_return(agent, seed=1):
    """The return of one episode without chance."""
    environment = make_environment(seed)
    step, total = environment.reset(), 0.0
    while step.step_type[0] != ts.StepType.LAST:
        observation = tf.nest.map_structure(tf.constant, step)
        q = agent.dnd(agent.embedding(observation.observation), training=False)
        step = environment.step(np.argmax(q, axis=1))
        total += float(step.reward[0])
    return total


def test_nothing_is_known_before_training():
    assert [greedy_return(make_agent(seed), seed) for seed in (1, 2, 3)] == [0, 0, 0]


def run_py_driver(agent, environment, observers):
    policy = py_tf_eager_policy.PyTFEagerPolicy(
        agent.collect_policy, use_tf_function=True, batch_time_steps=False
    )
    driver = py_driver.PyDriver(environment, policy, observers, max_steps=STEPS)
    driver.run(environment.reset())


def run_step_driver(agent, environment, observers):
    environment = tf_py_environment.TFPyEnvironment(environment)
    driver = dynamic_step_driver.DynamicStepDriver(
        environment, agent.collect_policy, observers, num_steps=STEPS // 2
    )
    time_step, state = driver.run()
    driver.run(time_step, state)


def run_episode_driver(agent, environment, observers):
    environment = tf_py_environment.TFPyEnvironment(environment)
    driver = dynamic_episode_driver.DynamicEpisodeDriver(
        environment, agent.collect_policy, observers, num_episodes=STEPS // 2
    )
    driver.run()


def run_n_step_driver(agent, environment, observers):
    NStepDriver(environment, agent.collect_policy, observers).run(STEPS)


DRIVERS = {
    "PyDriver": run_py_driver,
    "DynamicStepDriver": run_step_driver,
    "DynamicEpisodeDriver": run_episode_driver,
    "NStepDriver": run_n_step_driver,
}


@pytest.mark.parametrize("driver", DRIVERS)
def test_what_an_observer_writes_behind_a_driver_opens_the_lock(driver):
    agent, environment = make_agent(), make_environment()
    DRIVERS[driver](agent, environment, [agent.memory_observer()])
    assert greedy_return(agent) == 1.0


def forget_values(agent):
    """Leaves the states in the memory, but not what they are worth: only training can tell now."""
    agent.dnd.tables.values.assign(tf.zeros_like(agent.dnd.tables.values))
    assert greedy_return(agent) == 0.0


@pytest.mark.parametrize("length", [2, CONFIG.horizon + 1])
def test_training_from_a_uniform_replay_buffer_opens_the_lock(length):
    agent, environment = make_agent(), make_environment()
    buffer = tf_uniform_replay_buffer.TFUniformReplayBuffer(agent.collect_data_spec, 1, STEPS)
    run_step_driver(agent, environment, [agent.memory_observer(), buffer.add_batch])
    forget_values(agent)
    experience = iter(buffer.as_dataset(sample_batch_size=32, num_steps=length))
    train, before = common.function(agent.train), int(agent.train_step_counter)
    losses = [float(train(next(experience)[0]).loss) for _ in range(300)]
    assert np.mean(losses[-30:]) < 0.5 * np.mean(losses[:3])
    assert greedy_return(agent) == 1.0
    assert int(agent.train_step_counter) == before + 300


def test_preprocessed_sequences_train_like_the_sequences():
    agent, environment = make_agent(), make_environment()
    buffer = tf_uniform_replay_buffer.TFUniformReplayBuffer(agent.collect_data_spec, 1, STEPS)
    run_step_driver(agent, environment, [agent.memory_observer(), buffer.add_batch])
    sequences, _ = next(iter(buffer.as_dataset(sample_batch_size=64, num_steps=4)))
    prepared = agent.preprocess_sequence(sequences)
    nest_utils.assert_matching_dtypes_and_inner_shapes(
        prepared, agent.training_data_spec, agent, "prepared", "training_data_spec"
    )
    between_episodes = sequences.step_type[:, 0] == ts.StepType.LAST
    assert bool(tf.reduce_any(between_episodes))  # there are such, and they are left out
    np.testing.assert_array_equal(prepared.valid, ~between_episodes)
    assert float(agent.loss(prepared).loss) == float(agent.loss(sequences).loss)


@needs_reverb
def test_actor_learner_and_reverb_learn(tmp_path):
    import reverb

    train_step = train_utils.create_train_step()
    agent = make_agent(train_step=train_step)
    environment = SingleGymnasiumEnvironment(SmallLock(1), seed=1)
    length = CONFIG.horizon + 1
    table = reverb.Table(
        "steps",
        sampler=reverb.selectors.Uniform(),
        remover=reverb.selectors.Fifo(),
        max_size=STEPS,
        rate_limiter=reverb.rate_limiters.MinSize(1),
    )
    server = reverb.Server([table])
    buffer = reverb_replay_buffer.ReverbReplayBuffer(
        agent.collect_data_spec, "steps", length, local_server=server
    )
    add = reverb_utils.ReverbAddTrajectoryObserver(
        buffer.py_client, "steps", length, pad_end_of_episodes=True, tile_end_of_episodes=True
    )
    collector = actor.Actor(
        environment,
        py_tf_eager_policy.PyTFEagerPolicy(agent.collect_policy, use_tf_function=True),
        train_step,
        steps_per_run=STEPS,
        observers=[agent.memory_observer(), add],
        metrics=actor.collect_metrics(buffer_size=50),
    )
    collector.run()
    add.flush()
    trainer = learner.Learner(
        str(tmp_path),
        train_step,
        agent,
        lambda: buffer.as_dataset(sample_batch_size=32, num_steps=length),
        checkpoint_interval=300,
    )
    forget_values(agent)
    first_losses = [float(trainer.run(iterations=1).loss) for _ in range(3)]
    trainer.run(iterations=267)
    last_losses = [float(trainer.run(iterations=1).loss) for _ in range(30)]
    assert np.mean(last_losses) < 0.5 * np.mean(first_losses)
    assert int(train_step) == 300
    assert greedy_return(agent) == 1.0
    average_return = collector.metrics[2].result()
    assert average_return > 0.5  # of the last 50 episodes; chance opens one in 27
    add.close()
    server.stop()

    restored = make_agent(train_step=train_utils.create_train_step())
    learner.Learner(str(tmp_path), restored.train_step_counter, restored)
    assert int(restored.train_step_counter) == 300
    assert greedy_return(restored) == 1.0


def test_metrics_of_tensorflow_and_of_python_agree():
    agent, environment = make_agent(), make_environment()
    of_tensorflow = tf_metrics.AverageReturnMetric(buffer_size=1_000)
    run_step_driver(agent, environment, [agent.memory_observer(), of_tensorflow])
    agent, environment = make_agent(), make_environment()
    of_python = py_metrics.AverageReturnMetric(buffer_size=1_000)
    run_py_driver(agent, environment, [agent.memory_observer(), of_python])
    assert float(of_tensorflow.result()) == pytest.approx(float(of_python.result()), abs=1e-6)
    assert of_python.result() > 0.2


def test_our_driver_and_a_stock_driver_learn_the_very_same():
    """The same seed, the same learner behind both: no figure may differ."""
    tables, calls = [], 0

    def run_ours(agent, environment, observers):
        # As many calls as the stock driver made, which does not count those between episodes.
        NStepDriver(environment, agent.collect_policy, observers).run(calls)

    for drive in (run_step_driver, run_ours):
        environment = make_environment()
        embedding = mlp((SmallLock.LENGTH + 1,), CONFIG.key_size, seed=1)
        learning = NecLearner(*specs_of(environment), embedding, CONFIG, seed=1)
        drive(learning.agent, environment, [learning.observe])
        calls = int(learning.agent.exploration.steps)
        tables.append(contents(learning.agent.dnd))
        assert greedy_return(learning.agent) == 1.0
    assert_same_contents(*tables)


def trained_agent():
    agent = make_agent()
    run_n_step_driver(agent, make_environment(), [agent.memory_observer()])
    return agent


def random_experience(count=16):
    rng = np.random.default_rng(0)
    return Experience(
        tf.constant(rng.uniform(size=(count, 4)).astype(np.float32)),
        tf.constant(rng.integers(0, 3, count)),
        tf.constant(rng.uniform(size=count).astype(np.float32)),
        tf.ones([count], tf.bool),
    )


LOAD = """
import sys
import numpy as np
import tensorflow as tf
from tf_agents.trajectories import time_step as ts
policy = tf.saved_model.load(sys.argv[1])
states = np.load(sys.argv[2])
step = ts.restart(tf.constant(states), len(states))
np.save(sys.argv[3], policy.action(step, policy.get_initial_state(len(states))).action)
"""


def test_a_saved_policy_acts_the_same_in_a_new_process(tmp_path):
    agent = trained_agent()
    policy = agent.post_process_policy()
    policy_saver.PolicySaver(policy, batch_size=None).save(str(tmp_path / "policy"))
    states = np.random.default_rng(0).uniform(size=(64, 4)).astype(np.float32)
    states[:4] = np.eye(4)
    np.save(tmp_path / "states.npy", states)
    files = [str(tmp_path / name) for name in ("policy", "states.npy", "actions.npy")]
    subprocess.run([sys.executable, "-c", LOAD, *files], check=True, capture_output=True)
    q = agent.dnd(agent.embedding(states), training=False)
    expected = np.argmax(q, axis=1)
    assert len(set(expected)) > 1
    np.testing.assert_array_equal(np.load(tmp_path / "actions.npy"), expected)


def test_a_checkpointer_brings_back_all_that_training_needs(tmp_path):
    first, second = trained_agent(), make_agent(seed=2)
    checkpointer = common.Checkpointer(str(tmp_path), agent=first)
    sample = random_experience()
    first.train(sample)
    checkpointer.save(global_step=0)
    common.Checkpointer(str(tmp_path), agent=second).initialize_or_restore()
    assert greedy_return(second) == 1.0
    assert float(first.train(sample).loss) == float(second.train(sample).loss)
    assert_same_contents(contents(first.dnd), contents(second.dnd))
    steps = ts.restart(tf.random.uniform([50, 4]), 50)
    first_actions = first.collect_policy.action(steps).action
    np.testing.assert_array_equal(first_actions, second.collect_policy.action(steps).action)


def test_environments_satisfy_the_validator():
    utils.validate_py_environment(make_environment(), episodes=5)
    utils.validate_py_environment(SingleGymnasiumEnvironment(SmallLock(1)), episodes=5)


@pytest.mark.parametrize("which", ["policy", "collect_policy"])
def test_policies_answer_as_their_specs_say(which):
    agent = trained_agent()
    policy = getattr(agent, which)
    step = tensor_spec.sample_spec_nest(agent.time_step_spec, outer_dims=(5,))
    acted = policy.action(step, policy.get_initial_state(5))
    nest_utils.assert_matching_dtypes_and_inner_shapes(
        acted, policy.policy_step_spec, policy, "acted", "policy_step_spec"
    )
    assert nest_utils.is_batched_nested_tensors(acted, policy.policy_step_spec)
    probabilities = policy.distribution(step).action.probs_parameter()
    assert probabilities.shape == (5, 3)
    np.testing.assert_allclose(tf.reduce_sum(probabilities, axis=1), 1, rtol=1e-5)


def test_collected_data_is_as_its_spec_says():
    agent, seen = make_agent(), []
    NStepDriver(make_environment(), agent.collect_policy, [seen.append]).run(3)
    step = tf.nest.map_structure(tf.constant, seen[0])
    nest_utils.assert_matching_dtypes_and_inner_shapes(
        step, agent.collect_data_spec, agent, "step", "collect_data_spec"
    )


def test_training_takes_weights_and_returns_a_named_extra():
    agent = trained_agent()
    assert agent.initialize() is None
    loss = agent.train(random_experience(), weights=tf.zeros([16]))
    assert float(loss.loss) == 0.0
    assert loss.extra._fields == ("q", "error")


def test_gin_configures_the_agent_and_its_settings():
    with gin.unlock_config():
        gin.parse_config("NecConfig.horizon = 7\nNecConfig.alpha = 0.5\nNecAgent.seed = 5")
    try:
        config = NecConfig(key_size=8)
        assert (config.horizon, config.alpha, config.key_size) == (7, 0.5, 8)
        agents = [
            NecAgent(*specs_of(make_environment()), mlp((4,), 8, seed=0), config) for _ in range(2)
        ]
        states = [agent.exploration.generator.state.numpy() for agent in agents]
        np.testing.assert_array_equal(*states)
    finally:
        gin.clear_config()
