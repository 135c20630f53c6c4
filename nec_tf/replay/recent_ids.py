"""The state ids of the newest states, in the order in which a replay holds them."""

import numpy as np

from nec_tf.replay.frame_ring import restore_into


class RecentIds:
    """A ring of state ids. It numbers states as `Replay` does if both get the same states.

    >>> import numpy as np
    >>> ids = RecentIds(capacity=10)
    >>> ids.add(np.array([7, 8, 9]))
    >>> ids.around(np.array([1]), reach=2).tolist()
    [[7, 8, 9]]
    """

    def __init__(self, capacity: int) -> None:
        """Makes an empty ring of `capacity` states."""
        self._ids = np.zeros(capacity, np.int64)
        self._next_state = 0

    def add(self, ids: np.ndarray) -> None:
        """Appends the ids, int64 [n], of states that followed each other."""
        self._next_state += len(ids)
        newest = ids[-len(self._ids) :]
        numbers = np.arange(self._next_state - len(newest), self._next_state)
        self._ids[numbers % len(self._ids)] = newest

    def around(self, states: np.ndarray, reach: int) -> np.ndarray:
        """Returns the ids of states and of those fewer than `reach` states before or after them.

        Args:
            states: Numbers of states that the ring holds, int64 [B].
            reach: 1 gives the states themselves, 0 nothing.

        Returns:
            int64 [B, 2 reach - 1], or [B, 0]; at the ends of the ring ids repeat.
        """
        if not reach:
            return np.zeros([len(states), 0], np.int64)
        numbers = states[:, None] + np.arange(1 - reach, reach)
        first = max(0, self._next_state - len(self._ids))
        return self._ids[np.clip(numbers, first, self._next_state - 1) % len(self._ids)]

    def state(self) -> dict[str, np.ndarray]:
        """Returns the content as arrays to save."""
        used = min(self._next_state, len(self._ids))
        return {"recent_ids": self._ids[:used], "recent_ids_seen": np.array(self._next_state)}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restores what `state` returned; the capacity must be the same."""
        restore_into(self._ids, state, "recent_ids")
        self._next_state = int(state["recent_ids_seen"])
