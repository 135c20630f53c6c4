"""Trees of ScaNN as arrays: a searcher made of them is the one they were taken from."""

import numpy as np
import pytest

from nec_tf.memory.neighbours import scann_index
from nec_tf.memory.neighbours.scann_index import ScannIndex

KEY_SIZE, P = 8, 10


def spread(count, seed=0):
    """Keys far enough apart for a grid of 8 bits."""
    return np.random.default_rng(seed).normal(size=(count, KEY_SIZE)).astype(np.float32)


@pytest.fixture(params=[True, False], ids=["8 bits", "floats"])
def index(request, monkeypatch):
    """An index with a tree that has changed since it was trained; and its keys by slot."""
    monkeypatch.setattr(scann_index, "_GRID_FROM", 100 if request.param else 10**9)
    keys = spread(3_000)
    index = ScannIndex(KEY_SIZE, P, tree_from=1_000)
    index.rebuild(keys[:2_000])
    index.append(keys[2_000:])
    keys[:500] = spread(500, seed=1)
    index.move(np.arange(500), keys[:500])
    assert (index._grid is not None) == request.param
    return index, keys


def restored(index, keys):
    other = ScannIndex(KEY_SIZE, P, tree_from=1_000)
    other.restore(keys, index.tree())
    return other


def assert_same_answers(one, other):
    queries = spread(200, seed=2)
    np.testing.assert_array_equal(one.search(queries, P), other.search(queries, P))
    for query in queries:
        np.testing.assert_array_equal(one.search(query[None], P), other.search(query[None], P))


def test_a_restored_index_answers_as_the_one_that_was_saved(index):
    assert_same_answers(index[0], restored(*index))


def test_it_is_not_trained_again(index, monkeypatch):
    monkeypatch.setattr(scann_index, "_build", None)
    tree = index[0].tree()
    other = ScannIndex.__new__(ScannIndex)
    other.restore(index[1], tree)
    assert len(other) == len(index[0])


def test_it_takes_later_keys_and_moves_as_the_one_that_was_saved(index):
    one, other = index[0], restored(*index)
    for changed in (one, other):
        changed.append(spread(700, seed=3))
        changed.move(np.arange(100, 400), spread(300, seed=4))
    assert_same_answers(one, other)


def test_it_is_outgrown_when_the_one_that_was_saved_is(index):
    one, other = index[0], restored(*index)
    assert one.tolerance == other.tolerance
    assert not one.outgrown(999)
    assert not other.outgrown(999)
    assert one.outgrown(1_000)
    assert other.outgrown(1_000)
    for changed in (one, other):
        changed.move(np.arange(3_000), spread(3_000, seed=5))
    assert not one.outgrown(0)
    assert not other.outgrown(0)
    for changed in (one, other):
        changed.move(np.arange(500), spread(500, seed=5))
    assert one.outgrown(0)
    assert other.outgrown(0)


def test_brute_force_has_no_tree():
    index = ScannIndex(KEY_SIZE, P)
    index.rebuild(spread(100))
    assert index.tree() == {}


def test_a_tree_of_other_keys_is_not_used(index):
    other = ScannIndex(KEY_SIZE, P, tree_from=1_000)
    other.restore(spread(1_500, seed=6), index[0].tree())
    assert len(other) == 1_500
    assert other._trained_on == 1_500


def test_a_tree_holds_far_less_than_the_keys(index):
    tree = index[0].tree()
    assert tree["leaves"].nbytes <= 2 * len(index[1])
    assert sum(array.nbytes for array in tree.values()) < 0.5 * index[1].nbytes
