"""Mechanics of memories whose figures can be worked out by hand."""

import math

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts

from nec_tf.agents.nec.agent import NecAgent
from nec_tf.agents.nec.config import NecConfig
from nec_tf.memory.diagnostics import inspect
from nec_tf.memory.state_ids import hash_states
from nec_tf.replay.return_replay import Sample

STATES = np.array([[0.0, 0.0], [1, 0], [0, 2], [5, 5], [6, 5], [5, 7]], np.float32)
ACTIONS = np.array([0, 0, 0, 1, 1, 1])
RETURNS = np.array([1, 2, 4, 10, 20, 30], np.float32)


class Scale(tf.keras.layers.Layer):
    """Keys are states times a number."""

    def build(self, shape):
        del shape
        self.factor = self.add_weight(name="factor", initializer="ones")

    def call(self, inputs):
        return self.factor * inputs


@pytest.fixture
def agent():
    embedding = tf.keras.Sequential([tf.keras.layers.InputLayer((2,)), Scale()])
    agent = NecAgent(
        ts.time_step_spec(tf.TensorSpec([2], tf.float32)),
        tensor_spec.BoundedTensorSpec([], tf.int64, 0, 1),
        embedding,
        NecConfig(key_size=2, num_neighbours=2, capacity=10, index="exact"),
        seed=0,
    )
    agent.dnd.write(ACTIONS, STATES, RETURNS, hash_states(STATES))
    return agent


def sample(*which):
    places = list(which)
    return Sample(STATES[places], ACTIONS[places], RETURNS[places])


def test_an_exact_index_and_a_still_network(agent):
    mechanics = inspect(agent, sample(*range(6)))
    assert mechanics.recall == 1.0
    assert mechanics.key_drift == 0.0
    assert mechanics.outermost == pytest.approx(1.0)  # the median of 1, 1, 2, 1, 1, 2
    assert inspect(agent, sample(2)).outermost == pytest.approx(2.0)
    # A state is its own nearest neighbour, at 1 / 0.001; the other is at 1 or 4.
    own = np.array([1000 / (1000 + 1 / (d2 + 0.001)) for d2 in (1, 1, 4, 1, 1, 4)])
    assert mechanics.nearest_weight == pytest.approx(own.mean(), rel=1e-5)
    other = np.array([2, 1, 1, 20, 10, 10])
    q = own * RETURNS + (1 - own) * other
    assert mechanics.q_bias == pytest.approx(np.mean(q - RETURNS), abs=1e-5)
    assert mechanics.q_correlation == pytest.approx(np.corrcoef(q, RETURNS)[0, 1], abs=1e-6)


def test_keys_that_the_network_left_behind(agent):
    agent.embedding.trainable_variables[0].assign(2.0)
    # The state (1, 0) is now sought at (2, 0): its key is 1 away, the other neighbour 2.
    assert inspect(agent, sample(1)).key_drift == pytest.approx(1 / 1.5)


def test_an_index_that_lost_half_of_the_neighbours(agent, monkeypatch):
    store = agent.dnd._store
    found = store.neighbours

    def forgetful(queries, actions, p):
        rows = found(queries, actions, p)
        rows[..., 1] = 0
        return rows

    monkeypatch.setattr(store, "neighbours", forgetful)
    assert inspect(agent, sample(*range(6))).recall == 0.5


def test_states_that_are_not_in_the_memory_tell_nothing_of_drift(agent):
    unknown = Sample(STATES[:1] + 9, ACTIONS[:1], RETURNS[:1])
    assert math.isnan(inspect(agent, unknown).key_drift)


def test_leaves_no_trace(agent):
    before = {name: variable.numpy() for name, variable in agent.dnd.tables.by_name().items()}
    inspect(agent, sample(0, 3))
    for name, variable in agent.dnd.tables.by_name().items():
        np.testing.assert_array_equal(variable.numpy(), before[name])
