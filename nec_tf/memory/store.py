"""The memories of all actions outside the graph: NumPy in, NumPy out.

The graph calls this through `tf.py_function`. Here is what needs Python: neighbour search, known
states and eviction.

Threads. Changes of several threads take turns. Threads may look up beside a thread that changes the
memory only between `begin_reading` and `end_reading`; while they do, every method that changes
keys, values or an index raises `RuntimeError` before it changes anything. Stamps are not part of
this rule: acting stamps the neighbours it uses while updates read, and updates do not read stamps.
"""

import math
import threading
from collections.abc import Callable

import numpy as np

from nec_tf.memory.action_memory import ActionMemory, update_indices
from nec_tf.memory.neighbours import NeighbourIndex
from nec_tf.memory.state_ids import hash_states
from nec_tf.memory.tables import Tables
from nec_tf.memory.writing import UpdateRule, WriteBatch


class MemoryStore:
    """One `ActionMemory` per action, over one pool of rows."""

    def __init__(
        self,
        tables: Tables,
        make_index: Callable[[], NeighbourIndex],
        num_actions: int,
        capacity: int,
        update: UpdateRule,
        recognise_by_key: bool,
    ) -> None:
        """Makes a store over empty tables.

        Args:
            tables: Keys, values and other columns of all entries.
            make_index: Returns a new, empty index.
            num_actions: Number of memories, `A`.
            capacity: Largest number of entries of one memory.
            update: Computes the new value of a known state.
            recognise_by_key: Whether the id of a state is the hash of its key.
        """
        self._tables = tables
        self._capacity = capacity
        self._update = update
        self._recognise_by_key = recognise_by_key
        self._memories = [ActionMemory(tables, make_index()) for _ in range(num_actions)]
        self._moved = _Pending()  # rows whose moved keys the indices do not have yet
        self._outdated_ids = _Pending()  # rows whose keys moved since their state ids were computed
        self._invalid = False
        self._trees: dict[int, dict[str, np.ndarray]] = {}  # of a checkpoint, until `sync`
        self._readers = 0
        self._lock = threading.Lock()
        self._changing = threading.RLock()  # held by the thread that changes the memory

    @property
    def sizes(self) -> np.ndarray:
        """Number of entries of each action, int64 [A]."""
        self.sync()
        return np.array([len(memory) for memory in self._memories])

    @property
    def indices(self) -> list[NeighbourIndex]:
        """The neighbour index of each action."""
        return [memory.index for memory in self._memories]

    def rows(self, action: int | None = None) -> np.ndarray:
        """Returns the rows of one action, or of all actions in turn, int64 [n]."""
        self.sync()
        memories = self._memories if action is None else [self._memories[action]]
        return np.concatenate([memory.rows for memory in memories])

    def candidates(self, p: int) -> int:
        """Returns how many candidates to request so that the p nearest keys are among them."""
        return math.ceil(p * self._memories[0].index.overfetch)

    def begin_reading(self) -> None:
        """Forbids changes until `end_reading`; may be called once for each reading thread.

        Synchronises the indices first, so that lookups do not change them.
        """
        self.sync()
        with self._lock:
            self._readers += 1

    def end_reading(self) -> None:
        """Ends one `begin_reading`; any thread may call it."""
        with self._lock:
            if self._readers == 0:
                raise RuntimeError("end_reading was called more often than begin_reading")
            self._readers -= 1

    def require_no_readers(self) -> None:
        """Raises `RuntimeError` while a thread reads; every change calls this first."""
        with self._lock:
            readers = self._readers
        if readers:
            raise RuntimeError(
                f"the memory cannot change while {readers} update(s) read it: wait until they have"
                " read (learner.finish_updates(), or dnd.end_reading())"
            )

    def invalidate(self, trees: dict[int, dict[str, np.ndarray]] | None = None) -> None:
        """Announces new content of the tables: the next `sync` rebuilds what is derived from them.

        Call it before the tables change: it raises `RuntimeError` while a thread reads them.

        Args:
            trees: `trees()` of when the new content was saved, if it was: rebuilding is faster.
        """
        self.require_no_readers()
        self._invalid = True
        self._trees = trees or {}

    def trees(self) -> dict[int, dict[str, np.ndarray]]:
        """Returns `tree()` of the index of each action that has one, for `invalidate`."""
        self.sync()
        found = {action: memory.index.tree() for action, memory in enumerate(self._memories)}
        return {action: tree for action, tree in found.items() if tree}

    def sync(self) -> None:
        """Brings the indices up to date with the tables, if enough has changed."""
        with self._changing:
            if self._invalid:
                self.require_no_readers()
                self._restore()
            elif len(self._moved) >= self._memories[0].index.refresh_after:
                self.require_no_readers()
                self._refresh(self._moved.take())

    def rebuild_index(self, action: int) -> None:
        """Rebuilds the index of one action from its keys in the tables."""
        with self._changing:
            self.require_no_readers()
            self.sync()
            rows = self._memories[action].rows
            self._tables.put(self._tables.drift, rows, np.zeros(len(rows)))
            self._memories[action].rebuild_index()

    def neighbours(self, queries: np.ndarray, actions: np.ndarray | None, p: int) -> np.ndarray:
        """Returns the rows of the nearest keys.

        Args:
            queries: [B, key_size].
            actions: Action whose memory each query is looked up in, int64 [B]; None for all.
            p: Number of neighbours.

        Returns:
            Rows int64 [B, A, p], nearest first; [B, 1, p] for given actions. Filled up with row 0
            if there are fewer.
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
        """Registers keys that gradients moved; `sync` sends them to the indices in batches.

        Args:
            rows: int64 [n].
            drift: Upper bound of the distance of each key from what the index holds, [n].
        """
        self.require_no_readers()
        tolerances = np.array([memory.index.tolerance for memory in self._memories])
        far = drift > tolerances.min()  # mostly none; then no action is read
        if far.any():
            actions = self._tables.read(self._tables.actions, rows[far])
            with self._changing:
                self._moved.add(rows[far][drift[far] > tolerances[actions]])
        if self._recognise_by_key:
            with self._changing:
                self._outdated_ids.add(rows[drift > 0])

    def write(
        self,
        actions: np.ndarray,
        keys: np.ndarray,
        values: np.ndarray,
        state_ids: np.ndarray | None = None,
    ) -> int:
        """Writes entries in their order; they must be valid.

        Args:
            actions: Action of each entry, int64 [n].
            keys: [n, key_size].
            values: [n].
            state_ids: Ids of the states, int64 [n]; None if states are recognised by their keys.

        Returns:
            The number of entries whose states were known.
        """
        with self._changing:
            self.require_no_readers()
            self.sync()
            if state_ids is None:
                self._update_ids(self._outdated_ids.take())
                state_ids = hash_states(keys)
            batch = WriteBatch(self._tables, self._memories, self._capacity, self._update)
            return batch.write(actions, keys, values, state_ids)

    def _refresh(self, rows: np.ndarray) -> None:
        """Sends moved keys to the indices."""
        tables = self._tables
        actions = tables.read(tables.actions, rows)
        tables.put(tables.drift, rows, np.zeros(len(rows)))
        update_indices(self._memories, rows, actions)

    def _update_ids(self, rows: np.ndarray) -> None:
        """Recomputes the state ids of rows from their current keys."""
        if len(rows) == 0:
            return
        tables = self._tables
        before = tables.read(tables.state_ids, rows)
        after = hash_states(tables.read(tables.keys, rows))
        tables.put(tables.state_ids, rows, after)
        actions = tables.read(tables.actions, rows)
        for row, action, old in zip(rows.tolist(), actions, before.tolist(), strict=True):
            self._memories[action].remove_state(old, row)
        for row, action, new in zip(rows.tolist(), actions, after.tolist(), strict=True):
            self._memories[action].row_by_state[new] = row

    def _restore(self) -> None:
        """Rebuilds everything that is derived from the tables."""
        self._moved.take()
        self._outdated_ids.take()
        rows = np.arange(int(self._tables.size))
        actions = self._tables.read(self._tables.actions, rows)
        if actions.max() >= len(self._memories):
            raise ValueError(
                f"the restored memory has entries of action {actions.max()}, but the layer has"
                f" num_actions={len(self._memories)}"
            )
        self._invalid = False
        self._tables.resize_scratch()
        self._tables.put(self._tables.drift, rows, np.zeros(len(rows)))
        for action, memory in enumerate(self._memories):
            own = rows[actions == action]
            memory.restore(own, self._trees.pop(action, {}))
            if self._recognise_by_key:
                self._update_ids(own)  # keys may have moved since their ids were computed


class _Pending:
    """Rows that wait to be processed in one batch."""

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
        """Returns the waiting rows, distinct and ascending, and removes them."""
        rows = np.unique(np.concatenate(self._rows)) if self._rows else np.empty(0, np.int64)
        self._rows, self._count = [], 0
        return rows
