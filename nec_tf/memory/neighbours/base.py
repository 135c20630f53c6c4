"""The question every backend answers: which of the stored keys are nearest to this one?"""

import abc

import numpy as np


class NeighbourIndex(abc.ABC):
    """Finds the nearest of the keys of one memory.

    A key is known by its slot: 0, 1, 2, ... in the order of appending. An index is derived data: it
    can be thrown away and rebuilt from the keys at any time, and it may lag behind them. It answers
    with slots only; whoever asks reads the live keys and measures the distances.

    Attributes:
        is_exact: Whether `search` always finds the true nearest of the keys that it was told.
        refresh_after: How many moved keys may wait before the index is told of them in one batch.
        overfetch: How many times p candidates are worth asking for: an index that lags ranks by
            what it was told, and the live keys decide which p of them are nearest.
        tolerance: How far a key may drift from what the index was told before it counts as moved.
    """

    is_exact: bool
    refresh_after: int
    overfetch: float
    tolerance: float

    @abc.abstractmethod
    def __len__(self) -> int:
        """Returns how many keys are held."""

    @abc.abstractmethod
    def append(self, keys: np.ndarray) -> None:
        """Takes keys [n, key_size] into the next n slots."""

    @abc.abstractmethod
    def move(self, slots: np.ndarray, keys: np.ndarray) -> None:
        """Puts keys [n, key_size] in place of those at slots [n]; the last one of a slot wins."""

    @abc.abstractmethod
    def remove(self, slot: int) -> None:
        """Drops one key; the key in the last slot takes over its slot."""

    @abc.abstractmethod
    def search(self, queries: np.ndarray, p: int) -> np.ndarray:
        """Returns the slots of the p nearest keys to each query, nearest first.

        Args:
            queries: [B, key_size].
            p: How many neighbours.

        Returns:
            Slots, int64 [B, p]; -1 fills the end of a row for which fewer were found.
        """

    @abc.abstractmethod
    def rebuild(self, keys: np.ndarray) -> None:
        """Forgets everything and takes keys [n, key_size] as slots 0 to n - 1."""

    def outgrown(self, appended: int) -> bool:
        """Returns whether `rebuild` would pay, with so many more keys and all changes so far."""
        del appended
        return False

    def request_rebuild(self) -> None:  # noqa: B027  nothing to do if it is never outgrown
        """Counts every key as changed, so that the next change finds the index outgrown."""
