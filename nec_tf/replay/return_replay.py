"""The replay memory `D`: the last (state, action, return) tuples (paper, section 3.4)."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from nec_tf.replay.frame_ring import FrameRing, restore_into

CAPACITY = 100_000  # states; paper, section 4


class Sample(NamedTuple):
    """A minibatch.

    Attributes:
        observations: `s_t`, [B, ...].
        actions: `a_t`, int64 [B].
        returns: `R_t = Q^(N)(s_t, a_t)`, float32 [B].
    """

    observations: np.ndarray
    actions: np.ndarray
    returns: np.ndarray


class Replay:
    """A ring of the newest states, sampled uniformly."""

    def __init__(self, capacity: int, observation_shape: tuple[int, ...], dtype: DTypeLike) -> None:
        """Makes an empty replay; arguments as in `FrameRing`."""
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, not {capacity}")
        self._capacity = capacity
        self._observations = FrameRing(capacity, observation_shape, dtype)
        self._actions = np.zeros(capacity, np.int64)
        self._returns = np.zeros(capacity, np.float32)
        self._next_state = 0
        self._first_state = 0

    def __len__(self) -> int:
        """Returns the number of states."""
        return self._next_state - self._first_state

    @property
    def first_state(self) -> int:
        """Number of the oldest state; the others follow."""
        return self._first_state

    @property
    def nbytes(self) -> int:
        """The most that it will take."""
        return self._observations.nbytes + self._actions.nbytes + self._returns.nbytes

    def add(
        self, stream: int, observations: np.ndarray, actions: np.ndarray, returns: np.ndarray
    ) -> None:
        """Appends states that followed each other in one environment.

        Args:
            stream: Number of the environment; consecutive states of one share frames.
            observations: [n, ...].
            actions: [n].
            returns: [n].
        """
        for observation, action, value in zip(observations, actions, returns, strict=True):
            place = self._next_state % self._capacity
            self._observations.put(self._next_state, stream, observation)
            self._actions[place] = action
            self._returns[place] = value
            self._next_state += 1
            self._drop_oldest()

    def sample(self, rng: np.random.Generator, batch_size: int) -> Sample:
        """Returns states drawn uniformly, with replacement."""
        return self.get(self.draw(rng, batch_size))

    def draw(self, rng: np.random.Generator, batch_size: int) -> np.ndarray:
        """Returns the numbers of states drawn uniformly, with replacement, int64 [B]."""
        return rng.integers(self._first_state, self._next_state, batch_size)

    def get(self, states: np.ndarray) -> Sample:
        """Returns states by numbers that were drawn since the last `add`."""
        places = states % self._capacity
        return Sample(self._observations.get(states), self._actions[places], self._returns[places])

    def in_batches(self, batch_size: int) -> Iterator[Sample]:
        """Yields all states, the oldest first."""
        for first in range(self._first_state, self._next_state, batch_size):
            yield self.get(np.arange(first, min(first + batch_size, self._next_state)))

    def state(self) -> dict[str, np.ndarray]:
        """Returns the content as arrays to save, without unused places."""
        states = min(self._next_state, self._capacity)
        return {
            **self._observations.state(self._next_state),
            "actions": self._actions[:states],
            "returns": self._returns[:states],
            "counters": np.array([self._next_state, self._first_state]),
        }

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restores what `state` returned; capacity and observation shape must be the same."""
        self._observations.restore(state)
        restore_into(self._actions, state, "actions")
        restore_into(self._returns, state, "returns")
        self._next_state, self._first_state = state["counters"].tolist()

    def _drop_oldest(self) -> None:
        """Drops states beyond the capacity and states whose frames were overwritten."""
        self._first_state = max(self._first_state, self._next_state - self._capacity)
        while not self._observations.has(self._first_state):
            self._first_state += 1
