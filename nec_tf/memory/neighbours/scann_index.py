"""Approximate neighbours with ScaNN: brute force while small, then a tree that grows online.

What a caller of ScaNN 1.3.0 has to know, each handled here and tested:
  * its Python wrapper keeps ids in lists and pickles them: the bare searcher is used instead, whose
    ids are our slots (an upsert without an id takes the next number, a delete moves the last one);
  * an upsert of nothing ends the process;
  * an id twice in one upsert leaves a ghost entry that no later upsert reaches;
  * a tree needs at least as many keys as leaves;
  * answers can be shorter than asked for, or padded with index 0 at distance NaN;
  * distances to leaves lose their digits where all keys lie far from the origin: the searcher gets
    keys less their mean at the last rebuild;
  * a tree that starts from random centres depends on where the process lies in memory;
  * keys of 8 bits lie on a grid that the largest key decides at the build, and those that come
    later are measured differently unless they are on it: see `_Grid`;
  * every searcher has threads of its own, and there is a searcher for each action: two threads,
    which share the work where many queries come at once.

The leaves are scored with the keys themselves, by 8 bits a number where that tells neighbours
apart:
a search mostly waits for memory. Asymmetric hashing, ScaNN's usual choice,
found only 50 to 80% of the neighbours of real encoder keys, which lie far closer together than its
codes can tell apart (all measured, see docs/algorithm.md).
"""

import math
from typing import Any

import numpy as np
from scann.scann_ops.py import scann_ops_pybind

from nec_tf.memory.neighbours.base import NeighbourIndex

# Measured on keys of a real encoder with benchmarks/lookup.py, see docs/algorithm.md.
TREE_FROM = 4_000  # keys; below, comparing all is as fast. Doubled six times it is 256,000
_LEAVES_PER_ROOT = 2.0  # leaves = 2 sqrt(keys)
_LEAVES_TO_SEARCH = 12  # at least: the neighbours of a key spread over as many
_KEYS_TO_SEARCH = 40  # at least, for each neighbour: recall is lost at the borders of small leaves
_TRAINING_SAMPLE = 10_000  # keys that the tree's k-means sees
_TRAINING_ITERATIONS = 6
_MIN_LEAF = 5  # keys; ScaNN's default of 50 costs recall where leaves are small
_RETRAIN_GROWTH = 2.0
_LARGEST_RETRAINING = 300_000  # keys: 1.4 s, and 2.7 s at 500,000, in which everything waits
_RETRAIN_CHANGES = 4.0  # for each key held: moves alone cost the tree little
_GRID_FROM = 4_000  # keys; fewer are in a cache anyhow
_GRID_ROOM = 1.5  # times the largest number of a key at the build, for keys that come later
_GRID_STEPS = 127  # from 0 to the edge of the grid: 8 bits
_COARSEST = 0.07  # mean error of keys on a grid, of the usual distance to the outermost neighbour
_RETRAIN_OUTSIDE = 0.2  # of the keys held: the grid's edge stands in for what lies beyond it
_TOLERATED_DRIFT = 0.15  # of the usual distance to the outermost neighbour
_OVERFETCH = 1.5
_REFRESH_BATCH = 1024  # moved keys
_SPACING_SAMPLE = 64  # keys whose neighbours are looked at
_SPACING_AMONG = 20_000  # keys
_THREADS = 2  # of a searcher
_BATCHED_FROM = 4  # queries that are searched in one call
_PARALLEL_FROM = 16  # queries; below, waking a thread costs more than it does


class ScannIndex(NeighbourIndex):
    """A ScaNN searcher that takes new and moved keys at once and is trained again as it grows."""

    is_exact = False
    refresh_after = _REFRESH_BATCH
    overfetch = _OVERFETCH

    def __init__(self, key_size: int, p: int = 50, tree_from: int = TREE_FROM) -> None:
        """An empty index.

        Args:
            key_size: Length of a key.
            p: How many neighbours are usually asked for.
            tree_from: From so many keys on a tree is trained.
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

    def remove(self, slot: int) -> None:
        """See `NeighbourIndex`."""
        self._searcher.delete([int(slot)])

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
        # One by one: a batched search gives each row the length of the shortest answer.
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

    def outgrown(self, appended: int) -> bool:
        """See `NeighbourIndex`. So seldom, a rebuild about doubles the cost of each change."""
        size = len(self) + appended
        if self._trained_on < self._tree_from:
            return size >= self._tree_from
        if self._outside > _RETRAIN_OUTSIDE * len(self):
            return True
        if len(self) > _LARGEST_RETRAINING:
            return False
        return size >= _RETRAIN_GROWTH * self._trained_on or (
            self._moved >= _RETRAIN_CHANGES * self._trained_on
        )

    def request_rebuild(self) -> None:
        """See `NeighbourIndex`. Above `_LARGEST_RETRAINING` keys, the index keeps its tree."""
        self._moved = math.ceil(_RETRAIN_CHANGES * self._trained_on)

    def _centred(self, keys: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(keys - self._centre, np.float32)

    def _as_held(self, keys: np.ndarray) -> np.ndarray:
        """Returns keys as the searcher gets them; counts those that lie beyond the grid."""
        keys = self._centred(keys)
        if self._grid is None:
            return keys
        self._outside += self._grid.count_outside(keys)
        return self._grid.round(keys)


class _Grid:
    """Where keys of 8 bits can lie.

    ScaNN lays its own grid by the largest numbers that it sees at a build. It seems to measure the
    keys of the build as they were rounded and later ones as they came: with half of 500,000 keys
    upserted, recall was 0.976 instead of 0.997. Keys that lie on the grid before ScaNN gets them
    are the same either way.

    Attributes:
        step: From one place to the next, in each dimension, [key_size].
    """

    def __init__(self, keys: np.ndarray) -> None:
        """A grid over keys [n, key_size] around 0, with room for others."""
        edge = _GRID_ROOM * np.abs(keys).max(axis=0)
        self.step = np.where(edge > 0, edge, 1.0).astype(np.float32) / np.float32(_GRID_STEPS)

    @classmethod
    def over(cls, keys: np.ndarray, spacing: float) -> "_Grid | None":
        """Returns a grid that can tell neighbours apart, or None."""
        grid = cls(keys)
        error = math.sqrt(float(np.sum(np.square(grid.step, dtype=np.float64))) / 12.0)
        return grid if error <= _COARSEST * spacing else None

    @property
    def corner(self) -> np.ndarray:
        """The key that makes ScaNN lay this grid, [key_size]."""
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
    """Returns the usual distance from a key to its outermost neighbour, by a part of the keys."""
    among = keys[:: -(-len(keys) // _SPACING_AMONG)].astype(np.float64)
    sample = among[:: -(-len(among) // _SPACING_SAMPLE)]
    squares = np.sum(np.square(among), axis=1)
    d2 = np.sum(np.square(sample), axis=1)[:, None] + squares - 2.0 * sample @ among.T
    place = min(len(among) - 1, max(1, round(p * len(among) / len(keys))))  # 0 is the key itself
    return math.sqrt(max(0.0, float(np.median(np.partition(d2, place, axis=1)[:, place]))))


def tree_settings(count: int, p: int, tree_from: int = TREE_FROM) -> dict[str, Any]:
    """Returns the tree's settings for so many keys and neighbours; none where all are compared."""
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
    # A sum is NaN where one of its terms is, and takes half as long as asking each.
    return len(found) == p and not math.isnan(distances.sum())
