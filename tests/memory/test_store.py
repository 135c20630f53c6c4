import numpy as np
import pytest
import tensorflow as tf

from nec_tf.memory.neighbours import ExactIndex
from nec_tf.memory.store import MemoryStore
from nec_tf.memory.tables import Tables
from nec_tf.memory.writing import move_by


class LazyIndex(ExactIndex):
    """Gets moved keys three at a time, and only if they moved by more than 1."""

    refresh_after = 3
    tolerance = 1.0


class World:
    """A store of two actions over tables of its own, keys of one number."""

    def __init__(self, index=LazyIndex, recognise_by_key=True, capacity=10):
        self.tables = Tables(1, tf.float64)
        self.store = MemoryStore(
            self.tables,
            lambda: index(1, np.float64),
            num_actions=2,
            capacity=capacity,
            update=move_by(0.5),
            recognise_by_key=recognise_by_key,
        )

    def write(self, actions, keys, values=None, ids=None):
        values = np.zeros(len(actions)) if values is None else np.array(values, np.float64)
        keys = np.array(keys, np.float64)[:, None]
        return self.store.write(np.array(actions), keys, values, ids)

    def move(self, row, key, drift=None):
        """Moves a key as an optimizer does; by default the drift is the distance."""
        rows = np.array([row])
        old = self.tables.read(self.tables.keys, rows)[0, 0]
        self.tables.put(self.tables.keys, rows, np.array([[key]]))
        self.tables.put(self.tables.drift, rows, np.array([abs(key - old)]))
        drift = self.tables.read(self.tables.drift, rows) if drift is None else np.array([drift])
        self.store.moved(rows, drift)

    def nearest(self, query, action=0, p=1):
        return self.store.neighbours(np.array([[query]]), np.array([action]), p)[0, 0].tolist()


def test_all_actions_are_asked_or_only_the_given_one_of_each_row():
    world = World()
    world.write([0, 1, 0, 1], [0.0, 1.0, 10.0, 11.0])  # rows 1, 2, 3, 4
    queries = np.array([[0.0], [10.0]])
    of_all = world.store.neighbours(queries, None, 3)
    assert of_all.tolist() == [[[1, 3, 0], [2, 4, 0]], [[3, 1, 0], [4, 2, 0]]]
    given = world.store.neighbours(queries, np.array([1, 0]), 3)
    assert given.tolist() == [[[2, 4, 0]], [[3, 1, 0]]]


def test_stamps_are_one_tick_for_all_rows_of_a_lookup():
    world = World()
    world.write([0, 0, 0], [0.0, 1.0, 2.0])
    assert world.tables.stamps.numpy()[1:4].tolist() == [0, 1, 2]
    world.tables.stamp(np.array([[[3, 1, 0], [1, 3, 0]]]))
    assert world.tables.stamps.numpy()[1:4].tolist() == [3, 1, 3]
    assert int(world.tables.clock) == 4


def test_an_index_gets_moved_keys_when_enough_wait():
    world = World()
    world.write([0, 0, 0, 0], [0.0, 10.0, 20.0, 30.0])
    world.move(1, 100.0)
    world.move(2, 200.0)
    assert world.nearest(100.0) == [4]  # the index lags
    world.move(3, 300.0)
    assert world.nearest(100.0) == [1]
    assert world.nearest(200.0) == [2]
    assert world.nearest(300.0) == [3]


def test_a_drift_within_the_tolerance_does_not_count():
    world = World()
    world.write([0, 0, 0, 0], [0.0, 10.0, 20.0, 30.0])
    for row in (1, 2, 3):
        world.move(row, 100.0 * row, drift=1.0)  # exactly as far as tolerated
    assert world.nearest(300.0) == [4]
    for row in (1, 2, 3):
        world.move(row, 100.0 * row, drift=1.1)
    assert world.nearest(300.0) == [3]


