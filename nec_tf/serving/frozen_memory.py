"""A frozen copy of a memory for exports, looked up with TensorFlow's own operations only.

It has no Python and no custom operations, and does not change. Its lookups are those of the
`DifferentiableNeuralDictionary` that it was made from.
"""

from typing import Protocol

import numpy as np
import tensorflow as tf

from nec_tf.memory import kernels
from nec_tf.memory.dnd import DifferentiableNeuralDictionary, Neighbours
from nec_tf.memory.entries import Entries
from nec_tf.serving.graph_search import ExactSearch, InvertedFile, Search


class FrozenMemory(tf.Module):
    """Keys and values of all actions, in the order of a search. Empty places are 0.

    Attributes:
        centre: Mean of the keys, [key_size].
        keys: Keys minus `centre`, [places, key_size]. Distances stay the same, and smaller numbers
            have more precision.
        values: [places].
        rows: Rows of the layer's tables, int64 [places].
    """

    def __init__(
        self, entries: Entries, search: Search, kernel: kernels.Kernel, num_neighbours: int
    ) -> None:
        """Makes a memory of entries with a search over their keys minus `centre`."""
        super().__init__(name="frozen_memory")
        centre = _mean(entries.keys)
        keys = _placed(entries.keys - centre, search.order, empty=0.0)
        squares = np.square(keys).sum(axis=1)
        squares[search.order < 0] = np.inf  # empty places are never near
        self.centre = _constant(centre, "centre")
        self.keys = _constant(keys, "keys")
        self.values = _constant(_placed(entries.values, search.order, empty=0.0), "values")
        self.rows = _constant(_placed(entries.rows, search.order, empty=0), "rows")
        self._squares = _constant(squares, "squares")
        self._search = search
        self._kernel = kernel
        self._num_neighbours = num_neighbours

    def __call__(self, queries: tf.Tensor) -> tf.Tensor:
        """Equation 1 (see `nec_tf.memory.lookup`): from `h` [B, key_size] to Q-values [B, A]."""
        found = self._find(queries)
        return tf.reduce_sum(found.weights * found.values, axis=-1)

    def neighbours(self, queries: tf.Tensor) -> Neighbours:
        """Returns the neighbours behind a lookup, as the method of the layer."""
        found = self._find(queries)
        return found._replace(rows=tf.gather(self.rows, found.rows))

    def _find(self, queries: tf.Tensor) -> Neighbours:
        """Returns the neighbours of `h` [B, key_size], with places instead of rows."""
        # As tensors: gathering from a variable makes TensorFlow copy all of it at every read.
        keys, squares = self.keys.value(), self._squares.value()
        found, d2 = self._search(keys, squares, queries - self.centre, self._num_neighbours)
        present = found > 0
        return Neighbours(
            rows=found,
            distances=tf.where(present, tf.sqrt(d2), 0.0),
            weights=kernels.normalised_weights(self._kernel, d2, present),
            values=tf.gather(self.values, found),
        )


def exact_memory(dnd: DifferentiableNeuralDictionary) -> FrozenMemory:
    """Returns a frozen copy of a layer's memory that compares a query with every key."""
    search = ExactSearch(dnd.sizes)
    return FrozenMemory(dnd.entries(), search, dnd.kernel, dnd.num_neighbours)


def inverted_file(entries: Entries, num_actions: int, probes: int) -> InvertedFile:
    """Returns a search that compares a query with a part of the entries."""
    centred = entries.keys - _mean(entries.keys)
    return InvertedFile(centred, entries.counts(num_actions), probes)


class Lookup(Protocol):
    """A frozen memory, with its lookup."""

    def __call__(self, queries: tf.Tensor) -> tf.Tensor:
        """Returns Q-values [B, A] of `h` [B, key_size]."""

    def neighbours(self, queries: tf.Tensor) -> Neighbours:
        """Returns the neighbours behind them, [B, A, p]."""


class FrozenNetwork(tf.Module):
    """An embedding and a frozen memory: from observations to keys and Q-values."""

    def __init__(self, embedding: tf.keras.Model, memory: Lookup) -> None:
        """Makes a network; the embedding is not copied."""
        super().__init__(name="frozen_network")
        self.embedding = embedding
        self.memory = memory

    def __call__(self, observation: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns `h` [B, key_size] and Q-values [B, A] of observations [B, ...]."""
        keys = self.embedding(observation, training=False)
        return keys, self.memory(keys)

    def q_values(self, observation: tf.Tensor) -> tf.Tensor:
        """Returns Q-values [B, A] of observations [B, ...]."""
        return self(observation)[1]

    def explain(self, observation: tf.Tensor) -> Neighbours:
        """Returns the neighbours behind the Q-values of observations [B, ...]."""
        return self.memory.neighbours(self.embedding(observation, training=False))


def _mean(keys: np.ndarray) -> np.ndarray:
    return keys.mean(axis=0) if len(keys) else np.zeros(keys.shape[1], keys.dtype)


def _placed(column: np.ndarray, order: np.ndarray, empty: float) -> np.ndarray:
    """Returns a column [n, ...] in an order [places], in which -1 is an empty place."""
    placed = np.full((len(order), *column.shape[1:]), empty, column.dtype)
    there = order >= 0
    placed[there] = column[order[there]]
    return placed


def _constant(content: np.ndarray, name: str) -> tf.Variable:
    """Returns a variable that is never assigned; unlike a constant, it is not in the graph file."""
    return tf.Variable(content, trainable=False, name=name)
