"""Lookups that do not see the entries of some states."""

import numpy as np
import pytest
import reference
import tensorflow as tf
from memories import make_dnd

KERNEL = "inverse_distance"


def written(count=12, **arguments):
    """A memory whose states have the ids 0, 1, 2, ... in the order of the two actions."""
    dnd = make_dnd(recognise_by_key=False, **arguments)
    rng = np.random.default_rng(0)
    actions = np.repeat([0, 1], count)
    keys, values = rng.normal(size=(2 * count, 3)), rng.normal(size=2 * count)
    dnd.write(actions, keys, values, np.arange(2 * count))
    return dnd, actions, keys, values


@pytest.mark.parametrize("graph", [False, True])
def test_entries_left_out_are_not_looked_up_and_get_no_gradient(graph):
    dnd, actions, keys, values = written(num_neighbours=12)
    queries = np.random.default_rng(1).normal(size=(2, 3))
    asked, left_out = np.array([0, 1]), np.array([[0, 1, 5], [23, 23, 14]])

    def differentiate():
        with tf.GradientTape() as tape:
            output = dnd.lookup(queries, asked, left_out=tf.constant(left_out))
        return output, tape.gradient(output, dnd.tables.values)

    output, gradient = tf.function(differentiate)() if graph else differentiate()
    for query in range(2):
        seen = (actions == asked[query]) & ~np.isin(np.arange(24), left_out[query])
        wanted = reference.lookup(KERNEL, queries[query], keys[seen], values[seen], 12)
        np.testing.assert_allclose(output[query], wanted, rtol=1e-9)
    touched = set(gradient.indices.numpy().ravel()) - {0}
    rows_left_out = {1 + state for state in np.unique(left_out)}
    assert touched
    assert not touched & rows_left_out


def test_a_query_whose_candidates_would_all_be_left_out_sees_them_all():
    dnd, *_ = written(count=3)
    queries = np.zeros((2, 3))
    everything = np.tile(np.arange(6), (2, 1))
    asked = np.array([0, 1])
    np.testing.assert_array_equal(
        dnd.lookup(queries, asked, left_out=everything), dnd.lookup(queries, asked)
    )


def test_leaving_out_states_that_are_not_there_changes_nothing():
    dnd, *_ = written()
    queries = np.random.default_rng(1).normal(size=(5, 3))
    other = np.full((5, 2), 1_000)
    np.testing.assert_array_equal(dnd.lookup(queries, left_out=other), dnd.lookup(queries))
