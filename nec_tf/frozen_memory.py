"""A memory as it stood once, looked up with TensorFlow's own operations only.

This is what leaves for production: no Python, no custom operation, nothing that changes. It answers
as the `DifferentiableNeuralDictionary` that it was made of.
"""

import tensorflow as tf

from nec_tf import kernels, lookup
from nec_tf.dnd import DifferentiableNeuralDictionary, Neighbours
from nec_tf.neighbours.in_graph import ExactSearch


class FrozenMemory(tf.Module):
    """Keys and values of all actions, one action's after the other, behind nobody's row 0.

    Attributes:
        centre: The mean of the keys, [key_size].
        keys: Less their mean, [1 + n, key_size]: no distance changes, and small numbers keep more
            digits.
        values: [1 + n]; that of row 0 is 0.
        rows: Where each entry stood in the tables of the layer, int64 [1 + n].
    """

    def __init__(self, dnd: DifferentiableNeuralDictionary) -> None:
        """A copy of what a layer holds now."""
        super().__init__(name="frozen_memory")
        tables = dnd.tables
        sizes = dnd.sizes  # first: it catches up with a restored checkpoint
        owners = tf.gather(tables.actions, tf.range(tables.size))
        rows = tf.argsort(owners, stable=True)  # nobody's, of action -1, comes first
        keys = tf.gather(tables.keys, rows)
        self.centre = _constant(tf.reduce_mean(keys, axis=0), "centre")
        self.keys = _constant(keys - self.centre, "keys")
        self.values = _constant(tf.gather(tables.values, rows), "values")
        self.rows = _constant(tf.cast(rows, tf.int64), "rows")
        self._search = ExactSearch(self.keys, [1, *(1 + sizes.cumsum()).tolist()])
        self._kernel = dnd.kernel
        self._num_neighbours = dnd.num_neighbours

    def __call__(self, queries: tf.Tensor) -> tf.Tensor:
        """Equation 1 in every action's memory: from `h` [B, key_size] to Q-values [B, A]."""
        found = self._find(queries)
        return tf.reduce_sum(found.weights * found.values, axis=-1)

    def neighbours(self, queries: tf.Tensor) -> Neighbours:
        """Returns what stands behind the answer, as `DifferentiableNeuralDictionary.neighbours`."""
        found = self._find(queries)
        return found._replace(rows=tf.gather(self.rows, found.rows))

    def _find(self, queries: tf.Tensor) -> Neighbours:
        """Returns the neighbours of `h` [B, key_size], with their rows in `keys`."""
        centred = queries - self.centre
        candidates = self._search(centred, self._num_neighbours)
        found = lookup.nearest(self.keys, centred, candidates, self._num_neighbours)
        present = found > 0
        d2 = lookup.squared_distances(centred, tf.gather(self.keys, found))
        return Neighbours(
            rows=found,
            distances=tf.where(present, tf.sqrt(d2), 0.0),
            weights=kernels.normalised_weights(self._kernel, d2, present),
            values=tf.gather(self.values, found),
        )


class FrozenNetwork(tf.Module):
    """An embedding and a frozen memory: from observations to keys and Q-values."""

    def __init__(self, embedding: tf.keras.Model, memory: FrozenMemory) -> None:
        """Takes both as they are; the embedding is not copied."""
        super().__init__(name="frozen_network")
        self.embedding = embedding
        self.memory = memory

    def __call__(self, observation: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns `h` [B, key_size] and Q-values [B, A] of observations [B, ...]."""
        keys = self.embedding(observation, training=False)
        return keys, self.memory(keys)


def _constant(content: tf.Tensor, name: str) -> tf.Variable:
    """A variable that stays as it is: unlike a constant, it is saved beside the graph."""
    return tf.Variable(content, trainable=False, name=name)
