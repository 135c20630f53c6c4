import numpy as np
import pytest
import tensorflow as tf

from nec_tf.memory.action_memory import ActionMemory, update_indices
from nec_tf.memory.neighbours import ExactIndex
from nec_tf.memory.tables import Tables


class RecordingIndex(ExactIndex):
    """Records changes; it is outgrown if the test sets it so."""

    def __init__(self, key_size):
        super().__init__(key_size)
        self.changes = []
        self.too_small = False

    def append(self, keys):
        self.changes.append(("append", keys[:, 0].tolist()))
        super().append(keys)

    def move(self, slots, keys):
        self.changes.append(("move", slots.tolist(), keys[:, 0].tolist()))
        super().move(slots, keys)

    def rebuild(self, keys):
        self.changes.append(("rebuild", keys[:, 0].tolist()))
        super().rebuild(keys)

    def outgrown(self, appended):
        return self.too_small


@pytest.fixture
def tables():
    """Row r has the key [r] and the state 100 + r."""
    tables = Tables(1, tf.float32)
    tables.reserve(20)
    rows = np.arange(1, 20)
    tables.put(tables.keys, rows, rows[:, None])
    tables.put(tables.state_ids, rows, 100 + rows)
    return tables


@pytest.fixture
def memory(tables):
    return ActionMemory(tables, RecordingIndex(1))


def adopt(memory, rows):
    for row in rows:
        memory.append_row(row)


def test_an_empty_memory_has_no_rows_and_finds_no_neighbour(memory):
    assert len(memory) == 0
    assert memory.rows.tolist() == []
    assert memory.neighbours(np.zeros((2, 1)), 3).tolist() == [[0, 0, 0]] * 2


def test_neighbours_are_rows_of_the_tables_and_the_empty_row_fills_up(memory):
    adopt(memory, [2, 5, 9])
    memory.update_index(np.array([2, 5, 9]))
    assert memory.neighbours(np.array([[6.0]]), 5).tolist() == [[5, 9, 2, 0, 0]]


def test_a_memory_of_any_size_returns_the_empty_row_for_missing_neighbours(memory):
    for row in range(1, 20):
        memory.append_row(row)
        memory.update_index(np.array([row]))
        found = memory.neighbours(np.array([[0.0]]), 20)[0]
        assert found.tolist() == list(range(1, row + 1)) + [0] * (20 - row)


def test_adopted_rows_wait_until_the_index_is_told(memory):
    adopt(memory, [3])
    assert memory.neighbours(np.array([[3.0]]), 1).tolist() == [[0]]
    memory.update_index(np.array([3]))
    assert memory.neighbours(np.array([[3.0]]), 1).tolist() == [[3]]


def test_the_index_hears_of_new_rows_once_and_of_changed_keys(memory, tables):
    adopt(memory, [2, 5])
    memory.update_index(np.array([2, 5]))
    adopt(memory, [9])
    tables.put(tables.keys, np.array([5]), np.array([[7.0]]))
    memory.update_index(np.array([5, 9]))
    assert memory.index.changes == [
        ("append", [2.0, 5.0]),
        ("move", [1], [7.0]),
        ("append", [9.0]),
    ]


def test_an_index_that_is_outgrown_is_rebuilt_from_all_keys_instead(memory, tables):
    adopt(memory, [2, 5])
    memory.update_index(np.array([2, 5]))
    adopt(memory, [9])
    tables.put(tables.keys, np.array([5]), np.array([[7.0]]))
    memory.index.too_small = True
    memory.update_index(np.array([5, 9]))
    assert memory.index.changes[1:] == [("rebuild", [2.0, 7.0, 9.0])]


def test_an_index_that_may_not_be_rebuilt_is_told_of_the_changes(memory):
    adopt(memory, [2, 5])
    assert not memory.update_index(np.array([2, 5]))
    adopt(memory, [9])
    memory.index.too_small = True
    assert not memory.update_index(np.array([5, 9]), may_rebuild=False)
    assert memory.index.changes[1:] == [("move", [1], [5.0]), ("append", [9.0])]
    adopt(memory, [10, 11, 12, 13])  # more than it knows
    assert memory.update_index(np.array([10, 11, 12, 13]), may_rebuild=False)
    assert memory.index.changes[3:] == [("rebuild", [2.0, 5.0, 9.0, 10.0, 11.0, 12.0, 13.0])]


def test_of_several_indices_one_at_a_time_is_rebuilt(tables):
    memories = [ActionMemory(tables, RecordingIndex(1)) for _ in range(3)]
    for memory, rows in zip(memories, ([1, 4, 7], [2, 5, 8], [3, 6, 9]), strict=True):
        adopt(memory, rows)
        memory.update_index(np.array(rows))
        memory.index.too_small = True
    actions = np.array([0, 1, 2, 0])
    update_indices(memories, np.array([4, 5, 6, 1]), actions)
    kinds = [[changes[0] for changes in memory.index.changes[1:]] for memory in memories]
    assert kinds == [["rebuild"], ["move"], ["move"]]
    memories[0].index.too_small = False
    update_indices(memories, np.array([4, 5, 6, 1]), actions)
    assert memories[0].index.changes[-1] == ("move", [0, 1], [1.0, 4.0])
    assert memories[1].index.changes[-1] == ("rebuild", [2.0, 5.0, 8.0])


def test_a_state_is_forgotten_only_by_the_row_it_stands_in(memory):
    memory.row_by_state[111] = 5
    memory.remove_state(111, 4)
    memory.remove_state(222, 5)
    assert memory.row_by_state == {111: 5}
    memory.remove_state(111, 5)
    assert memory.row_by_state == {}


def test_a_restored_memory_knows_its_rows_states_and_keys_and_nothing_else(memory):
    adopt(memory, [2, 5])
    memory.update_index(np.array([2, 5]))
    memory.row_by_state[7] = 2
    memory.restore(np.array([4, 6, 8]), {})
    assert memory.rows.tolist() == [4, 6, 8]
    assert memory.row_by_state == {104: 4, 106: 6, 108: 8}
    assert memory.neighbours(np.array([[7.9]]), 4).tolist() == [[8, 6, 4, 0]]
    memory.append_row(9)
    memory.update_index(np.array([9]))
    assert memory.neighbours(np.array([[9.0]]), 1).tolist() == [[9]]


def test_a_memory_can_be_restored_to_nothing(memory):
    adopt(memory, [2])
    memory.update_index(np.array([2]))
    memory.restore(np.empty(0, np.int64), {})
    assert len(memory) == 0
    assert memory.neighbours(np.array([[2.0]]), 1).tolist() == [[0]]
