import numpy as np
import pytest
import tensorflow as tf
from reference import by_equation_3
from small_environments import Counting
from tf_agents.environments import random_tf_environment, tf_py_environment
from tf_agents.policies import random_py_policy, random_tf_policy, tf_policy
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import policy_step, trajectory
from tf_agents.trajectories import time_step as ts

from nec_tf.agents.n_step_driver import NStepDriver
from nec_tf.agents.n_step_window import NStepObserver, NStepWindow
from nec_tf.agents.policies import NecInfo
from nec_tf.agents.returns import greedy_returns
from nec_tf.environments.gymnasium_env import GymnasiumEnvironment, SingleGymnasiumEnvironment

GAMMA = 0.9


class Episode:
    """Numbered states with random rewards and values, as the trajectories a driver shows."""

    def __init__(self, rng, length, terminated):
        self.rewards = rng.normal(size=length)
        self.values = rng.normal(size=length + 1)  # max Q of every state, the last one included
        self.terminated = terminated

    def steps(self):
        length = len(self.rewards)
        for t in range(length):
            ends = t + 1 == length
            yield dict(
                step_type=ts.StepType.FIRST if t == 0 else ts.StepType.MID,
                observation=float(t),
                action=t % 3,
                policy_info=NecInfo(np.full(2, t, np.float32), self.values[t]),
                next_step_type=ts.StepType.LAST if ends else ts.StepType.MID,
                reward=self.rewards[t],
                discount=0.0 if ends and self.terminated else 1.0,
            )
        yield dict(  # the step between episodes, for which the policy sees the last observation
            step_type=ts.StepType.LAST,
            observation=float(length),
            action=0,
            policy_info=NecInfo(np.full(2, length, np.float32), self.values[-1]),
            next_step_type=ts.StepType.FIRST,
            reward=0.0,
            discount=1.0,
        )

    def returns(self, n):
        values = np.append(self.values[:-1], 0.0 if self.terminated else self.values[-1])
        return by_equation_3(self.rewards, values, GAMMA, n)


def batch(*steps):
    """One trajectory [B] of several environments' steps."""
    taken = tuple(s["policy_info"].taken_q for s in steps)
    info = NecInfo(
        np.stack([s["policy_info"].key for s in steps]),
        np.stack([s["policy_info"].best_q for s in steps]),
        () if isinstance(taken[0], tuple) else np.stack(taken),
    )
    stacked = {
        name: np.array([s[name] for s in steps]) for name in steps[0] if name != "policy_info"
    }
    return trajectory.Trajectory(policy_info=info, **stacked)


def collect(episodes_of_streams, n, write_every):
    """Feeds episodes of several environments side by side; returns what came out by stream."""
    received = {stream: [] for stream in range(len(episodes_of_streams))}
    observer = NStepObserver(n, GAMMA, lambda t: received[t.stream].append(t), write_every)
    streams = [[step for e in episodes for step in e.steps()] for episodes in episodes_of_streams]
    for steps in zip(*streams, strict=True):
        observer(batch(*steps))
    return received


@pytest.mark.parametrize("n", [1, 3, 100])
@pytest.mark.parametrize("write_every", [1, 4, 64])
@pytest.mark.parametrize("terminated", [True, False])
def test_returns_are_those_of_equation_3(n, write_every, terminated):
    rng = np.random.default_rng(0)
    episodes = [Episode(rng, length, terminated) for length in (7, 1, 30)]
    (pieces,) = collect([episodes], n, write_every).values()
    np.testing.assert_allclose(
        np.concatenate([piece.returns for piece in pieces]),
        np.concatenate([episode.returns(n) for episode in episodes]),
        rtol=1e-5,
        atol=1e-6,
    )


