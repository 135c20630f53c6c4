"""RMSProp for the rows of the memory: only what is in the gradient is touched.

Paper, section 3.4: backpropagation updates the keys and values too. Keras' optimizers would update
every row of the tables for a gradient of a few hundred, and moments would move rows that the index
was not told of.
"""

import math

import tensorflow as tf

from nec_tf.memory.constants import RMSPROP_DECAY, RMSPROP_EPSILON
from nec_tf.memory.dnd import DifferentiableNeuralDictionary


class RowRMSProp(tf.Module):
    """`m <- decay m + (1 - decay) g^2; x <- x - rate g / sqrt(m + epsilon)`, row by row."""

    def __init__(
        self,
        dnd: DifferentiableNeuralDictionary,
        keys_learning_rate: float,
        values_learning_rate: float,
        decay: float = RMSPROP_DECAY,
        epsilon: float = RMSPROP_EPSILON,
    ) -> None:
        """An optimizer of one layer's keys and values; a learning rate of 0 leaves them alone."""
        super().__init__(name="row_rmsprop")
        for name, rate in (
            ("keys_learning_rate", keys_learning_rate),
            ("values_learning_rate", values_learning_rate),
        ):
            if not 0.0 <= rate < math.inf:
                raise ValueError(f"{name} must be 0 or positive, not {rate}")
        if not 0.0 <= decay < 1.0:
            raise ValueError(f"decay must be at least 0 and below 1, not {decay}")
        if not 0.0 < epsilon < math.inf:
            raise ValueError(f"epsilon must be positive, not {epsilon}")
        self._dnd = dnd
        self._keys_learning_rate = keys_learning_rate
        self._values_learning_rate = values_learning_rate
        self._decay = decay
        self._epsilon = epsilon
        # Columns of the tables, which grow and checkpoint with them; none for what stands still.
        tables = dnd.tables
        if keys_learning_rate:
            self._keys_mean_square = tables.add_scratch_like(tables.keys, "keys_mean_square")
        if values_learning_rate:
            self._values_mean_square = tables.add_scratch_like(tables.values, "values_mean_square")

    def apply(self, keys_gradient: tf.IndexedSlices, values_gradient: tf.IndexedSlices) -> None:
        """Moves keys and values against their gradients and tells the neighbour indices.

        Args:
            keys_gradient: Of the loss by `dnd.tables.keys`; rows may be named more than once.
            values_gradient: Of the loss by `dnd.tables.values`.
        """
        tables = self._dnd.tables
        if self._values_learning_rate:
            self._step(
                tables.values,
                self._values_mean_square,
                values_gradient,
                self._values_learning_rate,
            )
        if self._keys_learning_rate:
            rows, steps = self._step(
                tables.keys, self._keys_mean_square, keys_gradient, self._keys_learning_rate
            )
            with tf.control_dependencies([steps]):
                self._dnd.keys_moved(rows, tf.norm(steps, axis=-1))

    def column_of(self, variable: tf.Variable) -> str | None:
        """Returns "keys" or "values" for these tables of the memory, None for anything else."""
        tables = self._dnd.tables
        if variable is tables.keys:
            return "keys"
        return "values" if variable is tables.values else None

    def _step(
        self,
        column: tf.Variable,
        mean_square: tf.Variable,
        gradient: tf.IndexedSlices,
        learning_rate: float,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the rows, each once, and what was taken from them; NaN changes nothing."""
        rows, places = tf.unique(tf.cast(gradient.indices, tf.int64))
        total = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(rows))
        # Of the sum, which is finite where all are: number by number it takes 0.2 ms.
        what = f"the gradient of the memory's {column.name}"
        with tf.control_dependencies([tf.debugging.check_numerics(tf.reduce_sum(total), what)]):
            total = tf.identity(total)
        mean = self._decay * tf.gather(mean_square, rows) + (1 - self._decay) * tf.square(total)
        steps = learning_rate * total / tf.sqrt(mean + self._epsilon)
        mean_square.scatter_update(tf.IndexedSlices(mean, rows))
        column.scatter_sub(tf.IndexedSlices(steps, rows))
        return rows, steps
