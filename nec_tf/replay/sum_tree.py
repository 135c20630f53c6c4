"""A sum tree: draws places in proportion to their weights, in logarithmic time."""

import numpy as np


class SumTree:
    """Weights of places, and the sums of all their subtrees (Schaul et al., 2016, appendix B.2.1).

    A binary tree in one array: node i has the children 2i and 2i + 1, node 1 is the root, and the
    leaves are the weights. A sum is always recomputed from its two children. It therefore depends
    on the weights only, not on the order of changes: there is no drift, and a tree restored from
    its weights has the same sums to the last bit.
    """

    def __init__(self, capacity: int) -> None:
        """Makes a tree of so many places, all of weight 0."""
        self._depth = max(capacity - 1, 1).bit_length()
        self._leaves = 2**self._depth
        self._capacity = capacity
        self._sums = np.zeros(2 * self._leaves)

    @property
    def total(self) -> float:
        """Returns the sum of all weights."""
        return float(self._sums[1])

    @property
    def weights(self) -> np.ndarray:
        """Returns a view of all weights, float64 [capacity]."""
        return self._sums[self._leaves : self._leaves + self._capacity]

    def set(self, places: np.ndarray, weights: np.ndarray) -> None:
        """Replaces weights; of a place that is given twice, the last one counts.

        Args:
            places: int [n].
            weights: Not negative, [n].
        """
        nodes = places + self._leaves
        self._sums[nodes] = weights
        for _ in range(self._depth):
            nodes = nodes >> 1
            self._sums[nodes] = self._sums[2 * nodes] + self._sums[2 * nodes + 1]

    def find(self, sums: np.ndarray) -> np.ndarray:
        """Returns the places at which the running sum of weights exceeds given sums.

        Args:
            sums: From 0 to below `total`, [n]. `total` must be above 0.

        Returns:
            int64 [n]; never a place of weight 0, whatever the rounding.
        """
        nodes, left_of = np.ones(len(sums), np.int64), np.array(sums, np.float64)
        for _ in range(self._depth):
            left = self._sums[2 * nodes]
            right = (left_of >= left) & (self._sums[2 * nodes + 1] > 0.0)
            left_of -= np.where(right, left, 0.0)
            nodes = 2 * nodes + right
        return nodes - self._leaves

    def restore(self, weights: np.ndarray) -> None:
        """Becomes a tree of these weights, [n]; places beyond them have weight 0."""
        self._sums[:] = 0.0
        self._sums[self._leaves : self._leaves + len(weights)] = weights
        for first in (2**level for level in reversed(range(self._depth))):
            children = self._sums[2 * first : 4 * first]
            self._sums[first : 2 * first] = children[::2] + children[1::2]