@pytest.mark.parametrize("write_every", [1, 4, 64])
def test_greedy_returns_cut_at_actions_below_the_best_q(write_every):
    rng, received = np.random.default_rng(1), []
    episode, taken = Episode(rng, 30, True), rng.integers(0, 2, 31)
    observer = NStepObserver(3, GAMMA, received.append, write_every, greedy_returns=True)
    for step, below in zip(episode.steps(), taken, strict=True):
        info = step["policy_info"]
        observer(batch({**step, "policy_info": info._replace(taken_q=info.best_q - below)}))
    values = np.append(episode.values[:-1], 0.0)
    expected = greedy_returns(episode.rewards, values, taken[:30] == 0, GAMMA, 3)
    np.testing.assert_allclose(np.concatenate([p.returns for p in received]), expected, rtol=1e-5)
    assert not np.allclose(expected, episode.returns(3))


def test_greedy_returns_without_the_q_of_the_action_taken_are_refused():
    step = next(iter(Episode(np.random.default_rng(0), 5, True).steps()))
    with pytest.raises(ValueError, match="greedy_returns is on"):
        NStepObserver(3, GAMMA, print, greedy_returns=True)(batch(step))


def test_every_step_comes_once_in_order_with_its_own_state_action_and_key():
    (pieces,) = collect([[Episode(np.random.default_rng(0), 50, True)]], 5, 8).values()
    np.testing.assert_array_equal(np.concatenate([p.observations for p in pieces]), np.arange(50))
    np.testing.assert_array_equal(np.concatenate([p.actions for p in pieces]), np.arange(50) % 3)
    np.testing.assert_array_equal(np.concatenate([p.keys for p in pieces])[:, 0], np.arange(50))
    assert [len(p.actions) for p in pieces] == [8, 8, 8, 8, 8, 10]


def test_steps_that_wait_can_be_given_new_keys():
    received = []
    window = NStepWindow(3, GAMMA, write_every=2)
    for number, step in enumerate(Episode(np.random.default_rng(0), 9, True).steps()):
        if number == 7:
            window.replace_keys(lambda observations: np.stack([-observations] * 2, axis=1))
        received += window.add(batch(step))
    keys = np.concatenate([piece.keys for piece in received])[:, 0]
    # Steps 0 to 3 were handed on before, 4 to 6 waited.
    np.testing.assert_array_equal(keys, [0, 1, 2, 3, -4, -5, -6, 7, 8])


def test_environments_side_by_side_do_not_mix():
    rng = np.random.default_rng(0)
    streams = [
        [Episode(rng, 5, True), Episode(rng, 12, False)],
        [Episode(rng, 14, False), Episode(rng, 3, True)],
    ]
    received = collect(streams, 4, 3)
    for stream, episodes in enumerate(streams):
        np.testing.assert_allclose(
            np.concatenate([piece.returns for piece in received[stream]]),
            np.concatenate([episode.returns(4) for episode in episodes]),
            rtol=1e-5,
            atol=1e-6,
        )


def test_horizon_below_one_is_refused():
    with pytest.raises(ValueError, match="horizon"):
        NStepObserver(0, 0.9, print)


def test_driver_shows_every_step_of_every_environment():
    environment = GymnasiumEnvironment([Counting(3), Counting(5)], seed=0)
    policy = random_tf_policy.RandomTFPolicy(
        tensor_spec.from_spec(environment.time_step_spec()),
        tensor_spec.from_spec(environment.action_spec()),
    )
    seen = []
    driver = NStepDriver(environment, policy, [seen.append])
    time_step = driver.run(4)
    driver.run(8, time_step)
    rewards = np.stack([step.reward for step in seen])
    np.testing.assert_array_equal(rewards[:, 0], [1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0])
    np.testing.assert_array_equal(rewards[:, 1], [1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 0])
    observations = np.stack([step.observation[:, 0] for step in seen])
    np.testing.assert_array_equal(observations[:8, 0], [0, 1, 2, 3, 0, 1, 2, 3])


def test_an_episode_that_a_reset_breaks_off_bootstraps_from_its_last_state():
    broken, whole = (Episode(np.random.default_rng(seed), 6, True) for seed in (0, 1))
    received = []
    observer = NStepObserver(100, GAMMA, received.append)
    for step in [*list(broken.steps())[:4], *whole.steps()]:
        observer(batch(step))
    first, second = (piece.returns for piece in received)
    np.testing.assert_allclose(
        first, by_equation_3(broken.rewards[:3], broken.values[:4], GAMMA, 100), rtol=1e-5
    )
    np.testing.assert_allclose(second, whole.returns(100), rtol=1e-5)


