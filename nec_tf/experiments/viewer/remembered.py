"""A memory to look into: its entries, a map of them in two dimensions, and which are near."""

import dataclasses

import numpy as np
import tensorflow as tf

from nec_tf.memory import kernels
from nec_tf.memory.entries import Entries

# Keys that the projection is fitted to; its two directions hardly change with more.
_FITTED = 20_000
#: Most entries on a map. More would only cover each other: a map has fewer pixels.
MOST_ON_MAP = 500_000


@dataclasses.dataclass(frozen=True)
class Near:
    """Entries near a key in the memory of one action, nearest first.

    Attributes:
        rows: Rows of the tables, int64 [n].
        distances: Euclidean, [n].
        weights: Share of each entry in the Q-value, [n].
        values: `v_i`, [n].
    """

    rows: np.ndarray
    distances: np.ndarray
    weights: np.ndarray
    values: np.ndarray


class Remembered:
    """The entries of a memory that does not change while it is watched.

    Attributes:
        entries: All entries.
        coordinates: Place of each entry on the map, float32 [n, 2].
        explained: Share of the variance of the keys that the map shows, in [0, 1].
        on_map: Places in `entries` of those that the map shows, int64 [m].
    """

    def __init__(self, entries: Entries, kernel: kernels.Kernel, num_neighbours: int) -> None:
        """Projects the keys to their first two principal components.

        Args:
            entries: At least none.
            kernel: `k` of the memory.
            num_neighbours: `p` of the memory.
        """
        self.entries = entries
        self._kernel = kernel
        self._num_neighbours = num_neighbours
        self._places = np.full(1 + max(entries.rows, default=0), -1, np.int64)
        self._places[entries.rows] = np.arange(len(entries))
        self._centre, self._directions, self.explained = _principal_components(entries.keys)
        self.coordinates = self.project(entries.keys)
        step = -(-len(entries) // MOST_ON_MAP) or 1
        self.on_map = np.arange(0, len(entries), step)

    def project(self, keys: np.ndarray) -> np.ndarray:
        """Returns the places of keys [n, key_size] on the map, float32 [n, 2]."""
        return ((keys - self._centre) @ self._directions).astype(np.float32)

    def place(self, row: int) -> int | None:
        """Returns the place in `entries` of a row of the tables; None if it has no entry."""
        if not 0 <= row < len(self._places) or self._places[row] < 0:
            return None
        return int(self._places[row])

    def near(self, place: int) -> Near:
        """Returns the neighbours of an entry in the memory of its action, itself left out.

        Compares all keys of the action: exact, 10 ms for 200,000.
        """
        entries = self.entries
        own = np.flatnonzero(entries.actions == entries.actions[place])
        own = own[own != place]
        d2 = np.sum(np.square(entries.keys[own] - entries.keys[place]), axis=1)
        nearest = np.argsort(d2, kind="stable")[: self._num_neighbours]
        found, d2 = own[nearest], d2[nearest]
        weights = np.zeros(len(found), np.float32)
        if len(found):
            present = np.ones([1, 1, len(found)], bool)
            d2_of_one = tf.constant(d2[None, None], tf.float32)
            weights = kernels.normalised_weights(self._kernel, d2_of_one, present).numpy().ravel()
        return Near(entries.rows[found], np.sqrt(d2), weights, entries.values[found])


def _principal_components(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Returns the mean [key_size], two directions [key_size, 2] and their share of the variance."""
    size = keys.shape[1]
    directions = np.zeros((size, 2), np.float32)
    if len(keys) == 0:
        return np.zeros(size, np.float32), directions, 0.0
    sample = np.asarray(keys[:: -(-len(keys) // _FITTED)], np.float32)
    centre = sample.mean(axis=0)
    _, lengths, found = np.linalg.svd(sample - centre, full_matrices=False)
    directions[:, : len(found[:2])] = found[:2].T
    variance = np.square(lengths)
    total = float(variance.sum())
    return centre, directions, float(variance[:2].sum()) / total if total else 0.0
