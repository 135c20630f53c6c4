import numpy as np
import pytest
from reference import by_equation_3
from small_environments import Counting
from tf_agents.policies import random_tf_policy
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts
from tf_agents.trajectories import trajectory

from nec_tf.environments.gymnasium_env import GymnasiumEnvironment
from nec_tf.n_step_driver import NStepDriver, NStepObserver
from nec_tf.policies import NecInfo

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
    info = NecInfo(
        np.stack([s["policy_info"].key for s in steps]),
        np.stack([s["policy_info"].best_q for s in steps]),
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


def test_every_step_comes_once_in_order_with_its_own_state_action_and_key():
    (pieces,) = collect([[Episode(np.random.default_rng(0), 50, True)]], 5, 8).values()
    np.testing.assert_array_equal(np.concatenate([p.observations for p in pieces]), np.arange(50))
    np.testing.assert_array_equal(np.concatenate([p.actions for p in pieces]), np.arange(50) % 3)
    np.testing.assert_array_equal(np.concatenate([p.keys for p in pieces])[:, 0], np.arange(50))
    assert [len(p.actions) for p in pieces] == [8, 8, 8, 8, 8, 10]


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
