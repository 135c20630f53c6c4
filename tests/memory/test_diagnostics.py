"""Diagnostics of memories whose figures can be worked out by hand."""

import math

import numpy as np
import pytest
from memories import assert_same_contents, contents, make_dnd

from nec_tf.memory.diagnostics import diagnose
from nec_tf.memory.state_ids import hash_states

STATES = np.array([[0.0, 0.0], [1, 0], [0, 2], [5, 5], [6, 5], [5, 7]], np.float32)
ACTIONS = np.array([0, 0, 0, 1, 1, 1])
RETURNS = np.array([1, 2, 4, 10, 20, 30], np.float32)


@pytest.fixture
def dnd():
    """A memory whose keys are the states themselves."""
    dnd = make_dnd(key_size=2, num_neighbours=2, recognise_by_key=False, dtype="float32")
    dnd.write(ACTIONS, STATES, RETURNS, hash_states(STATES))
    return dnd


def diagnose_states(dnd, *which, scale=1.0):
    """Diagnoses states by a network that multiplies them by `scale`."""
    places = list(which)
    states = STATES[places]
    return diagnose(dnd, scale * states, ACTIONS[places], RETURNS[places], hash_states(states))


def test_an_exact_index_and_a_network_that_has_not_changed(dnd):
    found = diagnose_states(dnd, *range(6))
    assert found.recall == 1.0
    assert found.key_drift == 0.0
    assert found.outermost == pytest.approx(1.0)  # the median of 1, 1, 2, 1, 1, 2
    assert diagnose_states(dnd, 2).outermost == pytest.approx(2.0)
    # A state is its own nearest neighbour, at 1 / 0.001; the other is at 1 or 4.
    own = np.array([1000 / (1000 + 1 / (d2 + 0.001)) for d2 in (1, 1, 4, 1, 1, 4)])
    assert found.nearest_weight == pytest.approx(own.mean(), rel=1e-5)
    other = np.array([2, 1, 1, 20, 10, 10])
    q = own * RETURNS + (1 - own) * other
    assert found.q_bias == pytest.approx(np.mean(q - RETURNS), abs=1e-5)
    assert found.q_correlation == pytest.approx(np.corrcoef(q, RETURNS)[0, 1], abs=1e-6)


def test_keys_that_the_network_left_behind(dnd):
    # The state (1, 0) is now looked up at (2, 0): its key is 1 away, the other neighbour 2.
    assert diagnose_states(dnd, 1, scale=2.0).key_drift == pytest.approx(1 / 1.5)


def test_an_index_that_lost_half_of_the_neighbours(dnd, monkeypatch):
    store = dnd._store
    found = store.neighbours

    def lose_the_second(queries, actions, p):
        rows = found(queries, actions, p)
        rows[..., 1] = 0
        return rows

    monkeypatch.setattr(store, "neighbours", lose_the_second)
    assert diagnose_states(dnd, *range(6)).recall == 0.5


def test_states_that_are_not_in_the_memory_have_no_drift(dnd):
    unknown = STATES[:1] + 9
    found = diagnose(dnd, unknown, ACTIONS[:1], RETURNS[:1], hash_states(unknown))
    assert math.isnan(found.key_drift)


def test_the_memory_is_left_unchanged(dnd):
    before = contents(dnd)
    diagnose_states(dnd, 0, 3)
    assert_same_contents(before, contents(dnd))