def test_steps_without_a_batch_dimension_are_those_of_one_environment():
    episode, received = Episode(np.random.default_rng(0), 7, True), []
    observer = NStepObserver(3, GAMMA, received.append)
    for step in episode.steps():
        observer(tf.nest.map_structure(lambda array: array[0], batch(step)))
    (piece,) = received
    np.testing.assert_allclose(piece.returns, episode.returns(3), rtol=1e-5)


def test_an_observer_inside_a_graph_sees_every_step_in_order():
    episode, received = Episode(np.random.default_rng(0), 7, True), []
    observer = NStepObserver(3, GAMMA, received.append)
    take = tf.function(observer)
    for step in episode.steps():
        take(tf.nest.map_structure(tf.constant, batch(step)))
    (piece,) = received
    np.testing.assert_allclose(piece.returns, episode.returns(3), rtol=1e-5)


def test_a_policy_that_does_not_report_keys_is_refused():
    step = batch(next(Episode(np.random.default_rng(0), 2, True).steps()))
    with pytest.raises(ValueError, match="collect_policy"):
        NStepObserver(3, GAMMA, print)(step._replace(policy_info=()))


def rewards_of(environment, policy, steps):
    seen = []
    NStepDriver(environment, policy, [seen.append]).run(steps)
    return np.stack([step.reward for step in seen])


COUNTED = [1, 2, 3, 0, 1, 2, 3, 0]  # the rewards of Counting(3), with the steps between episodes


@pytest.mark.parametrize("kind", ["batched", "single", "tensorflow", "tensorflow of one"])
@pytest.mark.parametrize("of_python", [False, True])
def test_the_driver_takes_any_environment_and_policy(kind, of_python):
    single = SingleGymnasiumEnvironment(Counting(3), seed=0)
    environment = {
        "batched": GymnasiumEnvironment([Counting(3)], seed=0),
        "single": single,
        "tensorflow": tf_py_environment.TFPyEnvironment(GymnasiumEnvironment([Counting(3)])),
        "tensorflow of one": tf_py_environment.TFPyEnvironment(single),
    }[kind]
    specs = single.time_step_spec(), single.action_spec()
    policy = (
        random_py_policy.RandomPyPolicy(*specs, outer_dims=(1,))
        if of_python
        else random_tf_policy.RandomTFPolicy(*map(tensor_spec.from_spec, specs))
    )
    np.testing.assert_array_equal(rewards_of(environment, policy, 8)[:, 0], COUNTED)


def test_the_driver_takes_an_environment_written_in_tensorflow():
    single = SingleGymnasiumEnvironment(Counting(3))
    specs = map(tensor_spec.from_spec, (single.time_step_spec(), single.action_spec()))
    environment = random_tf_environment.RandomTFEnvironment(*specs, batch_size=2)
    policy = random_tf_policy.RandomTFPolicy(
        environment.time_step_spec(), environment.action_spec()
    )
    assert rewards_of(environment, policy, 5).shape == (5, environment.batch_size)


class Remembering(tf_policy.TFPolicy):
    """Its state counts its calls, and is its action."""

    def __init__(self, specs):
        super().__init__(*specs, policy_state_spec=tf.TensorSpec([], tf.int64))

    def _action(self, time_step, policy_state, seed=None):
        return policy_step.PolicyStep(policy_state % 2, policy_state + 1, ())


def test_the_driver_carries_the_state_of_a_policy_from_step_to_step():
    environment = GymnasiumEnvironment([Counting(3), Counting(5)], seed=0)
    specs = map(tensor_spec.from_spec, (environment.time_step_spec(), environment.action_spec()))
    seen = []
    driver = NStepDriver(environment, Remembering(tuple(specs)), [seen.append])
    driver.run(4, driver.run(3))
    assert [step.action.tolist() for step in seen] == [[t % 2, t % 2] for t in range(7)]
