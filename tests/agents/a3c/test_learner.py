"""Workers, the learner around them, and that they learn."""

import dataclasses
import functools

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from small_environments import Counting, SmallLock
from tf_agents.agents import tf_agent
from tf_agents.trajectories import time_step as ts

from nec_tf.agents.a3c.agent import A3cAgent
from nec_tf.agents.a3c.config import A3cConfig
from nec_tf.agents.a3c.learner import A3cLearner
from nec_tf.agents.n_step_driver import NStepDriver
from nec_tf.environments.gymnasium_env import GymnasiumEnvironment
from nec_tf.networks import actor_critic

SMALL = A3cConfig(key_size=16, annealing_steps=10_000, rmsprop_epsilon=1e-3, deterministic=True)
ASYNCHRONOUS = dataclasses.replace(SMALL, deterministic=False)


cartpole = functools.partial(gymnasium.make, "CartPole-v1")


def make(make_env=lambda: Counting(7), config=SMALL, seed=0, count=2):
    environment = GymnasiumEnvironment([make_env] * count, seed=seed)
    shape = environment.observation_spec().shape
    body = actor_critic.body(shape, config.key_size, seed)
    specs = environment.time_step_spec(), environment.action_spec()
    return environment, A3cLearner(*specs, body, config, seed)


def weights(learner):
    return np.concatenate([v.numpy().ravel() for v in learner.agent.network.variables])


def test_the_network_is_that_of_the_paper():
    network = actor_critic.actor_critic(actor_critic.body((84, 84, 4), 256, 0), 18, 0)
    # Convolutions 8 x 8 x 4 x 16, 4 x 4 x 16 x 32; 9 x 9 x 32 to 256; 18 logits and a value.
    assert network.count_params() == 4_112 + 8_224 + 663_808 + 4_626 + 257
    logits, values = network(np.zeros([5, 84, 84, 4], np.uint8))
    assert logits.shape == [5, 18]
    assert values.shape == [5]


@pytest.mark.parametrize("config", [SMALL, ASYNCHRONOUS])
def test_observers_get_every_step_of_every_member_in_order(config):
    environment, learner = make(config=config, count=3)
    seen = []
    time_step = learner.run(environment, 10, None, [seen.append])
    time_step = learner.run(environment, 6, time_step, [seen.append])
    assert len(seen) == 16
    counts = np.array([step.observation[:, 0] for step in seen])
    # An episode is 0 to 6, then its last observation, 7, in the step that resets.
    np.testing.assert_array_equal(counts, np.tile((np.arange(16) % 8)[:, None], 3))
    rewards = np.array([step.reward for step in seen])
    np.testing.assert_array_equal(rewards, np.where(counts == 7, 0, counts + 1))  # not clipped
    np.testing.assert_array_equal(time_step.observation, np.zeros([3, 1]))
    np.testing.assert_array_equal(time_step.step_type, [ts.StepType.FIRST] * 3)
    # 14 steps of each member; rollouts of 5 and 2 steps in each episode.
    assert int(learner.agent.steps) == 3 * 14
    assert int(learner.agent.train_step_counter) == 3 * 4


def test_a_rollout_goes_on_over_two_calls():
    updates = []
    for calls in ([8], [3, 5]):
        environment, learner = make()
        time_step = None
        for steps in calls:
            time_step = learner.run(environment, steps, time_step)
        updates.append(weights(learner))
    np.testing.assert_array_equal(*updates)


def test_a_worker_acts_with_its_copy_until_its_own_update():
    """The gradient of a rollout is that of the weights that acted, though others changed them."""
    environment, learner = make(lambda: Counting(100), count=1)
    time_step = learner.run(environment, 4)
    before = weights(learner)
    for variable in learner.agent.network.variables:
        variable.assign_add(tf.ones_like(variable))  # another worker's update
    learner.run(environment, 1, time_step)
    moved = weights(learner) - (before + 1.0)
    environment, alone = make(lambda: Counting(100), count=1)
    alone.run(environment, 5)
    np.testing.assert_allclose(moved, weights(alone) - before, atol=1e-6)
    assert np.abs(moved).max() > 1e-4


