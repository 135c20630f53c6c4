import numpy as np
import pytest

from nec_tf.memory import eviction
from nec_tf.memory.eviction import EvictionQueue


class Stamps:
    """A table of stamps with a clock, and what a batch has not yet put into it."""

    def __init__(self, stamps):
        self.table = np.array(stamps, np.int64)
        self.clock = int(self.table.max(initial=0)) + 1
        self.reads = 0
        self.pending = {}

    def read(self, rows):
        self.reads += len(rows)
        return self.table[rows]

    def now(self):
        self.clock += 1
        return self.clock

    def touch(self, rows):
        self.table[rows] = self.now()

    def write(self, row):
        self.pending[row] = self.now()

    def commit(self):
        for row, stamp in self.pending.items():
            self.table[row] = stamp

    def oldest(self, rows):
        return min(rows, key=lambda row: (self.pending.get(row, self.table[row]), row))


def pop(queue, stamps, rows):
    return queue.pop(rows, stamps.pending, stamps.commit)


def test_the_row_with_the_oldest_stamp_goes_first():
    stamps = Stamps([9, 5, 7, 3])
    queue = EvictionQueue(stamps.read)
    queue.begin_batch()
    assert [pop(queue, stamps, np.array([0, 1, 2, 3])) for _ in range(3)] == [3, 1, 2]


def test_the_lower_row_goes_first_in_a_tie():
    stamps = Stamps([4, 4, 1, 4, 1])
    queue = EvictionQueue(stamps.read)
    queue.begin_batch()
    assert [pop(queue, stamps, np.arange(5)) for _ in range(5)] == [2, 4, 0, 1, 3]


def test_a_row_that_was_a_neighbour_since_it_was_queued_is_passed_over():
    stamps = Stamps([1, 2, 3])
    queue = EvictionQueue(stamps.read)
    queue.begin_batch()
    assert pop(queue, stamps, np.arange(3)) == 0
    stamps.touch([1])
    queue.begin_batch()
    assert pop(queue, stamps, np.arange(3)) == 2


def test_a_row_written_in_this_batch_is_newer_than_all_others():
    stamps = Stamps([1, 2])
    queue = EvictionQueue(stamps.read)
    queue.begin_batch()
    stamps.write(0)
    assert pop(queue, stamps, np.arange(2)) == 1


def test_where_all_rows_were_written_in_this_batch_the_first_written_goes():
    stamps = Stamps([1, 2])
    queue = EvictionQueue(stamps.read)
    queue.begin_batch()
    stamps.write(1)
    stamps.write(0)
    assert pop(queue, stamps, np.arange(2)) == 1


def test_only_rows_of_the_memory_go():
    stamps = Stamps([0, 8, 1, 6])
    queue = EvictionQueue(stamps.read)
    queue.begin_batch()
    assert pop(queue, stamps, np.array([1, 3])) == 3


def test_after_clear_the_queue_knows_nothing_of_before():
    stamps = Stamps([1, 2, 3])
    queue = EvictionQueue(stamps.read)
    queue.begin_batch()
    pop(queue, stamps, np.arange(3))
    stamps.table[:] = [9, 8, 1]
    queue.clear()
    queue.begin_batch()
    assert pop(queue, stamps, np.arange(3)) == 2


@pytest.mark.parametrize("queue_length", [1, 3, 4096])
@pytest.mark.parametrize("seed", range(4))
def test_the_order_is_that_of_sorting_all_stamps(queue_length, seed, monkeypatch):
    monkeypatch.setattr(eviction, "_QUEUE", queue_length)
    rng = np.random.default_rng(seed)
    stamps = Stamps(rng.integers(5, size=40))  # many ties
    rows = np.flatnonzero(rng.random(40) < 0.6)
    queue = EvictionQueue(stamps.read)
    for _ in range(150):
        queue.begin_batch()
        stamps.pending = {}
        for _ in range(rng.integers(1, 6) if rng.random() < 0.95 else 60):
            if rng.random() < 0.3:
                stamps.write(int(rng.choice(rows)))  # a known state
                continue
            expected = stamps.oldest(rows)
            assert pop(queue, stamps, rows) == expected
            stamps.write(expected)
        stamps.commit()
        if rng.random() < 0.5:
            stamps.touch(rng.choice(40, size=rng.integers(1, 10), replace=False))


def test_an_eviction_does_not_read_the_whole_table():
    count = 20_000
    stamps = Stamps(np.arange(count))
    queue = EvictionQueue(stamps.read)
    evictions = 1000
    for _ in range(evictions):
        queue.begin_batch()
        stamps.pending = {}
        row = pop(queue, stamps, np.arange(count))
        stamps.write(row)
        stamps.commit()
    assert stamps.reads < 2 * count + evictions * eviction._QUEUE
