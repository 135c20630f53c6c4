"""The memory of one action, `M_a`: its rows of the tables, and how they are found.

All of it is derived from the tables; after a restore it is rebuilt from them.
"""

import numpy as np

from nec_tf.memory.eviction import EvictionQueue
from nec_tf.memory.neighbours import NeighbourIndex
from nec_tf.memory.tables import EMPTY_ROW, Tables


class ActionMemory:
    """Rows by slot, rows by state, the neighbour index and the eviction queue of one action.

    Slots number the entries of this action in the order in which they were appended. Slots rise
    with row numbers: rows are handed out in order, and a full memory overwrites its own rows.

    Attributes:
        index: Finds the slots of the nearest keys.
        row_by_state: From state id to row.
        evictions: Finds the row to overwrite if the memory is full.
    """

    def __init__(self, tables: Tables, index: NeighbourIndex) -> None:
        """Makes an empty memory over shared tables."""
        self.index = index
        self.row_by_state: dict[int, int] = {}
        self.evictions = EvictionQueue(lambda rows: tables.read(tables.stamps, rows))
        self._tables = tables
        # The last element is always EMPTY_ROW: slot -1, which means "none", maps to it.
        self._rows = np.full(1, EMPTY_ROW, np.int64)
        self._size = 0

    def __len__(self) -> int:
        """Returns the number of entries."""
        return self._size

    @property
    def rows(self) -> np.ndarray:
        """Rows by slot, int64 [n], ascending."""
        return self._rows[: self._size]

    def append_row(self, row: int) -> None:
        """Appends a row as the next slot. `update_index` appends its key to the index."""
        if self._size + 1 == len(self._rows):
            grown = np.full(2 * len(self._rows) + 64, EMPTY_ROW, np.int64)
            grown[: self._size] = self.rows
            self._rows = grown
        self._rows[self._size] = row
        self._size += 1

    def remove_state(self, state: int, row: int) -> None:
        """Removes a state id from `row_by_state`, if it still refers to this row."""
        if self.row_by_state.get(state) == row:
            del self.row_by_state[state]

    def neighbours(self, queries: np.ndarray, p: int) -> np.ndarray:
        """Returns the rows of the p nearest keys, int64 [B, p], nearest first; 0 for none."""
        return self._rows[self.index.search(queries, p)]

    def update_index(self, changed: np.ndarray, may_rebuild: bool = True) -> bool:
        """Sends appended rows and changed keys to the index.

        Args:
            changed: Rows int64 [n], each once, whose keys are no longer those in the index.
            may_rebuild: Whether an outgrown index may be rebuilt. If more than half of all rows are
                new it is rebuilt in any case, which is faster than appending them.

        Returns:
            Whether the index was rebuilt.
        """
        known = len(self.index)
        appended = self.rows[known:]
        if (may_rebuild or len(appended) > known) and self.index.outgrown(len(appended)):
            self.index.rebuild(self._read_keys(self.rows))
            return True
        slots = np.searchsorted(self.rows, changed)
        slots = slots[slots < known]
        if len(slots):
            self.index.move(slots, self._read_keys(self._rows[slots]))
        if len(appended):
            self.index.append(self._read_keys(appended))
        return False

    def restore(self, rows: np.ndarray, tree: dict[str, np.ndarray]) -> None:
        """Replaces the content by the given rows.

        Args:
            rows: int64 [n], ascending.
            tree: `index.tree()` of when they were saved; empty if it was not.
        """
        self._size = len(rows)
        self._rows = np.append(rows, EMPTY_ROW)
        states = self._tables.read(self._tables.state_ids, rows)
        self.row_by_state = dict(zip(states.tolist(), rows.tolist(), strict=True))
        self.evictions.clear()
        self.index.restore(self._read_keys(self.rows), tree)

    def rebuild_index(self) -> None:
        """Replaces the content of the index by the keys in the tables."""
        self.index.rebuild(self._read_keys(self.rows))

    def _read_keys(self, rows: np.ndarray) -> np.ndarray:
        return self._tables.read(self._tables.keys, rows)


def update_indices(memories: list[ActionMemory], rows: np.ndarray, actions: np.ndarray) -> None:
    """Sends changed rows to the indices; rebuilds at most one, so that no call takes long.

    Args:
        memories: Memories of all actions.
        rows: Rows that were appended or whose keys changed, int64 [n], each once.
        actions: Action of each row, int64 [n].
    """
    may_rebuild = True
    for action in np.unique(actions):
        own = np.sort(rows[actions == action])
        if memories[action].update_index(own, may_rebuild):
            may_rebuild = False
