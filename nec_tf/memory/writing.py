"""A batch of writes: appended, updated or put in the place of what goes (paper, section 3.3)."""

import collections
from collections.abc import Callable

import numpy as np

from nec_tf.memory.action_memory import ActionMemory, tell_indices
from nec_tf.memory.tables import Tables

UpdateRule = Callable[[float, float], float]
"""From the value stored for a known state, and the new one, to the value to store."""


def move_by(alpha: float) -> UpdateRule:
    """Equation 4: `Q_i <- Q_i + alpha (Q^(N)(s, a) - Q_i)`, as tabular Q-learning does."""
    return lambda stored, new: stored + alpha * (new - stored)


def keep_larger(stored: float, new: float) -> float:
    """MFEC's update: `Q_i <- max(Q_i, R)`."""
    return max(stored, new)


class WriteBatch:
    """Writes planned entry by entry, as if each came alone, and put into the tables at once."""

    def __init__(
        self, tables: Tables, memories: list[ActionMemory], capacity: int, update: UpdateRule
    ) -> None:
        """An empty batch; arguments as in `MemoryStore`."""
        self._tables = tables
        self._memories = memories
        self._capacity = capacity
        self._update = update
        self._time = int(tables.clock)
        self._size = int(tables.size)
        # What becomes of a row: its stamp, state and value, and the entry that wrote it last.
        self._stamps: dict[int, int] = {}
        self._states: dict[int, int] = {}
        self._values: dict[int, float] = {}
        self._entries: dict[int, int] = {}
        self._born: set[int] = set()
        self._full: set[int] = set()
        self._evicted: dict[int, ActionMemory] = {}  # by row: whose state from before has to go

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
                self._born.add(row)
            else:
                updated += 1
                value = self._update(self._values.get(row, stored.get(row, 0.0)), value)
            self._values[row] = value
            self._states[row] = state
            self._entries[row] = entry
            self._stamps[row] = self._time
            self._time += 1
        self._forget_evicted()
        self._put(actions, keys)
        return updated

    def _row_of(self, memory: ActionMemory, state: int) -> int | None:
        """Returns where a state stands; None where it is new, or went earlier in this batch."""
        row = memory.row_by_state.get(state)
        return None if row is None or self._states.get(row, state) != state else row

    def _reserve(self, actions: np.ndarray, states: np.ndarray) -> None:
        """Makes room in the tables for the entries that the batch adds."""
        new = {
            (action, state)
            for action, state in zip(actions.tolist(), states.tolist(), strict=True)
            if state not in self._memories[action].row_by_state
        }
        rows = self._size
        for action, coming in collections.Counter(action for action, _ in new).items():
            # A memory restored from a layer of larger capacity may hold more than fits here.
            rows += min(coming, max(0, self._capacity - len(self._memories[action])))
        self._tables.reserve(rows)

    def _read_stored_values(self, actions: np.ndarray, states: np.ndarray) -> dict[int, float]:
        """The values of those states of the batch that are known before it, by row."""
        found = (
            self._memories[action].row_by_state.get(state)
            for action, state in zip(actions.tolist(), states.tolist(), strict=True)
        )
        rows = np.array(sorted({row for row in found if row is not None}), np.int64)
        values = self._tables.read(self._tables.values, rows)
        return dict(zip(rows.tolist(), values.tolist(), strict=True))

    def _make_room(self, action: int, memory: ActionMemory) -> int:
        """Returns a row for a new state: the next one, or that of the entry that has to go."""
        if len(memory) < self._capacity:
            row = self._size
            self._size += 1
            memory.adopt(row)
            return row
        if action not in self._full:
            self._full.add(action)
            memory.evictions.begin_batch()
        row = memory.evictions.pop(memory.rows, self._stamps, self._put_stamps)
        if row in self._states:
            memory.forget(self._states[row], row)
        else:
            self._evicted[row] = memory
        return row

    def _forget_evicted(self) -> None:
        """Lets go of the states that stood in overwritten rows before; one read for all of them."""
        rows = np.array(list(self._evicted), np.int64)
        states = self._tables.read(self._tables.state_ids, rows)
        for (row, memory), state in zip(self._evicted.items(), states.tolist(), strict=True):
            if self._states[row] != state:
                memory.forget(state, row)

    def _put_stamps(self) -> None:
        rows = np.array(list(self._stamps), np.int64)
        self._tables.put(self._tables.stamps, rows, np.array(list(self._stamps.values())))

    def _put(self, actions: np.ndarray, keys: np.ndarray) -> None:
        """Puts the outcome into the tables and tells the indices."""
        tables = self._tables
        rows = np.array(list(self._entries), np.int64)
        entries = np.array(list(self._entries.values()), np.int64)
        born = np.array(sorted(self._born), np.int64)
        tables.clear_scratch(born)
        tables.put(tables.keys, rows, keys[entries])
        tables.put(tables.drift, rows, np.zeros(len(rows)))
        tables.put(tables.values, rows, np.array(list(self._values.values())))
        tables.put(tables.state_ids, rows, np.array(list(self._states.values())))
        tables.put(tables.actions, rows, actions[entries])
        self._put_stamps()
        tables.size.assign(self._size, read_value=False)
        tables.clock.assign(self._time, read_value=False)
        tell_indices(self._memories, rows, actions[entries])
