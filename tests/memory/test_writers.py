"""Several threads that write to one memory take turns."""

import sys
import threading

import numpy as np
import pytest

from nec_tf.memory.dnd import DifferentiableNeuralDictionary

WRITERS, BATCHES, SIZE = 4, 30, 7


@pytest.fixture
def _frequent_switches():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("_frequent_switches")
@pytest.mark.parametrize("capacity", [60, 10_000])  # with and without eviction
def test_sizes_and_tables_agree_after_writes_of_several_threads(capacity):
    dnd = DifferentiableNeuralDictionary(
        2, 3, capacity=capacity, num_neighbours=5, index="exact", recognise_by_key=False
    )
    errors = []

    def write(writer):
        rng = np.random.default_rng(writer)
        try:
            for batch in range(BATCHES):
                ids = np.arange(SIZE) + SIZE * (batch + BATCHES * writer)
                keys = rng.normal(size=(SIZE, 3)).astype(np.float32)
                dnd.write(ids % 2, keys, ids.astype(np.float32), ids)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    entries = dnd.entries()
    written = WRITERS * BATCHES * SIZE
    assert len(entries) == min(written, 2 * capacity) == dnd.sizes.sum()
    assert int(dnd.tables.size) == 1 + len(entries)  # row 0 is the empty row
    assert len(np.unique(entries.state_ids)) == len(entries)
    np.testing.assert_array_equal(entries.values, entries.state_ids)  # rows are not mixed
    np.testing.assert_array_equal(entries.actions, entries.state_ids % 2)
    assert int(dnd.tables.clock) >= written