def test_the_learning_rate_falls_to_0_over_its_steps_and_stays_there():
    annealed = dataclasses.replace(SMALL, annealing_steps=40)
    environment, learner = make(lambda: Counting(1000), annealed, count=2)
    assert learner.metrics()["learning_rate"] == pytest.approx(7e-4)
    time_step = learner.run(environment, 10)
    assert learner.metrics()["learning_rate"] == pytest.approx(3.5e-4)
    time_step = learner.run(environment, 10, time_step)
    before = weights(learner)
    learner.run(environment, 10, time_step)
    metrics = learner.metrics()
    assert metrics["learning_rate"] == 0.0
    np.testing.assert_array_equal(weights(learner), before)
    assert set(metrics) == set(A3cLearner.METRICS)
    assert 0.0 < metrics["entropy"] <= np.log(2) + 1e-6


def test_rewards_are_clipped_to_1():
    class Rich(Counting):
        def step(self, action):
            observation, _, *rest = super().step(action)
            return observation, self.pay, *rest

    learnt = []
    for pay in (1.0, 1000.0, 0.5):
        Rich.pay = pay
        environment, learner = make(lambda: Rich(7))
        learner.run(environment, 20)
        learnt.append(weights(learner))
    np.testing.assert_array_equal(learnt[0], learnt[1])
    assert (learnt[0] != learnt[2]).any()


def test_the_norm_of_a_gradient_is_clipped():
    """One update from zero statistics moves the weights by rate * gradient / sqrt(epsilon)."""
    config = dataclasses.replace(SMALL, max_gradient_norm=1e-3, learning_rate=1.0, t_max=1)
    config = dataclasses.replace(config, rmsprop_epsilon=1.0)
    environment, learner = make(config=config, count=1)
    before = weights(learner)
    learner.run(environment, 1)
    assert np.linalg.norm(weights(learner) - before) == pytest.approx(1e-3, rel=1e-2)


def test_deterministic_runs_are_the_same_to_the_bit():
    runs = []
    for seed in (3, 3, 4):
        environment, learner = make(cartpole, seed=seed)
        seen = []
        learner.run(environment, 200, None, [lambda step, seen=seen: seen.append(step.action)])
        runs.append((weights(learner), np.array(seen)))
    np.testing.assert_array_equal(runs[0][0], runs[1][0])
    np.testing.assert_array_equal(runs[0][1], runs[1][1])
    assert (runs[0][0] != runs[2][0]).any()


def test_resumes_from_a_checkpoint_as_if_never_stopped(tmp_path):
    runs = []
    for stop in (False, True):
        environment, learner = make(cartpole, seed=1)
        learner.run(environment, 100)
        if stop:
            tf.train.Checkpoint(**learner.trackables()).write(str(tmp_path / "c"))
            arrays = learner.arrays()
            _, learner = make(cartpole, seed=2)
            tf.train.Checkpoint(**learner.trackables()).read(str(tmp_path / "c"))
            learner.restore_arrays(arrays)
        environment.seed(5)
        learner.run(environment, 100)
        runs.append(weights(learner))
        assert int(learner.agent.steps) > 300
    np.testing.assert_array_equal(*runs)


def test_evaluations_are_seeded_and_leave_no_trace():
    environment, learner = make(cartpole, seed=1)
    time_step = learner.run(environment, 20)
    drawn = []
    for seed in (1, 2, 1):
        learner.begin_evaluation(seed)
        actions = [learner.agent.policy.action(time_step).action.numpy() for _ in range(30)]
        drawn.append(np.array(actions))
    np.testing.assert_array_equal(drawn[0], drawn[2])
    assert (drawn[0] != drawn[1]).any()
    assert 0 < drawn[0].mean() < 1  # sampled, not greedy
    learner.run(environment, 50, time_step)
    other_environment, other = make(cartpole, seed=1)
    time_step = other.run(other_environment, 20)
    other.run(other_environment, 50, time_step)
    np.testing.assert_array_equal(weights(learner), weights(other))


