"""Approximate search with ScaNN: brute force while small, then a tree that grows online.

Properties of ScaNN 1.3.0 that this module handles, each with a test:
  * Its Python wrapper keeps ids in lists and pickles them. The searcher inside is used directly;
    its ids are our slots (an upsert without an id takes the next number).
  * An empty upsert crashes the process.
  * An id twice in one upsert leaves a ghost entry that no later upsert reaches.
  * A tree needs at least as many keys as leaves.
  * Results can be shorter than requested, or padded with index 0 at distance NaN.
  * Distances to leaves lose precision if all keys are far from the origin: the mean of the keys at
    the last rebuild is subtracted.
  * A tree that starts from random centres depends on memory addresses of the process.
  * The largest key of the build determines the grid of 8-bit keys. Later keys get other distances
    unless they lie on this grid: see `_Grid`.
  * Every searcher has its own threads, and there is one searcher per action: two threads each,
    which share a large batch of queries.

Leaves are scored with the keys themselves, in 8 bits per element if that separates neighbours,
because a search is limited by memory bandwidth. Asymmetric hashing, ScaNN's usual choice, found
only 50 to 80% of the neighbours of real encoder keys, which are closer together than its codes can
separate (measured, docs/algorithm.md).
"""

import math
from typing import Any

import numpy as np
from scann.scann_ops.py import scann_ops_pybind

from nec_tf.memory.neighbours.base import NeighbourIndex
from nec_tf.memory.neighbours.scann_files import searcher_of, tree_of

# Measured on keys of a real encoder with benchmarks/lookup.py (docs/algorithm.md).
TREE_FROM = 4_000  # keys; below, brute force is as fast. Doubled six times it is 256,000
_LEAVES_PER_ROOT = 2.0  # leaves = 2 sqrt(keys)
_LEAVES_TO_SEARCH = 12  # at least: the neighbours of a key spread over as many leaves
_KEYS_TO_SEARCH = 40  # at least, per neighbour: recall is lost at the borders of small leaves
_TRAINING_SAMPLE = 10_000  # keys for the tree's k-means
_TRAINING_ITERATIONS = 6
_MIN_LEAF = 5  # keys; ScaNN's default of 50 costs recall if leaves are small
_RETRAIN_GROWTH = 2.0
_LARGEST_RETRAINING = 300_000  # keys: blocks training for 1.4 s; 500,000 keys would take 2.7 s
# Moves per key. Keys crowd as the network learns, and `tolerance` is in units of the spacing at the
# last rebuild: with 4 moves per key, recall fell to 0.988 before a rebuild (docs/reliability.md).
RETRAIN_CHANGES = 2.0
_GRID_FROM = 4_000  # keys; fewer fit in a cache
_GRID_ROOM = 1.5  # edge of the grid, relative to the largest element at the build
_GRID_STEPS = 127  # from 0 to the edge of the grid: 8 bits
_COARSEST = 0.07  # largest mean rounding error, relative to the usual outermost neighbour distance
_RETRAIN_OUTSIDE = 0.2  # share of keys beyond the grid, which are clipped to its edge
_TOLERATED_DRIFT = 0.15  # relative to the usual outermost neighbour distance
_OVERFETCH = 1.5
_REFRESH_BATCH = 1024  # moved keys
_SPACING_SAMPLE = 64  # keys whose neighbour distances are measured,
_SPACING_AMONG = 20_000  # among so many keys
_THREADS = 2  # per searcher
_BATCHED_FROM = 4  # queries; fewer are searched one by one
_PARALLEL_FROM = 16  # queries; below, waking a thread costs more than it saves


