"""The memory of one action, `M_a`: which rows of the tables are its own, and how it finds them.

All of it is derived from the tables and can be thrown away: after a restore it is built again.
"""

import numpy as np

from nec_tf.memory.eviction import EvictionQueue
from nec_tf.memory.neighbours import NeighbourIndex
from nec_tf.memory.tables import NOBODY, Tables


class ActionMemory:
    """Rows by slot, rows by state, the neighbour index and the eviction queue of one action.

    The n-th entry that the memory took is its slot n; slots rise with row numbers, since rows are
    handed out in order and a full memory overwrites its own.
    """

    def __init__(self, tables: Tables, index: NeighbourIndex) -> None:
        """An empty memory over shared tables."""
        self.index = index
        self.row_by_state: dict[int, int] = {}
        self.evictions = EvictionQueue(lambda rows: tables.read(tables.stamps, rows))
        self._tables = tables
        # One place more than rows, which holds nobody's row: slot -1, "none", then maps to it.
        self._rows = np.full(1, NOBODY, np.int64)
        self._size = 0

    def __len__(self) -> int:
        """Returns the entries held."""
        return self._size

    @property
    def rows(self) -> np.ndarray:
        """The rows of this memory by slot, int64 [n], ascending."""
        return self._rows[: self._size]

    def adopt(self, row: int) -> None:
        """Takes a new row as the next slot. The index learns of it in `tell_index`."""
        if self._size + 1 == len(self._rows):
            grown = np.full(2 * len(self._rows) + 64, NOBODY, np.int64)
            grown[: self._size] = self.rows
            self._rows = grown
        self._rows[self._size] = row
        self._size += 1

    def forget(self, state: int, row: int) -> None:
        """Lets go of a state that no longer stands in a row."""
        if self.row_by_state.get(state) == row:
            del self.row_by_state[state]

    def neighbours(self, queries: np.ndarray, p: int) -> np.ndarray:
        """Returns the rows of the p nearest keys, int64 [B, p], nearest first, 0 where none is."""
        return self._rows[self.index.search(queries, p)]

    def tell_index(self, changed: np.ndarray, may_rebuild: bool = True) -> bool:
        """Tells the index of rows that were adopted, and of keys that changed.

        Args:
            changed: Rows int64 [n], each once, whose keys are not what the index last heard.
            may_rebuild: Whether it may be built again where it is outgrown. It is in any case where
                more rows are new than known: that is faster than to append them.

        Returns:
            Whether it was built again.
        """
        known = len(self.index)
        adopted = self.rows[known:]
        if (may_rebuild or len(adopted) > known) and self.index.outgrown(len(adopted)):
            self.index.rebuild(self._read_keys(self.rows))
            return True
        slots = np.searchsorted(self.rows, changed)
        slots = slots[slots < known]
        if len(slots):
            self.index.move(slots, self._read_keys(self._rows[slots]))
        if len(adopted):
            self.index.append(self._read_keys(adopted))
        return False

    def restore(self, rows: np.ndarray) -> None:
        """Becomes the memory of the given rows, int64 [n], ascending, whatever it was before."""
        self._size = len(rows)
        self._rows = np.append(rows, NOBODY)
        states = self._tables.read(self._tables.state_ids, rows)
        self.row_by_state = dict(zip(states.tolist(), rows.tolist(), strict=True))
        self.evictions.clear()
        self.index.rebuild(self._read_keys(rows))

    def _read_keys(self, rows: np.ndarray) -> np.ndarray:
        return self._tables.read(self._tables.keys, rows)


def tell_indices(memories: list[ActionMemory], rows: np.ndarray, actions: np.ndarray) -> None:
    """Tells the indices of changed rows; at most one is built again, so that nobody waits for long.

    Args:
        memories: Of all actions.
        rows: That were adopted or whose keys changed, int64 [n], each once.
        actions: To whose memory each belongs, int64 [n].
    """
    may_rebuild = True
    for action in np.unique(actions):
        own = np.sort(rows[actions == action])
        if memories[action].tell_index(own, may_rebuild):
            may_rebuild = False