def test_actions_are_drawn_with_the_probabilities_of_the_softmax():
    environment, learner = make(lambda: SmallLock(1), count=1)
    layer = learner.agent.network.get_layer("logits")
    layer.kernel.assign(tf.zeros_like(layer.kernel))
    layer.bias.assign(np.log([0.6, 0.3, 0.1]))
    first = environment.reset()
    many = ts.TimeStep(*(np.repeat(part, 20_000, axis=0) for part in first))
    for policy in (learner.agent.policy, learner.agent.collect_policy):
        actions = policy.action(many).action.numpy()
        np.testing.assert_allclose(np.bincount(actions) / 20_000, [0.6, 0.3, 0.1], atol=0.02)
        probabilities = policy.distribution(first).action.probs_parameter()
        np.testing.assert_allclose(probabilities, [[0.6, 0.3, 0.1]], rtol=1e-5)


def test_other_drivers_and_the_agents_own_train_learn_too():
    environment, learner = make()
    before = weights(learner)
    NStepDriver(environment, learner.agent.collect_policy, [learner.observe]).run(20)
    # Rollouts of 5 and 2 steps in each of two episodes; the third episode is at its fourth step.
    assert int(learner.agent.train_step_counter) == 2 * 4
    assert (weights(learner) != before).any()
    rows = []
    NStepDriver(environment, learner.agent.collect_policy, [rows.append]).run(6)
    experience = tf.nest.map_structure(lambda *parts: np.stack(parts, axis=1), *rows)
    before = weights(learner)
    info = learner.agent.train(tf.nest.map_structure(tf.convert_to_tensor, experience))
    assert isinstance(info, tf_agent.LossInfo)
    assert int(learner.agent.train_step_counter) == 2 * 4 + 1
    assert (weights(learner) != before).any()


def test_an_error_in_a_worker_ends_the_run():
    class Broken(Counting):
        def step(self, action):
            raise RuntimeError("the emulator is gone")

    environment, learner = make(lambda: Broken(7), ASYNCHRONOUS)
    with pytest.raises(RuntimeError, match="the emulator is gone"):
        learner.run(environment, 10)


def test_environments_that_only_this_process_has_are_played_in_turn():
    environment = GymnasiumEnvironment([Counting(7), Counting(7)], seed=0)
    specs = environment.time_step_spec(), environment.action_spec()
    runs = []
    for config in (SMALL, ASYNCHRONOUS):
        learner = A3cLearner(*specs, actor_critic.body((1,), 16, 0), config, 0)
        learner.run(environment, 20)
        runs.append(weights(learner))
    np.testing.assert_array_equal(*runs)


@pytest.mark.parametrize(
    "wrong", [{"t_max": 0}, {"annealing_steps": 0}, {"discount": 2.0}, {"rmsprop_epsilon": 0.0}]
)
def test_wrong_settings_are_refused_by_name(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        A3cConfig(**wrong)


def mean_return(learner, episodes, seed):
    """Returns the mean return of whole CartPole episodes under the evaluation policy."""
    environment = GymnasiumEnvironment([cartpole() for _ in range(episodes)], seed=seed)
    learner.begin_evaluation(seed)
    act = tf.function(learner.agent.policy.action)
    time_step, playing, total = environment.reset(), np.ones(episodes, bool), 0.0
    while playing.any():
        time_step = environment.step(act(time_step).action.numpy())
        total += float(np.sum(time_step.reward, where=playing))
        playing &= time_step.step_type != ts.StepType.LAST
    return total / episodes


def test_asynchronous_workers_learn_to_balance_a_pole():
    """20 episodes: random play scores about 22, the threshold is 80, learning rate 0 scores 18."""
    environment, learner = make(cartpole, A3cConfig.small(), seed=1)
    assert not learner.agent.config.deterministic
    assert mean_return(learner, 20, seed=1) < 40
    time_step = None
    for _ in range(200):
        time_step = learner.run(environment, 50, time_step)
    assert mean_return(learner, 20, seed=1) >= 80


def test_the_agent_can_be_made_without_settings_and_seed():
    environment, _ = make()
    specs = environment.time_step_spec(), environment.action_spec()
    agent = A3cAgent(*specs, actor_critic.body((1,), 256))
    assert agent.policy.action(environment.reset()).action.shape == [2]