class ScannIndex(NeighbourIndex):
    """A ScaNN searcher that takes new and moved keys and is retrained as it grows."""

    is_exact = False
    refresh_after = _REFRESH_BATCH
    overfetch = _OVERFETCH

    def __init__(self, key_size: int, p: int = 50, tree_from: int = TREE_FROM) -> None:
        """Makes an empty index.

        Args:
            key_size: Number of elements of a key.
            p: Usual number of neighbours of a search.
            tree_from: Number of keys from which on a tree is trained.
        """
        self._p = p
        self._tree_from = tree_from
        self.rebuild(np.empty((0, key_size), np.float32))

    def __len__(self) -> int:
        """See `NeighbourIndex`."""
        return self._searcher.size()

    def append(self, keys: np.ndarray) -> None:
        """See `NeighbourIndex`."""
        if len(keys):
            self._searcher.upsert([None] * len(keys), self._as_held(keys), len(keys))

    def move(self, slots: np.ndarray, keys: np.ndarray) -> None:
        """See `NeighbourIndex`."""
        unique, last = np.unique(slots[::-1], return_index=True)
        if len(unique):
            keys = self._as_held(keys[::-1][last])
            self._searcher.upsert(unique.tolist(), keys, len(unique))
        self._moved += len(unique)

    def search(self, queries: np.ndarray, p: int) -> np.ndarray:
        """See `NeighbourIndex`."""
        if self._searcher.size() == 0:
            return np.full((len(queries), p), -1, np.int64)
        queries = self._centred(queries)
        if len(queries) >= _BATCHED_FROM:
            parallel, share = len(queries) >= _PARALLEL_FROM, -(-len(queries) // _THREADS)
            found, distances = self._searcher.search_batched(queries, p, -1, -1, parallel, share)
            if _complete(found[0], distances, p):
                return found.astype(np.int64)
        # One by one: a batched search cuts all results to the length of the shortest.
        slots = np.empty((len(queries), p), np.int64)
        for row, query in zip(slots, queries, strict=True):
            found, distances = self._searcher.search(query, p, -1, -1)
            if _complete(found, distances, p):
                row[:] = found
            else:
                found = found[~np.isnan(distances)]
                row[: len(found)] = found
                row[len(found) :] = -1
        return slots

    def rebuild(self, keys: np.ndarray) -> None:
        """See `NeighbourIndex`."""
        count = len(keys)
        self._centre = keys.mean(axis=0) if count else np.zeros(keys.shape[1], keys.dtype)
        keys = self._centred(keys)
        settings = tree_settings(count, self._p, self._tree_from)
        spacing = _spacing(keys, self._p) if settings else 0.0
        self._grid = _Grid.over(keys, spacing) if settings and count >= _GRID_FROM else None
        self._searcher = _build(keys, self._p, settings, self._grid)
        self._searcher.set_num_threads(_THREADS)
        self._trained_on = count
        self._moved = self._outside = 0
        self.tolerance = _TOLERATED_DRIFT * spacing

    def tree(self) -> dict[str, np.ndarray]:
        """See `NeighbourIndex`: the leaves, the grid and the counts that `outgrown` goes by."""
        if self._trained_on < self._tree_from:
            return {}
        return {
            **tree_of(self._searcher),
            "centre": self._centre,
            "step": np.empty(0, np.float32) if self._grid is None else self._grid.step,
            "counts": np.array([self._trained_on, self._moved, self._outside]),
            "tolerance": np.array(self.tolerance),
        }

    def restore(self, keys: np.ndarray, tree: dict[str, np.ndarray]) -> None:
        """See `NeighbourIndex`."""
        if len(tree.get("leaves", ())) != len(keys) or not len(keys):
            self.rebuild(keys)
            return
        self._centre = tree["centre"]
        self._grid = _Grid(tree["step"]) if len(tree["step"]) else None
        self._trained_on, self._moved, self._outside = tree["counts"].tolist()
        self.tolerance = float(tree["tolerance"])
        held = self._centred(keys)
        self._searcher = searcher_of(tree, held if self._grid is None else self._grid.round(held))
        self._searcher.set_num_threads(_THREADS)

    def outgrown(self, appended: int) -> bool:
        """See `NeighbourIndex`. Rebuilds at this rate add about a tenth to the cost of a change."""
        size = len(self) + appended
        if self._trained_on < self._tree_from:
            return size >= self._tree_from
        if self._outside > _RETRAIN_OUTSIDE * len(self):
            return True
        if len(self) > _LARGEST_RETRAINING:
            return False
        return size >= _RETRAIN_GROWTH * self._trained_on or (
            self._moved >= RETRAIN_CHANGES * self._trained_on
        )

    def request_rebuild(self) -> None:
        """See `NeighbourIndex`. Above `_LARGEST_RETRAINING` keys, the index keeps its tree."""
        self._moved = math.ceil(RETRAIN_CHANGES * self._trained_on)

    def _centred(self, keys: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(keys - self._centre, np.float32)

    def _as_held(self, keys: np.ndarray) -> np.ndarray:
        """Returns keys as the searcher gets them; counts those beyond the grid."""
        keys = self._centred(keys)
        if self._grid is None:
            return keys
        self._outside += self._grid.count_outside(keys)
        return self._grid.round(keys)


class _Grid:
    """The grid of 8-bit keys.

    ScaNN scales its grid by the largest elements at the build. It seems to use rounded keys of the
    build, but unrounded keys of later upserts: with half of 500,000 keys upserted, recall was 0.976
    instead of 0.997. Keys that are rounded to the grid beforehand are treated alike.

    Attributes:
        step: Distance of grid points in each dimension, [key_size].
    """

    def __init__(self, step: np.ndarray) -> None:
        """Makes a grid of points at such distances, [key_size]."""
        self.step = step

    @classmethod
    def over(cls, keys: np.ndarray, spacing: float) -> "_Grid | None":
        """Returns a grid over keys around 0, with room for larger ones.

        Args:
            keys: [n, key_size].
            spacing: Usual distance of the outermost neighbour; None is returned if the grid is not
                fine enough to separate neighbours.
        """
        edge = _GRID_ROOM * np.abs(keys).max(axis=0)
        grid = cls(np.where(edge > 0, edge, 1.0).astype(np.float32) / np.float32(_GRID_STEPS))
        error = math.sqrt(float(np.sum(np.square(grid.step, dtype=np.float64))) / 12.0)
        return grid if error <= _COARSEST * spacing else None

    @property
    def corner(self) -> np.ndarray:
        """The key from which ScaNN derives this grid, [key_size]."""
        return self.step * np.float32(_GRID_STEPS)

    def count_outside(self, keys: np.ndarray) -> int:
        """Returns how many of keys [n, key_size] lie beyond the edge."""
        return int(np.any(np.abs(keys) > self.corner, axis=1).sum())

    def round(self, keys: np.ndarray) -> np.ndarray:
        """Returns the nearest places to keys [n, key_size]."""
        return np.clip(np.rint(keys / self.step), -_GRID_STEPS, _GRID_STEPS) * self.step


def _build(keys: np.ndarray, p: int, settings: dict[str, Any], grid: _Grid | None) -> Any:
    """Returns a searcher of centred keys [n, key_size]."""
    if grid is None:
        builder = scann_ops_pybind.builder(keys, p, "squared_l2").score_brute_force()
        return (builder.tree(**settings) if settings else builder).build().searcher
    with_corner = np.concatenate([grid.round(keys), grid.corner[None]])
    builder = scann_ops_pybind.builder(with_corner, p, "squared_l2")
    builder.tree(**settings, quantize_centroids=True).score_brute_force(quantize=True)
    searcher = builder.build().searcher
    searcher.delete([len(keys)])
    return searcher


def _spacing(keys: np.ndarray, p: int) -> float:
    """Returns the median distance from a key to its p-th neighbour, estimated from a sample."""
    among = keys[:: -(-len(keys) // _SPACING_AMONG)].astype(np.float64)
    sample = among[:: -(-len(among) // _SPACING_SAMPLE)]
    squares = np.sum(np.square(among), axis=1)
    d2 = np.sum(np.square(sample), axis=1)[:, None] + squares - 2.0 * sample @ among.T
    place = min(len(among) - 1, max(1, round(p * len(among) / len(keys))))  # 0 is the key itself
    return math.sqrt(max(0.0, float(np.median(np.partition(d2, place, axis=1)[:, place]))))


def tree_settings(count: int, p: int, tree_from: int = TREE_FROM) -> dict[str, Any]:
    """Returns the tree's settings for `count` keys; an empty dictionary for brute force."""
    if count < tree_from:
        return {}
    leaves = min(count, int(_LEAVES_PER_ROOT * np.sqrt(count)))
    enough = -(-_KEYS_TO_SEARCH * p * leaves // count)
    return {
        "num_leaves": leaves,
        "num_leaves_to_search": min(leaves, max(_LEAVES_TO_SEARCH, enough)),
        "training_sample_size": _TRAINING_SAMPLE,
        "training_iterations": _TRAINING_ITERATIONS,
        "min_partition_size": _MIN_LEAF,
        "random_init": False,  # k-means++: the same tree in every process
    }


def _complete(found: np.ndarray, distances: np.ndarray, p: int) -> bool:
    # The sum is NaN if an element is; this takes half as long as testing each element.
    return len(found) == p and not math.isnan(distances.sum())
