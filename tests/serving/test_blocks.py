import itertools

import numpy as np
import pytest

from nec_tf.serving.blocks import cut, lists_of_blocks


def make_keys(count):
    return np.random.default_rng(0).normal(size=(count, 3)).astype(np.float32)


@pytest.mark.parametrize("count", [1, 9, 10, 11, 95, 1000])
def test_blocks_hold_every_key_once_and_are_nearly_full(count):
    blocks = cut(make_keys(2 * count), np.arange(count, 2 * count), 10)
    assert len(blocks) == -(-count // 10)
    assert all(0 < len(block) <= 10 for block in blocks)
    np.testing.assert_array_equal(np.sort(np.concatenate(blocks)), np.arange(count, 2 * count))


def test_equal_keys_are_cut_too():
    assert sorted(map(len, cut(np.zeros((25, 3), np.float32), np.arange(25), 10))) == [5, 10, 10]


@pytest.mark.parametrize("count", [0, 1, 10, 500, 5000])
def test_lists_hold_every_key_once(count):
    lists = lists_of_blocks(make_keys(count), 10)
    blocks = list(itertools.chain.from_iterable(lists))
    assert all(0 < len(block) <= 10 for block in blocks)
    np.testing.assert_array_equal(np.sort(np.concatenate([*blocks, []])), np.arange(count))
    assert len(lists) <= max(1, 2 * np.sqrt(count))


def test_a_block_holds_keys_that_are_near_each_other():
    keys = make_keys(2000)
    blocks = itertools.chain.from_iterable(lists_of_blocks(keys, 10))
    spread = np.mean([keys[block].std(axis=0).mean() for block in blocks])
    assert spread < 0.25 * keys.std(axis=0).mean()


def test_the_same_keys_make_the_same_lists():
    first, second = (lists_of_blocks(make_keys(1000), 10) for _ in range(2))
    for mine, theirs in zip(
        itertools.chain.from_iterable(first), itertools.chain.from_iterable(second), strict=True
    ):
        np.testing.assert_array_equal(mine, theirs)
