"""A batch of writes: entries update, append or replace evicted ones (paper, section 3.3)."""

import collections
from collections.abc import Callable

import numpy as np

from nec_tf.memory.action_memory import ActionMemory, update_indices
from nec_tf.memory.tables import Tables

UpdateRule = Callable[[float, float], float]
"""From the stored value of a known state and the new value to the value to store."""


def move_by(alpha: float) -> UpdateRule:
    """Equation 4: `Q_i <- Q_i + alpha (Q^(N)(s, a) - Q_i)`, as tabular Q-learning does."""
    return lambda stored, new: stored + alpha * (new - stored)


def keep_larger(stored: float, new: float) -> float:
    """MFEC's update: `Q_i <- max(Q_i, R)`."""
    return max(stored, new)


class WriteBatch:
    """Plans writes one entry after the other and writes all of them to the tables at once."""

    def __init__(
        self, tables: Tables, memories: list[ActionMemory], capacity: int, update: UpdateRule
    ) -> None:
        """Makes an empty batch; arguments as in `MemoryStore`."""
        self._tables = tables
        self._memories = memories
        self._capacity = capacity
        self._update = update
        self._time = int(tables.clock)
        self._size = int(tables.size)
        # New content by row: stamp, state and value, and the entry of the batch that wrote it last.
        self._stamps: dict[int, int] = {}
        self._states: dict[int, int] = {}
        self._values: dict[int, float] = {}
        self._entries: dict[int, int] = {}
        self._new_rows: set[int] = set()  # rows that hold another state than before
        self._full: set[int] = set()  # actions that evict in this batch
        self._evicted: dict[int, ActionMemory] = {}  # memories of overwritten rows, by row

    def write(
        self, actions: np.ndarray, keys: np.ndarray, values: np.ndarray, states: np.ndarray
    ) -> int:
        """See `MemoryStore.write`."""
        self._reserve(actions, states)
        stored = self._read_stored_values(actions, states)
        updated = 0
        entries = zip(actions.tolist(), values.tolist(), states.tolist(), strict=True)
        for entry, (action, value, state) in enumerate(entries):
            memory = self._memories[action]
            row = self._row_of(memory, state)
            if row is None:
                row = self._make_room(action, memory)
                memory.row_by_state[state] = row
                self._new_rows.add(row)
            else:
                updated += 1
                value = self._update(self._values.get(row, stored.get(row, 0.0)), value)
            self._values[row] = value
            self._states[row] = state
            self._entries[row] = entry
            self._stamps[row] = self._time
            self._time += 1
        self._remove_evicted_states()
        self._put(actions, keys)
        return updated

    def _row_of(self, memory: ActionMemory, state: int) -> int | None:
        """Returns the row of a state; None if it is new or was evicted earlier in this batch."""
        row = memory.row_by_state.get(state)
        return None if row is None or self._states.get(row, state) != state else row

    def _reserve(self, actions: np.ndarray, states: np.ndarray) -> None:
        """Grows the tables for the entries that the batch appends."""
        new = {
            (action, state)
            for action, state in zip(actions.tolist(), states.tolist(), strict=True)
            if state not in self._memories[action].row_by_state
        }
        rows = self._size
        for action, coming in collections.Counter(action for action, _ in new).items():
            # A checkpoint of a layer of larger capacity may have restored more than fits here.
            rows += min(coming, max(0, self._capacity - len(self._memories[action])))
        self._tables.reserve(rows)

    def _read_stored_values(self, actions: np.ndarray, states: np.ndarray) -> dict[int, float]:
        """Returns the values, before the batch, of its known states, by row."""
        found = (
            self._memories[action].row_by_state.get(state)
            for action, state in zip(actions.tolist(), states.tolist(), strict=True)
        )
        rows = np.array(sorted({row for row in found if row is not None}), np.int64)
        values = self._tables.read(self._tables.values, rows)
        return dict(zip(rows.tolist(), values.tolist(), strict=True))

    def _make_room(self, action: int, memory: ActionMemory) -> int:
        """Returns the row of a new state: the next spare row, or that of the evicted entry."""
        if len(memory) < self._capacity:
            row = self._size
            self._size += 1
            memory.append_row(row)
            return row
        if action not in self._full:
            self._full.add(action)
            memory.evictions.begin_batch()
        row = memory.evictions.pop(memory.rows, self._stamps, self._put_stamps)
        if row in self._states:
            memory.remove_state(self._states[row], row)
        else:
            self._evicted[row] = memory
        return row

    def _remove_evicted_states(self) -> None:
        """Removes the former states of overwritten rows; reads all of them at once."""
        rows = np.array(list(self._evicted), np.int64)
        states = self._tables.read(self._tables.state_ids, rows)
        for (row, memory), state in zip(self._evicted.items(), states.tolist(), strict=True):
            if self._states[row] != state:
                memory.remove_state(state, row)

    def _put_stamps(self) -> None:
        rows = np.array(list(self._stamps), np.int64)
        self._tables.put(self._tables.stamps, rows, np.array(list(self._stamps.values())))

    def _put(self, actions: np.ndarray, keys: np.ndarray) -> None:
        """Writes the planned content to the tables and updates the indices."""
        tables = self._tables
        rows = np.array(list(self._entries), np.int64)
        entries = np.array(list(self._entries.values()), np.int64)
        tables.clear_scratch(np.array(sorted(self._new_rows), np.int64))
        tables.put(tables.keys, rows, keys[entries])
        tables.put(tables.drift, rows, np.zeros(len(rows)))
        tables.put(tables.values, rows, np.array(list(self._values.values())))
        tables.put(tables.state_ids, rows, np.array(list(self._states.values())))
        tables.put(tables.actions, rows, actions[entries])
        self._put_stamps()
        tables.size.assign(self._size, read_value=False)
        tables.clock.assign(self._time, read_value=False)
        update_indices(self._memories, rows, actions[entries])
