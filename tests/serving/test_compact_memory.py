"""A memory with keys of few bits finds the neighbours that the full one finds."""

import numpy as np
import pytest
import tensorflow as tf

from nec_tf.memory import kernels
from nec_tf.memory.entries import Entries
from nec_tf.runtime.errors import UserError
from nec_tf.serving.compact_memory import CompactMemory, read_entries
from nec_tf.serving.frozen_memory import FrozenMemory
from nec_tf.serving.graph_search import ExactSearch

P = 10
COUNTS = [300, 0, 4]  # the last action has fewer entries than neighbours are looked for
SIZE = 7  # odd: the last byte of a key of 4 bits holds one number


@pytest.fixture(scope="module")
def entries():
    rng = np.random.default_rng(0)
    count = sum(COUNTS)
    keys = rng.normal([5.0] * SIZE, np.arange(SIZE), (count, SIZE))  # one dimension is constant
    return Entries(
        actions=np.repeat(np.arange(3), COUNTS),
        keys=keys.astype(np.float32),
        values=rng.normal(size=count).astype(np.float32),
        state_ids=np.arange(count),
        ages=np.arange(count),
        rows=np.arange(1, 1 + count),
    )


def both(entries, bits):
    kernel = kernels.InverseDistance()
    full = FrozenMemory(entries, ExactSearch(entries.counts(3)), kernel, P)
    return CompactMemory(entries, 3, kernel, P, bits), full


@pytest.mark.parametrize(("bits", "units"), [(8, 0.51), (4, 0.51)])
def test_entries_are_read_back_to_half_a_unit(entries, bits, units):
    memory, _ = both(entries, bits)
    assert memory.codes.shape == (len(entries), SIZE if bits == 8 else 4)
    found = read_entries(memory, bits)
    scale, half = memory.scale.numpy(), 2 ** (bits - 1)
    inside = np.abs(entries.keys - memory.centre.numpy()) < (half - 1) * scale
    assert inside.mean() > 0.99
    error = np.abs(found.keys - entries.keys) / scale
    assert error[inside].max() < units
    np.testing.assert_array_equal(found.values, entries.values)
    np.testing.assert_array_equal(found.actions, entries.actions)
    np.testing.assert_array_equal(found.rows, entries.rows)


@pytest.mark.parametrize(("bits", "within", "recall"), [(8, 0.01, 0.97), (4, 0.1, 0.75)])
def test_lookups_are_near_those_of_the_full_memory(entries, bits, within, recall):
    memory, full = both(entries, bits)
    queries = entries.keys[:50] + np.random.default_rng(1).normal(0, 0.5, (50, SIZE))
    queries = tf.constant(queries, tf.float32)
    mine, true = memory.neighbours(queries), full.neighbours(queries)
    assert np.abs(memory(queries) - full(queries)).mean() < within
    found = [
        len({*a.tolist()} & {*b.tolist()}) / P
        for a, b in zip(mine.rows.numpy()[:, 0], true.rows.numpy()[:, 0], strict=True)
    ]
    assert np.mean(found) > recall
    np.testing.assert_allclose(
        memory(queries), tf.reduce_sum(mine.weights * mine.values, axis=-1), atol=1e-6
    )


@pytest.mark.parametrize("bits", [8, 4])
def test_a_stored_state_is_at_distance_0_from_its_entry(entries, bits):
    memory, full = both(entries, bits)
    queries = tf.constant(entries.keys[:50])
    mine = memory.neighbours(queries)
    np.testing.assert_array_equal(mine.rows[:, 0, 0], np.arange(1, 51))
    assert np.max(mine.distances[:, 0, 0]) < 0.1
    np.testing.assert_allclose(memory(queries)[:, 0], full(queries)[:, 0], atol=0.1)


def test_places_without_a_neighbour_have_row_0_and_no_weight(entries):
    mine = both(entries, 8)[0].neighbours(tf.constant(entries.keys[:5]))
    assert (mine.rows.numpy()[:, 1] == 0).all()
    assert (mine.weights.numpy()[:, 1] == 0).all()
    assert (mine.rows.numpy()[:, 2, 4:] == 0).all()
    assert ({*mine.rows.numpy()[0, 2, :4].tolist()}) == {301, 302, 303, 304}
    np.testing.assert_allclose(mine.weights.numpy()[:, 2].sum(axis=-1), 1.0, rtol=1e-5)


def test_other_numbers_of_bits_are_refused(entries):
    with pytest.raises(UserError, match="key_bits must be 8 or 4, not 3"):
        both(entries, 3)
