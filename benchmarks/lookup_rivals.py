"""Rows of `benchmarks.lookup` for other libraries (rivals), on the same keys.

None of them has gradients: they get the keys as our layer's gradient steps left them. Each class
says which changes of keys its library supports.
"""

import abc
import importlib.util
import time
from typing import Any

import numpy as np

from benchmarks.lookup_measure import (
    FILL_BATCH,
    WRITE_BATCH,
    Keys,
    P,
    Settings,
    Stopwatch,
    Truth,
    batches,
    resident_bytes,
    search_all,
    split,
)

_TIMED_BATCHES = 50  # batches of writes; the remaining entries are written at once


class Rival(abc.ABC):
    """A library's index over keys, which are identified by their rows.

    Attributes:
        module: Name of the Python module.
        note: How to read the row's figures.
    """

    module: str
    note: str

    @abc.abstractmethod
    def build(self, keys: np.ndarray) -> None:
        """Takes all keys [n, key_size] as rows 0 to n - 1."""

    @abc.abstractmethod
    def search(self, query: np.ndarray) -> np.ndarray:
        """Returns the rows of the p nearest keys to one query [key_size], int64 [p]."""

    def move(self, rows: np.ndarray, keys: np.ndarray) -> bool:
        """Updates moved keys [n, key_size]; returns False if the library cannot."""
        del rows, keys
        return False

    @abc.abstractmethod
    def replace(self, rows: np.ndarray, live: np.ndarray) -> None:
        """Replaces the entries at rows [n] by others, whose keys are live[rows]."""


class FaissFlat(Rival):
    """faiss' exact index."""

    module = "faiss"
    note = (
        "faiss_flat keeps the keys from before the gradient steps (its flat index cannot change a"
        " key); a write removes the old entry and adds the new one."
    )

    def build(self, keys: np.ndarray) -> None:
        """See `Rival`."""
        import faiss

        self._faiss = faiss
        faiss.omp_set_num_threads(1)  # one query is not divided among threads
        self._index = faiss.IndexFlatL2(keys.shape[1])
        for batch in batches(keys, FILL_BATCH):
            self._index.add(batch)
        self._rows = np.arange(len(keys))  # by position: removing one moves the later ones up

    def search(self, query: np.ndarray) -> np.ndarray:
        """See `Rival`."""
        return self._rows[self._index.search(query[None], P)[1][0]]

    def replace(self, rows: np.ndarray, live: np.ndarray) -> None:
        """See `Rival`."""
        gone = np.flatnonzero(np.isin(self._rows, rows))
        self._index.remove_ids(self._faiss.IDSelectorBatch(gone))
        self._index.add(live[rows])
        self._rows = np.append(np.delete(self._rows, gone), rows)


class Hnswlib(Rival):
    """hnswlib's graph."""

    module = "hnswlib"
    note = (
        "hnswlib (M 16, ef_construction 100, ef 200) gets moved keys by adding their labels again,"
        " once after all gradient steps: move_ms a key. A write deletes and adds. Builds, moves and"
        " writes use all cores, searches one."
    )

    def build(self, keys: np.ndarray) -> None:
        """See `Rival`."""
        import hnswlib

        self._index = hnswlib.Index("l2", keys.shape[1])
        self._index.init_index(
            len(keys), M=16, ef_construction=100, random_seed=0, allow_replace_deleted=True
        )
        self._index.set_ef(200)
        self._rows = np.arange(len(keys))  # by label
        self._labels = np.arange(len(keys))  # by row
        for rows in batches(self._rows, FILL_BATCH):
            self._index.add_items(keys[rows], rows)

    def search(self, query: np.ndarray) -> np.ndarray:
        """See `Rival`."""
        return self._rows[self._index.knn_query(query, P, num_threads=1)[0][0].astype(np.int64)]

    def move(self, rows: np.ndarray, keys: np.ndarray) -> bool:
        """See `Rival`."""
        self._index.add_items(keys, self._labels[rows])
        return True

    def replace(self, rows: np.ndarray, live: np.ndarray) -> None:
        """See `Rival`."""
        for label in self._labels[rows].tolist():
            self._index.mark_deleted(label)
        self._labels[rows] = len(self._rows) + np.arange(len(rows))
        self._rows = np.append(self._rows, rows)
        self._index.add_items(live[rows], self._labels[rows], replace_deleted=True)


