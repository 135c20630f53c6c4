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
  * every searcher has threads of its own, and there is a searcher for each action: two threads,
    which share the work where several queries come at once.

The leaves are scored with the keys themselves. Asymmetric hashing, ScaNN's usual choice, found only
50 to 80% of the neighbours of real encoder keys, which lie far closer together than its codes can
tell apart (measured, see docs/algorithm.md).
"""

import math
from typing import Any

import numpy as np
from scann.scann_ops.py import scann_ops_pybind

from nec_tf.neighbours.base import NeighbourIndex

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
_TOLERATED_DRIFT = 0.15  # of the usual distance to the outermost neighbour
_OVERFETCH = 1.5
_REFRESH_BATCH = 1024  # moved keys
_SPACING_SAMPLE = 64  # keys
_THREADS = 2  # of a searcher
_PARALLEL_FROM = 4  # queries; below, waking a thread costs more than it does


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
            self._searcher.upsert([None] * len(keys), self._centred(keys), len(keys))

    def move(self, slots: np.ndarray, keys: np.ndarray) -> None:
        """See `NeighbourIndex`."""
        unique, last = np.unique(slots[::-1], return_index=True)
        keys = self._centred(keys[::-1][last])
        if len(unique):
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
        if len(queries) >= _PARALLEL_FROM:
            share = -(-len(queries) // _THREADS)
            found, distances = self._searcher.search_batched(queries, p, -1, -1, True, share)
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
        self._centre = keys.mean(axis=0) if len(keys) else np.zeros(keys.shape[1], keys.dtype)
        keys = self._centred(keys)
        builder = scann_ops_pybind.builder(keys, self._p, "squared_l2").score_brute_force()
        settings = tree_settings(len(keys), self._p, self._tree_from)
        if settings:
            builder = builder.tree(**settings)
        self._searcher = builder.build().searcher
        self._searcher.set_num_threads(_THREADS)
        self._trained_on = len(keys)
        self._moved = 0
        self.tolerance = _TOLERATED_DRIFT * self._spacing(keys)

    def outgrown(self, appended: int) -> bool:
        """See `NeighbourIndex`. So seldom, a rebuild about doubles the cost of each change."""
        size = len(self) + appended
        if self._trained_on < self._tree_from:
            return size >= self._tree_from
        if len(self) > _LARGEST_RETRAINING:
            return False
        return size >= _RETRAIN_GROWTH * self._trained_on or (
            self._moved >= _RETRAIN_CHANGES * self._trained_on
        )

    def _spacing(self, keys: np.ndarray) -> float:
        """The usual distance from a key to its outermost neighbour; 0 without a tree."""
        if len(keys) < self._tree_from:
            return 0.0
        sample = keys[:: max(1, len(keys) // _SPACING_SAMPLE)]
        found = (self._searcher.search(key, self._p, -1, -1)[1] for key in sample)
        outermost = [np.nanmax(distances, initial=0.0) for distances in found]
        return float(np.sqrt(np.median(outermost)))

    def _centred(self, keys: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(keys - self._centre, np.float32)


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
