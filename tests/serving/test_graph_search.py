import itertools

import numpy as np
import pytest
import tensorflow as tf

from nec_tf.memory.neighbours.exact import ExactIndex
from nec_tf.serving.graph_search import BLOCK, ExactSearch, InvertedFile

KEY_SIZE = 8
COUNTS = np.array([700, 0, 3, 900])  # one action has nothing, one has three entries


def make_keys(seed=0):
    keys = np.random.default_rng(seed).normal(size=(COUNTS.sum(), KEY_SIZE))
    return keys.astype(np.float32)


def search(subject, keys, queries, p):
    """The entries that a search finds, int64 [B, A, p]; -1 for none."""
    there = subject.order >= 0
    placed = np.where(there[:, None], keys[subject.order], 0)
    squares = np.where(there, (placed**2).sum(axis=1), np.inf)
    placed, squares = (tf.Variable(x.astype(np.float32)) for x in (placed, squares))
    places, d2 = (x.numpy() for x in subject(placed, squares, tf.constant(queries), p))
    found = subject.order[places]
    measured = ((queries[:, None, None] - keys[found]) ** 2).sum(axis=-1)
    np.testing.assert_allclose(d2[found >= 0], measured[found >= 0], rtol=1e-4)
    return found


@pytest.mark.parametrize("kind", ["exact", "inverted file of all blocks"])
@pytest.mark.parametrize("p", [1, 5, 50])
def test_the_p_nearest_of_each_action_are_found(kind, p):
    keys = make_keys()
    queries = make_keys(seed=1)[:4]
    subject = ExactSearch(COUNTS) if kind == "exact" else InvertedFile(keys, COUNTS, probes=200)
    found = search(subject, keys, queries, p)
    assert found.shape == (4, 4, p)
    starts = [0, *np.cumsum(COUNTS)]
    for action, (start, end) in enumerate(itertools.pairwise(starts)):
        index = ExactIndex(KEY_SIZE)
        index.rebuild(keys[start:end])
        for query, candidates in zip(queries, found[:, action], strict=True):
            true = index.search(query[None], min(p, end - start))[0] + start
            there = candidates[candidates >= 0]
            np.testing.assert_array_equal(there, true)
            assert ((there >= start) & (there < end)).all()


def test_every_entry_has_one_place_and_place_0_is_empty():
    order = InvertedFile(make_keys(), COUNTS, probes=1).order
    assert order[0] == -1
    np.testing.assert_array_equal(np.sort(order[order >= 0]), np.arange(COUNTS.sum()))


def test_fewer_probes_find_less():
    keys, queries = make_keys(), make_keys(seed=1)[:20]
    one, two, all_of_them = (
        search(InvertedFile(keys, COUNTS, probes), keys, queries, 50)[:, 0]
        for probes in (1, 2, 200)
    )
    found = [
        np.mean([len(set(mine) & set(true)) for mine, true in zip(some, all_of_them, strict=True)])
        for some in (one, two)
    ]
    assert 10 < found[0] < found[1] <= 64
    for row in one:
        assert (row >= 0).sum() <= BLOCK
