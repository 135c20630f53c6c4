"""The interface of neighbour search: the stored keys that are nearest to a query."""

import abc

import numpy as np


class NeighbourIndex(abc.ABC):
    """Finds the nearest keys of one memory.

    Keys are identified by slots 0, 1, 2, ... in the order of appending. An index is derived data:
    it can be rebuilt from the keys at any time, and its copy of a key may be older than the key in
    the tables. A search returns slots only; the caller computes distances from the current keys.

    Attributes:
        is_exact: Whether `search` always finds the true nearest of the keys in the index.
        refresh_after: Number of moved keys that are collected and then sent to `move` in one batch.
        overfetch: Ratio of candidates requested to p. An index with older keys ranks by those; the
            current keys decide which p candidates are nearest.
        tolerance: Distance by which a key may drift from that in the index before it is sent again.
    """

    is_exact: bool
    refresh_after: int
    overfetch: float
    tolerance: float

    @abc.abstractmethod
    def __len__(self) -> int:
        """Returns the number of keys."""

    @abc.abstractmethod
    def append(self, keys: np.ndarray) -> None:
        """Appends keys [n, key_size] as the next n slots."""

    @abc.abstractmethod
    def move(self, slots: np.ndarray, keys: np.ndarray) -> None:
        """Replaces the keys at slots [n] by keys [n, key_size]; the last one of a slot counts."""

    @abc.abstractmethod
    def search(self, queries: np.ndarray, p: int) -> np.ndarray:
        """Returns the slots of the p nearest keys to each query, nearest first.

        Args:
            queries: [B, key_size].
            p: Number of neighbours.

        Returns:
            Slots, int64 [B, p]; filled up with -1 if fewer were found.
        """

    @abc.abstractmethod
    def rebuild(self, keys: np.ndarray) -> None:
        """Replaces the content by keys [n, key_size] as slots 0 to n - 1."""

    def tree(self) -> dict[str, np.ndarray]:
        """Returns what `restore` needs beside the keys; nothing if `rebuild` is as fast."""
        return {}

    def restore(self, keys: np.ndarray, tree: dict[str, np.ndarray]) -> None:
        """Like `rebuild`, with the result of `tree()`; a tree of other keys is not used.

        Args:
            keys: By slot, [n, key_size]. They may have moved a little since `tree()`.
            tree: The result of `tree()`.
        """
        del tree
        self.rebuild(keys)

    def outgrown(self, appended: int) -> bool:
        """Returns whether to `rebuild` instead of appending `appended` more keys."""
        del appended
        return False

    def request_rebuild(self) -> None:  # noqa: B027  nothing to do if it is never outgrown
        """Counts every key as changed, so that the next change finds the index outgrown."""