def test_the_drift_is_reset_when_the_index_gets_the_keys():
    world = World()
    world.write([0, 0, 0, 0], [0.0, 10.0, 20.0, 30.0])
    for row in (1, 2, 3):
        world.move(row, 100.0 * row)
    world.move(4, 31.0)
    assert (world.tables.drift.numpy()[1:5] > 0).all()
    world.nearest(0.0)
    assert world.tables.drift.numpy()[1:5].tolist() == [0, 0, 0, 1]


def test_a_written_key_has_no_drift():
    world = World(recognise_by_key=False)
    world.write([0], [0.0], ids=np.array([5]))
    world.move(1, 0.5)
    world.write([0], [7.0], ids=np.array([5]))
    assert world.tables.drift.numpy()[1] == 0


def test_moved_keys_of_several_actions_reach_each_its_own_index():
    world = World(index=ExactIndex)
    world.write([0, 1, 0, 1], [0.0, 1.0, 10.0, 11.0])
    world.move(1, 50.0)
    world.move(4, 60.0)
    assert world.nearest(50.0, action=0) == [1]
    assert world.nearest(60.0, action=1) == [4]
    assert world.nearest(0.0, action=0, p=3) == [3, 1, 0]


def test_a_key_that_moved_is_recognised_as_it_is_now_and_not_as_it_was():
    world = World()
    world.write([0], [1.0], [8.0])
    world.move(1, 1.5)
    assert world.write([0], [1.5], [16.0]) == 1
    assert world.write([0], [1.0], [2.0]) == 0
    assert world.store.sizes.tolist() == [2, 0]


def test_two_keys_that_changed_places_are_recognised_each_at_its_place():
    world = World()
    world.write([0, 0], [1.0, 2.0], [10.0, 20.0])
    world.move(1, 2.0)
    world.move(2, 1.0)
    assert world.write([0, 0], [2.0, 1.0], [10.0, 20.0]) == 2
    assert world.tables.values.numpy()[1:3].tolist() == [10.0, 20.0]


def test_a_state_known_by_its_id_is_recognised_wherever_its_key_went():
    world = World(recognise_by_key=False)
    world.write([0], [1.0], ids=np.array([77]))
    world.move(1, 30.0)
    assert world.write([0], [1.0], ids=np.array([77])) == 1
    assert world.write([0], [30.0], ids=np.array([78])) == 0


def test_a_key_that_moved_and_was_then_evicted_leaves_no_trace():
    world = World(capacity=1, index=ExactIndex)
    world.write([0], [1.0])
    world.move(1, 5.0)
    world.write([0], [2.0])
    assert world.write([0], [5.0]) == 0
    assert world.nearest(1.0, p=2) == [1, 0]


@pytest.mark.parametrize("recognise_by_key", [True, False])
def test_after_invalidate_everything_is_rebuilt_from_the_tables(recognise_by_key):
    world = World(recognise_by_key=recognise_by_key)
    ids = None if recognise_by_key else np.array([5, 6, 7])
    world.write([0, 1, 0], [0.0, 10.0, 20.0], ids=ids)
    # Behind the back of the store, as a restore does: two entries change sides, one goes.
    tables = world.tables
    tables.put(tables.actions, np.array([1, 2]), np.array([1, 0]))
    tables.put(tables.keys, np.array([1]), np.array([[100.0]]))
    tables.size.assign(3)
    world.store.invalidate()
    assert world.store.sizes.tolist() == [1, 1]
    assert world.nearest(0.0, action=0, p=2) == [2, 0]
    assert world.nearest(0.0, action=1, p=2) == [1, 0]
    assert world.write([1], [100.0], ids=None if recognise_by_key else np.array([5])) == 1
    assert world.write([0], [20.0], ids=None if recognise_by_key else np.array([7])) == 0


def test_a_doubt_ends_what_waited_for_the_indices():
    world = World()
    world.write([0, 0], [0.0, 10.0])
    world.move(1, 100.0)
    world.store.invalidate()
    assert world.nearest(100.0) == [1]
    assert world.tables.drift.numpy()[1] == 0
