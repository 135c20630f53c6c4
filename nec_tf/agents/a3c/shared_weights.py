"""Weights and statistics in memory that several processes share, written without locks."""

import multiprocessing.context

import numpy as np

from nec_tf.agents.a3c.config import A3cConfig

_BLOCK = 32_768  # weights that are updated at a time: what an update reads stays in the cache


class SharedWeights:
    """Flat weights, the mean squares of RMSProp, and counters of steps and updates.

    Processes read and write weights and mean squares at any time, as published (Hogwild): a reader
    can get some numbers from before an update and others from after it, and of two updates at the
    same moment a number can miss one. Every single number is a whole float. Counters have a lock.

    It is given to a new process as an argument; numbers are not copied then.
    """

    def __init__(self, context: multiprocessing.context.BaseContext, size: int) -> None:
        """Reserves memory for `size` weights."""
        self._weights = context.RawArray("f", size)
        self._mean_squares = context.RawArray("f", size)
        self._counters = context.Array("q", 2)

    @property
    def weights(self) -> np.ndarray:
        """The weights themselves, float32 [size]."""
        return np.frombuffer(self._weights, np.float32)

    @property
    def mean_squares(self) -> np.ndarray:
        """`g` of RMSProp, float32 [size]."""
        return np.frombuffer(self._mean_squares, np.float32)

    @property
    def steps_and_updates(self) -> tuple[int, int]:
        """Steps trained on, and updates."""
        steps, updates = self._counters[:]
        return steps, updates

    @steps_and_updates.setter
    def steps_and_updates(self, counts: tuple[int, int]) -> None:
        self._counters[:] = counts

    def apply(self, gradient: np.ndarray, steps: int, config: A3cConfig) -> None:
        """Applies one update: equations as in `SharedRMSProp`.

        Args:
            gradient: float32 [size].
            steps: Steps that it comes from.
            config: Learning rate and its fall, decay and epsilon of RMSProp.
        """
        rate = config.learning_rate_at(self.steps_and_updates[0])
        weights, mean_squares = self.weights, self.mean_squares
        for start in range(0, len(weights), _BLOCK):
            block = slice(start, start + _BLOCK)
            part, square = gradient[block], mean_squares[block]
            square *= config.rmsprop_decay
            square += (1.0 - config.rmsprop_decay) * part * part
            weights[block] -= rate * part / np.sqrt(square + config.rmsprop_epsilon)
        with self._counters.get_lock():
            self._counters[0] += steps
            self._counters[1] += 1
