"""The sum tree against a plain array of weights."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nec_tf.replay.sum_tree import SumTree

# Whole numbers: sums are exact, whatever their order.
changes = st.lists(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 9)), min_size=1, max_size=5),
    max_size=20,
)


@given(st.integers(1, 70), changes)
def test_every_whole_number_below_the_total_finds_its_place(capacity, changes):
    tree, naive = SumTree(capacity), np.zeros(capacity)
    for change in changes:
        places = np.array([place % capacity for place, _ in change])
        weights = np.array([float(weight) for _, weight in change])
        tree.set(places, weights)
        for place, weight in zip(places, weights, strict=True):
            naive[place] = weight
    np.testing.assert_array_equal(tree.weights, naive)
    assert tree.total == naive.sum()
    if tree.total:
        sums = np.arange(int(tree.total))
        expected = [place for place, weight in enumerate(naive) for _ in range(int(weight))]
        np.testing.assert_array_equal(tree.find(sums), expected)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=70), st.integers(1, 5))
def test_a_restored_tree_has_the_same_sums_to_the_last_bit(weights, groups):
    tree, restored = SumTree(100), SumTree(100)
    restored.set(np.arange(100), np.ones(100))  # is replaced
    places = np.random.default_rng(0).permutation(len(weights))
    for group in np.array_split(places, groups):
        tree.set(group, np.array(weights)[group])
    restored.restore(tree.weights[: len(weights)])
    np.testing.assert_array_equal(restored._sums, tree._sums)


@given(st.lists(st.sampled_from([0.0, 1e-9, 0.1, 0.3, 1e9]), min_size=1, max_size=70))
def test_a_place_of_weight_0_is_never_found(weights):
    tree = SumTree(len(weights))
    tree.set(np.arange(len(weights)), np.array(weights))
    if tree.total:
        sums = np.linspace(0, 1, 50) * tree.total  # the total itself, which rounding can reach
        assert (tree.weights[tree.find(sums)] > 0).all()


def test_draws_are_in_proportion_to_the_weights():
    tree = SumTree(5)
    tree.set(np.arange(5), np.array([1.0, 0, 2, 3, 4]))
    found = tree.find(np.random.default_rng(0).random(100_000) * tree.total)
    np.testing.assert_allclose(np.bincount(found) / 1e5, [0.1, 0, 0.2, 0.3, 0.4], atol=0.01)
