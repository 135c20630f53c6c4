"""Q*(lambda) and Retrace(lambda) on replayed sequences, against a slow loop and on CartPole."""

import dataclasses

import cartpole
import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from reference import by_equation_4
from small_environments import Counting
from tf_agents.trajectories import time_step as ts

from nec_tf.agents.dqn.agent import DqnAgent
from nec_tf.agents.lambda_returns.config import QStarLambdaConfig, RetraceLambdaConfig
from nec_tf.agents.lambda_returns.learner import QStarLambdaLearner, RetraceLambdaLearner
from nec_tf.agents.n_step_driver import NStepDriver
from nec_tf.environments.gymnasium_env import GymnasiumEnvironment
from nec_tf.networks import encoders
from nec_tf.runtime.errors import UserError

SETTINGS = {
    "key_size": 8,
    "replay_capacity": 200,
    "learning_starts": 40,
    "target_period": 5,
    "sequence_length": 6,
    "epsilon_until": 100,
}
Q_STAR = QStarLambdaConfig(**SETTINGS, trace_decay=0.8)
RETRACE = RetraceLambdaConfig(**SETTINGS, trace_decay=0.8, target_epsilon=0.2)
AGENTS = [(QStarLambdaLearner, Q_STAR), (RetraceLambdaLearner, RETRACE)]


def make(learner_class, config, seed=0, length=4, count=1, truncated=False):
    def game():
        if truncated:
            return gymnasium.wrappers.TimeLimit(Counting(1000), length)
        return Counting(length)

    environment = GymnasiumEnvironment([game() for _ in range(count)], seed=seed)
    embedding = encoders.mlp((1,), config.key_size, seed=seed)
    specs = environment.time_step_spec(), environment.action_spec()
    return environment, learner_class(*specs, embedding, config, seed)


def drive(environment, learner, steps):
    NStepDriver(environment, learner.agent.collect_policy, [learner.observe]).run(steps)


def tensors(experience):
    return tf.nest.map_structure(tf.convert_to_tensor, experience)


def returns_by_loop(learner, sequence, retrace, decay, epsilon):
    """The returns of one sequence [T + 1], each episode in it by the definition."""
    q = learner.agent._target_q_network(sequence.observation)[0].numpy().astype(float)
    pi = np.full(q.shape, epsilon / 2)
    pi[np.arange(len(q)), q.argmax(axis=1)] += 1 - epsilon
    mu = np.exp(sequence.policy_info.log_probability)
    steps = len(mu) - 1
    found = np.full(steps, np.nan)
    for t in range(steps):
        if sequence.step_type[t] == ts.StepType.LAST:
            continue
        end = t  # the last step of the episode, or of the sequence
        while end + 1 < steps and sequence.step_type[end + 1] != ts.StepType.LAST:
            end += 1
        rows = range(t, end + 1)
        actions = sequence.action[t : end + 1]
        traces = [
            decay * (min(1.0, pi[k, a] / mu[k]) if retrace else 1.0)
            for k, a in zip(rows, actions, strict=True)
        ]
        values = [float(pi[k + 1] @ q[k + 1]) * sequence.discount[k] for k in rows]
        found[t] = by_equation_4(
            sequence.reward[t : end + 1],
            0.99,
            [q[k, a] for k, a in zip(rows, actions, strict=True)],
            values,
            traces,
        )
    return found


@pytest.mark.parametrize("truncated", [False, True], ids=["terminated", "truncated"])
@pytest.mark.parametrize(("learner_class", "config"), AGENTS)
def test_returns_of_replayed_sequences_are_those_of_a_slow_loop(learner_class, config, truncated):
    """Episodes of four steps, so that sequences of six run over their ends."""
    environment, learner = make(learner_class, config, truncated=truncated)
    drive(environment, learner, 120)  # epsilon falls: probabilities differ; the target lags
    experience = learner.replay.sample(np.random.default_rng(0), 20)
    assert experience.observation.shape == (20, 7, 1)
    assert (experience.discount == 1).all() == truncated
    found = learner.agent.returns(tensors(experience)).numpy()
    epsilon = getattr(config, "target_epsilon", 0.0)
    boundaries = 0
    for row in range(20):
        sequence = tf.nest.map_structure(lambda array, row=row: array[row], experience)
        retrace = config is RETRACE
        expected = returns_by_loop(learner, sequence, retrace, config.trace_decay, epsilon)
        boundaries += np.isnan(expected).sum()
        known = ~np.isnan(expected)
        np.testing.assert_allclose(found[row][known], expected[known], rtol=1e-4, atol=1e-5)
    assert boundaries > 10


