import numpy as np
import pytest
import tensorflow as tf
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts

from nec_tf.agents.exploration import Exploration
from nec_tf.agents.exploration_config import ExplorationConfig
from nec_tf.agents.policies import EpisodicPolicy, EpsilonGreedyPolicy, NecInfo

TIME_STEP_SPEC = ts.time_step_spec(tf.TensorSpec([4], tf.float32))
ACTION_SPEC = tensor_spec.BoundedTensorSpec([], tf.int64, 0, 3)


class QFunction:
    """Q-values are the observation itself, keys twice that."""

    def __call__(self, observation):
        return 2 * observation, observation

    def keys(self, observation):
        return 2 * observation

    def candidates(self, keys):
        return keys.numpy() / 4  # a half of the observation

    def q_values(self, keys, candidates):
        return keys - 2 * candidates


def make_policy(epsilon, info_spec=(), seed=0):
    generator = tf.random.Generator.from_seed(seed)
    return EpisodicPolicy(TIME_STEP_SPEC, ACTION_SPEC, QFunction(), epsilon, generator, info_spec)


def act(policy, observations):
    return policy.action(ts.restart(tf.constant(observations, tf.float32), len(observations)))


def test_greedy_takes_the_highest_q_and_the_first_of_equals():
    actions = act(make_policy(0.0), [[0, 3, 1, 2], [5, 1, 5, 0], [0, 0, 0, 1]]).action
    assert actions.numpy().tolist() == [1, 0, 3]


def test_epsilon_one_is_uniform_over_all_actions():
    actions = act(make_policy(1.0), np.tile([0, 9, 0, 0], (8000, 1))).action.numpy()
    assert np.abs(np.bincount(actions, minlength=4) - 2000).max() < 200


def test_epsilon_is_the_share_of_random_actions():
    actions = act(make_policy(0.2), np.tile([0, 9, 0, 0], (20_000, 1))).action.numpy()
    assert np.mean(actions == 1) == pytest.approx(0.8 + 0.2 / 4, abs=0.01)


def test_reports_key_and_best_q_where_asked():
    spec = NecInfo(tf.TensorSpec([4], tf.float32), tf.TensorSpec([], tf.float32))
    info = act(make_policy(1.0, spec), [[0, 3, 1, 2], [5, 1, 5, 0]]).info
    np.testing.assert_array_equal(info.key, [[0, 6, 2, 4], [10, 2, 10, 0]])
    np.testing.assert_array_equal(info.best_q, [3, 5])
    assert act(make_policy(1.0), [[0, 3, 1, 2]]).info == ()


def test_reports_the_q_of_the_action_taken_where_asked():
    number = tf.TensorSpec([], tf.float32)
    spec = NecInfo(tf.TensorSpec([4], tf.float32), number, number)
    q = np.tile([0.0, 3, 1, 2], (50, 1))
    step = act(make_policy(1.0, spec), q)
    np.testing.assert_array_equal(step.info.taken_q, q[np.arange(50), step.action.numpy()])
    assert len(set(step.action.numpy())) > 1


def collecting(repeats=1, **settings):
    """A policy with an exploration schedule, and the schedule."""
    config = ExplorationConfig(exploration_repeats=repeats, **settings)
    exploration = Exploration(config, seed=0)
    specs = TIME_STEP_SPEC, ACTION_SPEC
    return EpsilonGreedyPolicy(*specs, lambda q: q, exploration, exploration.generator), exploration


def test_an_action_counts_a_step_for_each_state_of_the_batch():
    policy, exploration = collecting()
    act(policy, [[0, 3, 1, 2], [5, 1, 5, 0]])
    assert int(exploration.steps) == 2


def test_asking_for_the_distribution_counts_no_step_and_draws_nothing():
    policy, exploration = collecting(repeats=5, epsilon_from=10, epsilon_until=20)
    exploration.steps.assign(14)
    state = exploration.generator.state.numpy()
    step = ts.restart(tf.constant([[0.0, 3, 1, 2]]), 1)
    for _ in range(3):
        policy.distribution(step)
    assert int(exploration.steps) == 14
    np.testing.assert_array_equal(state, exploration.generator.state.numpy())


@pytest.mark.parametrize("repeats", [1, 4])
def test_the_distribution_is_the_one_that_actions_are_drawn_from(repeats):
    """Over many environments the frequencies of actions are the mean of the distributions."""
    count = 40_000
    policy, _ = collecting(repeats, epsilon_start=0.6, epsilon_end=0.6)
    step = ts.restart(tf.tile(tf.constant([[0.0, 3, 1, 2]]), [count, 1]), count)
    for _ in range(4):  # random actions last, and the next distributions have to know them
        probs = policy.distribution(step).action.probs_parameter().numpy()
        actions = policy.action(step).action.numpy()
        for action in range(4):
            for repeated in (probs[:, action] == 1.0, probs.max(axis=1) < 1.0):
                if repeated.any():
                    frequency = np.mean(actions[repeated] == action)
                    assert frequency == pytest.approx(probs[repeated, action].mean(), abs=0.015)
    assert (probs.max(axis=1) == 1.0).any() == (repeats > 1)


def test_the_same_seed_gives_the_same_actions():
    observations = np.zeros((50, 4))
    first, second, other = (act(make_policy(1.0, seed=s), observations).action for s in (1, 1, 2))
    np.testing.assert_array_equal(first, second)
    assert (first.numpy() != other.numpy()).any()


def test_distribution_gives_the_same_probabilities():
    step = ts.restart(tf.constant([[0.0, 3, 1, 2]]), 1)
    probs = make_policy(0.2).distribution(step).action.probs_parameter()
    np.testing.assert_allclose(probs, [[0.05, 0.85, 0.05, 0.05]], rtol=1e-6)


def test_acting_in_parts_is_acting():
    spec = NecInfo(tf.TensorSpec([4], tf.float32), tf.TensorSpec([], tf.float32))
    whole, parts = make_policy(0.5, spec), make_policy(0.5, spec).numpy_action()
    rng = np.random.default_rng(0)
    for _ in range(5):
        observations = rng.normal(size=(20, 4)).astype(np.float32)
        expected = act(whole, observations)
        step = parts(ts.restart(observations, 20))
        assert isinstance(step.action, np.ndarray)
        np.testing.assert_array_equal(step.action, expected.action)
        np.testing.assert_array_equal(step.info.key, expected.info.key)
        np.testing.assert_allclose(step.info.best_q, expected.info.best_q, rtol=1e-6)


def test_repeated_random_actions_take_the_place_of_single_ones():
    policy, exploration = collecting(repeats=5, epsilon_start=0.0, epsilon_end=0.0)
    exploration.repeated.left.assign([2, 0, 1])
    exploration.repeated.action.assign([2, 2, 0])
    assert act(policy, np.tile([0, 3, 1, 2], (3, 1))).action.numpy().tolist() == [2, 1, 0]


def test_q_values_of_any_kind_are_enough():
    generator = tf.random.Generator.from_seed(0)
    policy = EpsilonGreedyPolicy(TIME_STEP_SPEC, ACTION_SPEC, lambda q: -q, 0.0, generator)
    step = act(policy, [[0, 3, 1, 2], [5, 1, 5, 0]])
    assert step.action.numpy().tolist() == [0, 3]
    assert step.info == ()
