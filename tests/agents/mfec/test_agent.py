"""MFEC against a plain NumPy version of it, written from the paper (Blundell et al., 2016)."""

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts
from tf_agents.trajectories import trajectory

from nec_tf.agents.mfec.agent import MfecAgent
from nec_tf.agents.mfec.config import MfecConfig
from nec_tf.agents.mfec.learner import MfecLearner
from nec_tf.agents.policies import NecInfo
from nec_tf.networks import encoders

NUM_ACTIONS, CAPACITY, K = 3, 40, 4
TIME_STEP_SPEC = ts.time_step_spec(tf.TensorSpec([2], tf.float32))
ACTION_SPEC = tensor_spec.BoundedTensorSpec([], tf.int64, 0, NUM_ACTIONS - 1)
CONFIG = MfecConfig(key_size=3, capacity=CAPACITY, num_neighbours=K, index="exact")


class PlainMfec:
    """Tables of (state, value), one for each action; the least recently used goes when full."""

    def __init__(self, projection):
        self.projection = projection
        self.tables = [[] for _ in range(NUM_ACTIONS)]  # rows of [state, value, last used]
        self.time = 0
        self.matches = self.evictions = 0

    def values(self, state):
        """Q(s, a) of every action: the stored value of a match, or the mean of the k nearest."""
        q = []
        for table in self.tables:
            distances = [np.sum(((state - row[0]) @ self.projection) ** 2) for row in table]
            nearest = sorted(range(len(table)), key=lambda i: (distances[i], i))[:K]
            match = [row[1] for row in table if np.array_equal(row[0], state)]
            self.matches += len(match)
            q.append(match[0] if match else np.mean([table[i][1] for i in nearest] or [0.0]))
            for i in nearest:
                table[i][2] = self.time
        self.time += 1
        return q

    def write(self, states, actions, rewards):
        """At the end of an episode: the larger of the stored return and this one."""
        returns = np.cumsum(rewards[::-1])[::-1]
        for state, action, value in zip(states, actions, returns, strict=True):
            table = self.tables[action]
            known = next((row for row in table if np.array_equal(row[0], state)), None)
            if known:
                known[1:] = max(known[1], value), self.time
            elif len(table) < CAPACITY:
                table.append([state, value, self.time])
            else:
                oldest = min(range(CAPACITY), key=lambda i: (table[i][2], i))
                table[oldest] = [state, value, self.time]
                self.evictions += 1
            self.time += 1


def make_agent():
    embedding = encoders.random_projection((2,), CONFIG.key_size, seed=0)
    return MfecAgent(TIME_STEP_SPEC, ACTION_SPEC, embedding, CONFIG, seed=0)


def as_trajectory(state, action, info, reward, last, first):
    return trajectory.Trajectory(
        np.array([ts.StepType.FIRST if first else ts.StepType.MID]),
        state[None],
        np.array([action]),
        info,
        np.array([ts.StepType.LAST if last else ts.StepType.MID]),
        np.array([reward], np.float32),
        np.array([0.0 if last else 1.0], np.float32),
    )


def test_a_thousand_episodes_agree_with_the_plain_version():
    agent, rng = make_agent(), np.random.default_rng(0)
    plain = PlainMfec(agent.embedding.get_weights()[0].astype(np.float64))
    observer = agent.memory_observer()
    look = tf.function(lambda state: agent.dnd(agent.embedding(state)))
    places = rng.normal(size=(200, 2)).astype(np.float32)  # no two pairs of them equally far apart
    for _ in range(1000):
        length = int(rng.integers(1, 6))
        states = places[rng.integers(0, 200, length)]
        actions, rewards = rng.integers(0, NUM_ACTIONS, length), rng.integers(-3, 4, length)
        for t, state in enumerate(states):
            q = look(state[None])
            np.testing.assert_allclose(q[0], plain.values(state), rtol=1e-5, atol=1e-5)
            info = NecInfo(agent.embedding(state[None]).numpy(), tf.reduce_max(q, axis=1).numpy())
            step = as_trajectory(state, actions[t], info, rewards[t], t == length - 1, t == 0)
            observer(step)
        plain.write(states, actions, rewards)
    assert plain.matches > 500
    assert plain.evictions > 100
    tables = agent.dnd.tables
    for action, table in enumerate(plain.tables):
        rows = np.flatnonzero(tables.actions.numpy()[: int(tables.size)] == action)
        stored = sorted(tables.values.numpy()[rows].tolist())
        np.testing.assert_allclose(stored, sorted(row[1] for row in table), rtol=1e-5)


def test_nothing_is_trained_by_gradients():
    agent = make_agent()
    assert agent.embedding.trainable_variables == []
    before = agent.embedding.get_weights()[0]
    learner = MfecLearner(
        TIME_STEP_SPEC, ACTION_SPEC, encoders.random_projection((2,), 3, seed=0), CONFIG, 0
    )
    np.testing.assert_array_equal(learner.agent.embedding.get_weights()[0], before)


def test_the_settings_are_those_of_its_paper():
    config = MfecConfig()
    assert (config.num_neighbours, config.discount, config.capacity) == (11, 1.0, 10**6)
    assert (config.key_size, config.epsilon_end) == (64, 0.005)


@pytest.mark.parametrize("batch", [1, 2, 33])
def test_a_match_is_found_whatever_the_batch_that_it_comes_in(batch):
    """84 x 84 x 4 pixels: products of such length round differently in other batches."""
    embedding = encoders.random_projection((84, 84, 4), 64, seed=0)
    spec = ts.time_step_spec(tf.TensorSpec([84, 84, 4], tf.uint8))
    agent = MfecAgent(spec, ACTION_SPEC, embedding, MfecConfig(index="exact"), seed=0)
    rng = np.random.default_rng(0)
    states = rng.integers(0, 256, (40, 84, 84, 4), dtype=np.uint8)
    states[20:] = states[:20]
    states[20:, 0, 0, 0] += 1  # the smallest difference that there is
    keys = np.concatenate([embedding(state[None]) for state in states])
    values = rng.normal(size=40).astype(np.float32)
    agent.dnd.write(np.zeros(40, int), keys, values, np.arange(40))
    asked = np.concatenate([embedding(states[i : i + batch]) for i in range(0, 40, batch)])
    np.testing.assert_allclose(agent.dnd(asked)[:, 0], values, rtol=1e-5)