@pytest.mark.parametrize(("learner_class", "config"), AGENTS)
def test_the_loss_is_hubers_of_the_returns_and_steps_between_episodes_count_nothing(
    learner_class, config
):
    environment, learner = make(learner_class, config)
    drive(environment, learner, 60)
    experience = learner.replay.sample(np.random.default_rng(0), 5)
    returns = learner.agent.returns(tensors(experience)).numpy()
    q = learner.agent._q_network(experience.observation.reshape(-1, 1))[0].numpy().reshape(5, 7, 2)
    taken = np.take_along_axis(q, experience.action[..., None], axis=2)[:, :-1, 0]
    error = np.abs(returns - taken)
    huber = np.where(error < 1, error**2 / 2, error - 0.5)
    played = experience.step_type[:, :-1] != ts.StepType.LAST
    assert not played.all()
    info = learner.agent.loss(tensors(experience))
    assert float(info.loss) == pytest.approx(np.mean(huber * played), rel=1e-4)
    np.testing.assert_array_equal(info.extra.td_error.numpy() != 0, played)


def test_with_lambda_0_and_a_greedy_target_both_are_dqn():
    """The same minibatch gives the loss of TF-Agents' DQN on each of its pairs."""
    config = dataclasses.replace(RETRACE, trace_decay=0.0, target_epsilon=0.0)
    environment, learner = make(RetraceLambdaLearner, config)
    drive(environment, learner, 60)
    agent, experience = learner.agent, tensors(learner.replay.sample(np.random.default_rng(0), 4))
    errors = agent.loss(experience).extra.td_error
    for t in range(6):
        pair = tf.nest.map_structure(lambda array, t=t: array[:, t : t + 2], experience)
        expected = super(DqnAgent, agent)._loss(pair, gamma=0.99).extra.td_error
        np.testing.assert_allclose(errors[:, t], expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("repeats", [1, 5])
def test_the_stored_probability_is_that_of_the_policy_that_played(repeats):
    config = dataclasses.replace(Q_STAR, exploration_repeats=repeats, learning_starts=150)
    environment, learner = make(QStarLambdaLearner, config, count=3)
    expected, found = [], []

    def observe(step):
        found.extend(step.policy_info.log_probability)
        learner.observe(step)

    def note(time_step):
        distribution = learner.agent.collect_policy.distribution(tensors(time_step)).action
        expected.append(distribution.probs_parameter().numpy())

    driver = NStepDriver(environment, learner.agent.collect_policy, [observe])
    time_step, taken = environment.reset(), []
    driver.observers.append(lambda step: taken.append(step.action))
    for _ in range(40):
        note(time_step)
        time_step = driver.run(1, time_step)
    chosen = np.take_along_axis(np.array(expected), np.array(taken)[..., None], axis=2)
    np.testing.assert_allclose(np.exp(found), chosen.ravel(), rtol=1e-5)
    assert len(set(np.round(chosen.ravel(), 3))) > 10


@pytest.mark.parametrize(("learner_class", "config"), AGENTS)
def test_several_environments_train_as_often_for_a_step(learner_class, config):
    config = dataclasses.replace(config, learning_starts=80)
    environment, learner = make(learner_class, config, length=1000, count=8)
    drive(environment, learner, 20)
    assert int(learner.agent.train_step_counter) == (160 - 80) // 4


def test_sequences_longer_than_what_learning_waits_for_are_refused():
    with pytest.raises(UserError, match="learning_starts must be above sequence_length"):
        QStarLambdaConfig.small(learning_starts=10)


def test_too_few_steps_of_each_environment_are_an_error_that_names_the_setting():
    config = dataclasses.replace(Q_STAR, learning_starts=8)
    environment, learner = make(QStarLambdaLearner, config, length=1000, count=8)
    with pytest.raises(ValueError, match="raise learning_starts"):
        drive(environment, learner, 20)


@pytest.mark.parametrize(
    ("learner_class", "config_class"),
    [(QStarLambdaLearner, QStarLambdaConfig), (RetraceLambdaLearner, RetraceLambdaConfig)],
)
def test_learns_to_keep_the_pole_up(learner_class, config_class):
    """20 episodes: random play scores about 22, the threshold is 80, learning rate 0 scores 9."""
    assert cartpole.random_score() < 40
    config = config_class.small(
        learning_rate=1e-3, rmsprop_epsilon=1e-5, target_period=100, epsilon_until=2_000
    )
    assert cartpole.learned_score(learner_class, config, 6_000, seed=1) >= 80
