"""The memories of all actions, outside the graph: NumPy in, NumPy out.

The graph reaches this through `tf.py_function`. Here lies what is sequential by nature: who is
near, which state is known, which entry goes.
"""

import math
import threading
from collections.abc import Callable

import numpy as np

from nec_tf.memory.action_memory import ActionMemory, tell_indices
from nec_tf.memory.neighbours import NeighbourIndex
from nec_tf.memory.state_ids import hash_states
from nec_tf.memory.tables import Tables
from nec_tf.memory.writing import UpdateRule, WriteBatch


class MemoryStore:
    """One `ActionMemory` for each action, over one pool of rows."""

    def __init__(
        self,
        tables: Tables,
        make_index: Callable[[], NeighbourIndex],
        num_actions: int,
        capacity: int,
        update: UpdateRule,
        recognise_by_key: bool,
    ) -> None:
        """Memories of what the tables hold.

        Args:
            tables: The truth.
            make_index: Returns a new, empty index.
            num_actions: How many memories.
            capacity: The most entries of one memory.
            update: What becomes of the value of a known state.
            recognise_by_key: Whether a state's id is that of its key, and follows it.
        """
        self._tables = tables
        self._capacity = capacity
        self._update = update
        self._recognise_by_key = recognise_by_key
        self._memories = [ActionMemory(tables, make_index()) for _ in range(num_actions)]
        self._moved = _Pending()  # keys that the indices have to hear of
        self._renamed = _Pending()  # keys that are no longer those by which their states are known
        self._invalid = False
        self._readers = 0
        self._lock = threading.Lock()

    @property
    def sizes(self) -> np.ndarray:
        """Entries in the memory of each action, int64 [A]."""
        self.sync()
        return np.array([len(memory) for memory in self._memories])

    @property
    def indices(self) -> list[NeighbourIndex]:
        """The neighbour index of each action."""
        return [memory.index for memory in self._memories]

    def rows(self, action: int | None = None) -> np.ndarray:
        """Returns the rows of one action's memory, or of all one after the other, int64 [n]."""
        self.sync()
        memories = self._memories if action is None else [self._memories[action]]
        return np.concatenate([memory.rows for memory in memories])

    def candidates(self, p: int) -> int:
        """How many neighbours to ask for, so that the p nearest live keys are among them."""
        return math.ceil(p * self._memories[0].index.overfetch)

    def begin_reading(self) -> None:
        """Forbids changes until `end_reading`; several threads may read at once."""
        with self._lock:
            self._readers += 1

    def end_reading(self) -> None:
        """Ends one `begin_reading`."""
        with self._lock:
            self._readers -= 1

    def require_no_readers(self) -> None:
        """Raises `RuntimeError` if a thread is reading: what it reads must not change."""
        if self._readers:
            raise RuntimeError(
                f"the memory was about to change while {self._readers} update(s) read it: call"
                " finish_updates() before"
            )

    def invalidate(self) -> None:
        """Marks everything derived from the tables as outdated; the next `sync` rebuilds it."""
        self._invalid = True

    def sync(self) -> None:
        """Brings the indices up to date with the tables, if enough has changed."""
        if self._invalid:
            self.require_no_readers()
            self._restore()
        elif len(self._moved) >= self._memories[0].index.refresh_after:
            self.require_no_readers()
            self._refresh(self._moved.take())

    def neighbours(self, queries: np.ndarray, actions: np.ndarray | None, p: int) -> np.ndarray:
        """Returns the rows of the nearest keys.

        Args:
            queries: [B, key_size].
            actions: In whose memory to look, int64 [B]; every one where None.
            p: How many neighbours.

        Returns:
            Rows int64 [B, A, p], nearest first; [B, 1, p] where actions are given. Row 0 where
            there are fewer.
        """
        self.sync()
        if actions is None:
            rows = np.empty((len(queries), len(self._memories), p), np.int64)
            for action, memory in enumerate(self._memories):
                rows[:, action] = memory.neighbours(queries, p)
            return rows
        rows = np.empty((len(queries), 1, p), np.int64)
        for action in np.unique(actions):
            asked = actions == action
            rows[asked, 0] = self._memories[action].neighbours(queries[asked], p)
        return rows

    def moved(self, rows: np.ndarray, drift: np.ndarray) -> None:
        """Hears that gradients moved keys.

        Args:
            rows: int64 [n].
            drift: How far from what the index was told each may be now, [n].
        """
        self.require_no_readers()
        tolerances = np.array([memory.index.tolerance for memory in self._memories])
        far = drift > tolerances.min()  # seldom any: whose they are need not be looked up
        if far.any():
            actions = self._tables.read(self._tables.actions, rows[far])
            self._moved.add(rows[far][drift[far] > tolerances[actions]])
        if self._recognise_by_key:
            self._renamed.add(rows[drift > 0])

    def write(
        self,
        actions: np.ndarray,
        keys: np.ndarray,
        values: np.ndarray,
        state_ids: np.ndarray | None = None,
    ) -> int:
        """Writes a batch as if its entries came one after the other; all of them must be valid.

        Args:
            actions: To whose memory each entry belongs, int64 [n].
            keys: [n, key_size].
            values: [n].
            state_ids: Ids of the states, int64 [n]; None where the key is the state.

        Returns:
            How many of them were states already known.
        """
        self.require_no_readers()
        self.sync()
        if state_ids is None:
            self._rename(self._renamed.take())
            state_ids = hash_states(keys)
        batch = WriteBatch(self._tables, self._memories, self._capacity, self._update)
        return batch.write(actions, keys, values, state_ids)

    def _refresh(self, rows: np.ndarray) -> None:
        """Tells the indices of keys that gradients moved."""
        tables = self._tables
        actions = tables.read(tables.actions, rows)
        tables.put(tables.drift, rows, np.zeros(len(rows)))
        tell_indices(self._memories, rows, actions)

    def _rename(self, rows: np.ndarray) -> None:
        """Gives rows whose keys moved the ids of their keys as they are now."""
        if len(rows) == 0:
            return
        tables = self._tables
        before = tables.read(tables.state_ids, rows)
        after = hash_states(tables.read(tables.keys, rows))
        tables.put(tables.state_ids, rows, after)
        actions = tables.read(tables.actions, rows)
        for row, action, old in zip(rows.tolist(), actions, before.tolist(), strict=True):
            self._memories[action].forget(old, row)
        for row, action, new in zip(rows.tolist(), actions, after.tolist(), strict=True):
            self._memories[action].row_by_state[new] = row

    def _restore(self) -> None:
        """Builds everything that is derived from the tables anew."""
        self._moved.take()
        self._renamed.take()
        rows = np.arange(int(self._tables.size))
        actions = self._tables.read(self._tables.actions, rows)
        if actions.max() >= len(self._memories):
            raise ValueError(
                f"the restored memory has entries of action {actions.max()}, but the layer has"
                f" num_actions={len(self._memories)}"
            )
        self._invalid = False
        self._tables.level_scratch()
        self._tables.put(self._tables.drift, rows, np.zeros(len(rows)))
        for action, memory in enumerate(self._memories):
            own = rows[actions == action]
            memory.restore(own)
            if self._recognise_by_key:
                self._rename(own)  # gradients may have moved keys since their ids were taken


class _Pending:
    """Rows that wait for one batch of work."""

    def __init__(self) -> None:
        self._rows: list[np.ndarray] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, rows: np.ndarray) -> None:
        """Adds rows int64 [n]."""
        self._rows.append(rows)
        self._count += len(rows)

    def take(self) -> np.ndarray:
        """Returns each row that waited once, ascending, and forgets them."""
        rows = np.unique(np.concatenate(self._rows)) if self._rows else np.empty(0, np.int64)
        self._rows, self._count = [], 0
        return rows
