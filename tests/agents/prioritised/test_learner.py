"""Prioritised Replay against numbers worked out by hand, and on CartPole."""

import dataclasses

import cartpole
import numpy as np
import pytest
import tensorflow as tf
from small_environments import Counting
from tf_agents.trajectories import time_step as ts
from tf_agents.trajectories import trajectory

from nec_tf.agents.n_step_driver import NStepDriver
from nec_tf.agents.prioritised.config import PrioritisedConfig
from nec_tf.agents.prioritised.learner import PrioritisedLearner
from nec_tf.environments.gymnasium_env import GymnasiumEnvironment
from nec_tf.networks import encoders
from nec_tf.runtime.errors import UserError

SMALL = PrioritisedConfig(
    key_size=8,
    replay_capacity=100,
    learning_starts=20,
    target_period=5,
    batch_size=8,
    importance_until=100,
)


def make(config=SMALL, seed=0, length=1000):
    environment = GymnasiumEnvironment([Counting(length)], seed=seed)
    embedding = encoders.mlp((1,), config.key_size, seed=seed)
    specs = environment.time_step_spec(), environment.action_spec()
    return environment, PrioritisedLearner(*specs, embedding, config, seed)


def drive(environment, learner, steps):
    NStepDriver(environment, learner.agent.collect_policy, [learner.observe]).run(steps)


def pair(reward, discount, observations, action=1):
    """One step [1, 2] of a replay, and the step after it."""
    return trajectory.Trajectory(
        step_type=np.full((1, 2), ts.StepType.MID, np.int32),
        observation=np.array(observations, np.float32).reshape(1, 2, 1),
        action=np.full((1, 2), action, np.int64),
        policy_info=(),
        next_step_type=np.full((1, 2), ts.StepType.MID, np.int32),
        reward=np.full((1, 2), reward, np.float32),
        discount=np.full((1, 2), discount, np.float32),
    )


def loss_of(learner, experience, weights=None):
    tensors = tf.nest.map_structure(tf.convert_to_tensor, experience)
    return learner.agent.loss(tensors, weights=weights, gamma=0.99)  # which would be 1 here


@pytest.mark.parametrize("discount", [1, 0])
def test_the_network_chooses_the_next_action_and_the_target_rates_it(discount):
    _, learner = make()
    agent = learner.agent
    bias = agent._target_q_network.variables[-1]
    q = agent._q_network(np.float32([[4]]))[0].numpy()[0]
    # The target's best action is the other one.
    bias.assign(np.where(np.arange(2) == q.argmax(), -1.0, 1.0))
    rated = agent._target_q_network(np.float32([[4]]))[0].numpy()[0]
    assert rated.argmax() != q.argmax()
    predicted = agent._q_network(np.float32([[3]]))[0].numpy()[0, 1]
    error = loss_of(learner, pair(0.5, discount, [3, 4])).extra.td_error.numpy()
    expected = 0.5 + 0.99 * discount * rated[q.argmax()] - predicted
    np.testing.assert_allclose(error, [expected], rtol=1e-4, atol=1e-6)


def test_the_loss_is_weighted_by_importance():
    _, learner = make()
    full, half = (
        float(loss_of(learner, pair(0.5, 1, [3, 4]), np.float32([weight])).loss)
        for weight in (1.0, 0.5)
    )
    assert full > 0
    assert half == pytest.approx(full / 2, rel=1e-5)


def test_an_update_gives_the_steps_drawn_their_errors_as_priorities():
    _, learner = make(dataclasses.replace(SMALL, priority_exponent=1.0, batch_size=6))
    environment = GymnasiumEnvironment([Counting(1000)], seed=0)
    drive(environment, learner, 20)  # no update yet
    steps = learner.replay.draw(np.random.default_rng(0), 6)  # as the learner will, by its seed
    errors = loss_of(learner, learner.replay.get(steps)).extra.td_error.numpy()
    assert (np.abs(errors) > 1).any()
    weights = learner.replay.importance_weights(steps, 0.4)
    loss = float(loss_of(learner, learner.replay.get(steps), weights).loss)
    assert learner._update() == pytest.approx(loss, rel=1e-5)
    found = learner.replay._tree.weights[steps]
    np.testing.assert_allclose(found, np.abs(errors) + 1e-6, rtol=1e-4)


def test_the_correction_grows_from_its_initial_value_to_1():
    environment, learner = make()
    assert learner.metrics()["importance_exponent"] == 0.4
    drive(environment, learner, 50)
    assert learner.metrics()["importance_exponent"] == pytest.approx(0.7)
    drive(environment, learner, 100)
    assert learner.metrics()["importance_exponent"] == 1.0


def test_the_published_settings():
    config = PrioritisedConfig()
    assert config.learning_rate == 6.25e-5
    assert (config.priority_exponent, config.importance_exponent) == (0.6, 0.4)
    assert (config.batch_size, config.update_period, config.replay_capacity) == (32, 4, 10**6)


@pytest.mark.parametrize(
    "wrong",
    [
        {"priority_exponent": -1.0},
        {"priority_floor": 0.0},
        {"importance_exponent": 1.5},
        {"importance_until": 0},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(UserError, match=next(iter(wrong))):
        PrioritisedConfig(**wrong)


def test_learns_to_keep_the_pole_up():
    """20 episodes: random play scores about 22, the threshold is 100, learning rate 0 scores 9."""
    assert cartpole.random_score() < 40
    config = PrioritisedConfig.small(
        learning_rate=1e-3, rmsprop_epsilon=1e-5, target_period=100, epsilon_until=2_000
    )
    assert cartpole.learned_score(PrioritisedLearner, config, 6_000, seed=1) >= 100
