import itertools

import numpy as np
import pytest
import tensorflow as tf

from nec_tf.neighbours.exact import ExactIndex
from nec_tf.neighbours.in_graph import ExactSearch

KEY_SIZE = 8


@pytest.mark.parametrize("p", [1, 5, 50])
def test_the_p_nearest_of_each_action_are_among_the_candidates(p):
    rng = np.random.default_rng(0)
    keys = rng.normal(size=(201, KEY_SIZE)).astype(np.float32)
    starts = [1, 101, 101, 104, 201]  # one action has nothing, one has three
    queries = rng.normal(size=(4, KEY_SIZE)).astype(np.float32)
    found = ExactSearch(tf.Variable(keys), starts)(queries, p).numpy()
    assert found.shape[:2] == (4, 4)
    assert found.shape[2] >= p
    for action, (start, end) in enumerate(itertools.pairwise(starts)):
        index = ExactIndex(KEY_SIZE)
        index.rebuild(keys[start:end])
        for query, candidates in zip(queries, found[:, action], strict=True):
            true = index.search(query[None], min(p, end - start))[0] + start
            there = candidates[candidates > 0]
            assert set(true) <= set(there)
            assert len(set(there)) == len(there)
            assert ((there >= start) & (there < end)).all()
