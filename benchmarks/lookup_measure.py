"""Shared by all rows of `benchmarks.lookup`: keys, true neighbours, time and memory."""

import dataclasses
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil

P = 50  # neighbours; paper, section 4
WRITE_BATCH = 100  # entries written at once
FILL_BATCH = 2_000  # entries written at once while the memory is filled
REPLACED = 0.2  # of the entries
_CHUNK = 50_000  # keys compared with all queries at once
_TURN = 20  # queries
_TIE = 1e-5  # relative: larger squared distances than the p-th neighbour's that count as equal


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of one row.

    Attributes:
        keys_path: An .npy file of distinct real keys in random order, float32 [n, key_size].
        entries: Entries of the memory.
        steps: Gradient steps.
        queries: Number of held-out keys to look up.
        moved_path: An .npz file of the keys that our gradient steps moved, for the rivals.
        recognise_by_key: Whether a state is recognised by its key; if not, by an id.
        keys_learning_rate: Learning rate of the keys in gradient steps.
    """

    keys_path: Path
    entries: int
    steps: int
    queries: int
    moved_path: Path
    recognise_by_key: bool = False
    keys_learning_rate: float = 1e-3


@dataclasses.dataclass(frozen=True)
class Keys:
    """Distinct real keys.

    Attributes:
        stored: Keys that fill the memory, [entries, key_size].
        new: Keys that replace a part of them, [REPLACED * entries, key_size].
        queries: Keys to measure with, never in the memory, [queries, key_size].
        training: Keys that gradient steps look up, never in the memory, [n, key_size].
    """

    stored: np.ndarray
    new: np.ndarray
    queries: np.ndarray
    training: np.ndarray


def split(settings: Settings) -> Keys:
    """Reads the keys and splits them; raises ValueError if they are too few."""
    keys = np.load(settings.keys_path)
    replaced = int(REPLACED * settings.entries)
    ends = np.cumsum([settings.entries, replaced, settings.queries])
    if len(keys) <= ends[-1]:
        raise ValueError(
            f"{settings.entries} entries need more than {ends[-1]} distinct keys and there are"
            f" {len(keys)}: encode more --states"
        )
    return Keys(*np.split(keys, ends))


def distinct(keys: np.ndarray) -> np.ndarray:
    """Returns each key [n, key_size] once, in the order of its first appearance."""
    as_bytes = np.ascontiguousarray(keys).view(f"V{keys.shape[1] * keys.itemsize}")[:, 0]
    _, first = np.unique(as_bytes, return_index=True)
    return keys[np.sort(first)]


class Truth:
    """Exact search over the live keys, to measure the recall of a backend."""

    def __init__(self, live: np.ndarray, queries: np.ndarray) -> None:
        """Computes the distance from each query to the p-th nearest of `live` [n, key_size]."""
        self._live = live
        self._queries = queries.astype(np.float64)
        self._limits = self._find_limits(min(P, len(live)))

    def recall(self, found: np.ndarray) -> float:
        """Returns the share of the p nearest that was found; a tie with the p-th one counts.

        Args:
            found: Rows of the live keys, int64 [queries, p], distinct; -1 for none.
        """
        distances = ((self._live[found] - self._queries[:, None, :]) ** 2).sum(axis=-1)
        right = (distances <= self._limits[:, None] * (1 + _TIE)) & (found >= 0)
        for row, good in zip(found, right, strict=True):
            assert len(np.unique(row[good])) == good.sum(), "a backend named one entry twice"
        return float(right.sum(axis=1).mean() / min(P, len(self._live)))

    def spacing(self) -> float:
        """Returns the median distance from a query to its p-th neighbour."""
        return float(np.sqrt(np.median(self._limits)))

    def _find_limits(self, p: int) -> np.ndarray:
        """Returns the squared distance of each query to its p-th neighbour, float64 [queries]."""
        nearest = np.empty((len(self._queries), 0))
        for chunk in batches(self._live, _CHUNK):
            live = chunk.astype(np.float64)
            # The expanded square is precise enough in float64 to choose candidates.
            rough = (live**2).sum(axis=1) - 2 * self._queries @ live.T
            near = np.argpartition(rough, min(p, len(live)) - 1, axis=1)[:, :p]
            distances = ((live[near] - self._queries[:, None, :]) ** 2).sum(axis=-1)
            nearest = np.concatenate([nearest, distances], axis=1)
        return np.partition(nearest, p - 1, axis=1)[:, p - 1]


class NumpySearch:
    """The fastest exact search in NumPy: expanded square, precomputed norms of the keys."""

    def __init__(self, keys: np.ndarray) -> None:
        """Takes the keys, float32 [n, key_size]."""
        self._keys = keys
        self._norms = np.einsum("nd,nd->n", keys, keys)

    def __call__(self, query: np.ndarray) -> np.ndarray:
        """Returns the slots of the p nearest keys to one query [key_size], in any order."""
        squares = self._norms - 2.0 * (self._keys @ query)
        return np.argpartition(squares, P)[:P] if len(squares) > P else np.arange(len(squares))


def search_all(
    search: Callable[[np.ndarray], np.ndarray], keys: np.ndarray, queries: np.ndarray
) -> tuple[np.ndarray, dict[str, float]]:
    """Looks up queries one by one, in turns of `_TURN` with NumPy's exact search of the same keys.

    Args:
        search: From one query [key_size] to rows int64 [p].
        keys: The keys that NumPy searches, [n, key_size].
        queries: [queries, key_size].

    Returns:
        The rows that `search` found, int64 [queries, p], and the medians `query_ms`,
        `numpy_query_ms`, and `query_cold_ms` of the first query after each turn of NumPy.
    """
    rival = NumpySearch(keys)
    search(queries[0]), rival(queries[0])  # first calls are slower
    found, ours, colds, numpys = [], [], [], []
    for turn in batches(queries, _TURN):
        times = []
        for query in turn:
            started = time.perf_counter()
            found.append(search(query))
            times.append(time.perf_counter() - started)
        colds.append(times[0])
        ours += times
        for query in turn:
            started = time.perf_counter()
            rival(query)
            numpys.append(time.perf_counter() - started)
    medians = {
        "query_ms": _median_ms(ours),
        "query_cold_ms": _median_ms(colds),
        "numpy_query_ms": _median_ms(numpys),
    }
    return np.stack(found), medians


def median_ms(call: Callable[[np.ndarray], Any], arguments: np.ndarray) -> float:
    """Returns the median time of `call` over the arguments, in ms, after one call to warm up."""
    call(arguments[0])
    times = []
    for argument in arguments:
        started = time.perf_counter()
        call(argument)
        times.append(time.perf_counter() - started)
    return _median_ms(times)


class Stopwatch:
    """Adds up the seconds spent inside it."""

    def __init__(self) -> None:
        """Starts at 0."""
        self.seconds = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Adds the time spent in the block."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - started


def batches(keys: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """Yields keys [n, key_size] in batches of at most `size`."""
    for start in range(0, len(keys), size):
        yield keys[start : start + size]


def resident_bytes() -> int:
    """Returns the resident memory of this process, in bytes."""
    return psutil.Process().memory_info().rss


def _median_ms(seconds: list[float]) -> float:
    return float(np.median(seconds) * 1e3)
