"""Exact search by comparing all keys: for small memories, and to check other backends."""

import numpy as np
from numpy.typing import DTypeLike

from nec_tf.memory.neighbours.base import NeighbourIndex


class ExactIndex(NeighbourIndex):
    """Compares a query with every key; ties go to the lower slot."""

    is_exact = True
    refresh_after = 1  # exact on the current keys: every move, however small, is sent at once
    overfetch = 1.0
    tolerance = 0.0

    def __init__(self, key_size: int, dtype: DTypeLike = np.float32) -> None:
        """Makes an empty index of keys of `key_size` elements."""
        self._keys = np.empty((0, key_size), dtype)
        self._size = 0

    def __len__(self) -> int:
        """See `NeighbourIndex`."""
        return self._size

    def append(self, keys: np.ndarray) -> None:
        """See `NeighbourIndex`."""
        size = self._size + len(keys)
        if size > len(self._keys):
            grown = np.empty((max(size, 2 * self._size), self._keys.shape[1]), self._keys.dtype)
            grown[: self._size] = self._keys[: self._size]
            self._keys = grown
        self._keys[self._size : size] = keys
        self._size = size

    def move(self, slots: np.ndarray, keys: np.ndarray) -> None:
        """See `NeighbourIndex`."""
        self._keys[slots] = keys

    def search(self, queries: np.ndarray, p: int) -> np.ndarray:
        """See `NeighbourIndex`."""
        slots = np.full((len(queries), p), -1, np.int64)
        found = min(p, self._size)
        for i, query in enumerate(queries):
            # Not the expanded square, which loses the digits of small distances.
            difference = self._keys[: self._size] - query
            slots[i, :found] = smallest(np.einsum("nd,nd->n", difference, difference), found)
        return slots

    def rebuild(self, keys: np.ndarray) -> None:
        """See `NeighbourIndex`."""
        self._keys = np.array(keys, self._keys.dtype)
        self._size = len(keys)


def smallest(numbers: np.ndarray, count: int) -> np.ndarray:
    """Returns the places of the `count` smallest numbers, ascending; ties by place."""
    if count == 0:
        return np.empty(0, np.int64)
    limit = np.partition(numbers, count - 1)[count - 1]
    candidates = np.flatnonzero(numbers <= limit)
    return candidates[np.argsort(numbers[candidates], kind="stable")][:count]