class SklearnKDTree(Rival):
    """scikit-learn's KD-tree, the paper's method."""

    module = "sklearn"
    note = (
        "sklearn_kdtree cannot add an entry: each batch of writes is a rebuild, and write_ms is its"
        f" time / {WRITE_BATCH} entries; until that rebuild it keeps the keys from before the"
        " gradient steps."
    )

    def build(self, keys: np.ndarray) -> None:
        """See `Rival`."""
        from sklearn.neighbors import KDTree

        self._tree = KDTree(keys)

    def search(self, query: np.ndarray) -> np.ndarray:
        """See `Rival`."""
        return self._tree.query(query[None], P, return_distance=False)[0]

    def replace(self, rows: np.ndarray, live: np.ndarray) -> None:
        """See `Rival`."""
        del rows
        self.build(live)


RIVALS: dict[str, type[Rival]] = {
    "faiss_flat": FaissFlat,
    "hnswlib": Hnswlib,
    "sklearn_kdtree": SklearnKDTree,
}


def is_installed(backend: str) -> bool:
    """Returns whether a rival's library can be imported."""
    return importlib.util.find_spec(RIVALS[backend].module) is not None


def measure(backend: str, settings: Settings) -> dict[str, Any]:
    """Returns the row of a rival; fields that do not apply to it are None."""
    keys = split(settings)
    rival = RIVALS[backend]()
    row: dict[str, Any] = {"backend": backend, "entries": settings.entries}
    row |= _build(rival, keys)
    found, times = search_all(rival.search, keys.stored, keys.queries)
    row |= times
    row["recall_at_50"] = Truth(keys.stored, keys.queries).recall(found)
    with np.load(settings.moved_path) as after:
        moved, replaced = after["moved"], after["replaced"]
    row |= _move(rival, keys, moved)
    row |= _replace(rival, keys, moved, replaced)
    return {**row, "gradient_step_ms": None}


def _build(rival: Rival, keys: Keys) -> dict[str, float | None]:
    rival.build(keys.queries)  # imports the library
    before = resident_bytes()
    started = time.perf_counter()
    rival.build(keys.stored)
    seconds = time.perf_counter() - started
    size = len(keys.stored)
    can_insert = not isinstance(rival, SklearnKDTree)
    return {
        "build_s": seconds,
        "append_ms": seconds / size * 1e3 if can_insert else None,
        "bytes_per_entry": (resident_bytes() - before) / size,
    }


def _move(rival: Rival, keys: Keys, moved: np.ndarray) -> dict[str, float | None]:
    """Updates the keys that gradients moved, if the rival can."""
    rows = np.flatnonzero((moved != keys.stored).any(axis=1))
    started = time.perf_counter()
    updated = rival.move(rows, moved[rows]) and len(rows) > 0
    seconds = time.perf_counter() - started
    return {
        "move_ms": seconds / len(rows) * 1e3 if updated else None,
        "recall_after_gradients": _recall(rival, moved, keys.queries),
    }


def _replace(
    rival: Rival, keys: Keys, moved: np.ndarray, replaced: np.ndarray
) -> dict[str, float | None]:
    """Replaces the entries that were replaced in our memory; times the first batches."""
    rows = np.flatnonzero((moved != replaced).any(axis=1))
    timed = rows[: WRITE_BATCH * (1 if isinstance(rival, SklearnKDTree) else _TIMED_BATCHES)]
    watch = Stopwatch()
    for batch in batches(timed, WRITE_BATCH):
        with watch.running():
            rival.replace(batch, replaced)
    if len(rows) > len(timed):
        rival.replace(rows[len(timed) :], replaced)
    return {
        "write_ms": watch.seconds / len(timed) * 1e3,
        "recall_after_replacement": _recall(rival, replaced, keys.queries),
    }


def _recall(rival: Rival, live: np.ndarray, queries: np.ndarray) -> float:
    return Truth(live, queries).recall(np.stack([rival.search(query) for query in queries]))
