"""RMSProp for the rows of the memory: updates only the rows in the gradient.

Paper, section 3.4: backpropagation also updates the keys and values. Keras' RMSprop updates every
row for a gradient of a few hundred rows (320 ms for 500,000 rows of 64), and its momentum moves
rows without the index being updated.
"""

import math

import tensorflow as tf

from nec_tf.memory.constants import RMSPROP_DECAY, RMSPROP_EPSILON
from nec_tf.memory.dnd import DifferentiableNeuralDictionary


class RowRMSProp(tf.Module):
    """`m <- decay m + (1 - decay) g^2; x <- x - rate g / sqrt(m + epsilon)`, row by row.

    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from nec_tf import DifferentiableNeuralDictionary, RowRMSProp
    >>> dnd = DifferentiableNeuralDictionary(1, 2, num_neighbours=1, index="exact")
    >>> known = dnd.write(actions=[0], keys=np.ones([1, 2]), values=[0.0])
    >>> optimizer = RowRMSProp(dnd, keys_learning_rate=0.1, values_learning_rate=0.1)
    >>> with tf.GradientTape() as tape:
    ...     loss = tf.square(dnd.lookup(np.zeros([1, 2])) - 10.0)
    >>> optimizer.apply(*tape.gradient(loss, [dnd.tables.keys, dnd.tables.values]))
    >>> dnd.lookup(np.zeros([1, 2])).numpy().round(2)  # towards 10, from 0
    array([[0.45]], dtype=float32)
    """

    def __init__(
        self,
        dnd: DifferentiableNeuralDictionary,
        keys_learning_rate: float,
        values_learning_rate: float,
        decay: float = RMSPROP_DECAY,
        epsilon: float = RMSPROP_EPSILON,
        values_unit: tf.Variable | None = None,
    ) -> None:
        """Makes an optimizer of one layer's keys and values; a learning rate of 0 freezes them.

        Args:
            dnd: The layer.
            keys_learning_rate: Learning rate of the keys.
            values_learning_rate: Learning rate of the values.
            decay: Decay of the mean square.
            epsilon: Added to the mean square, inside the root.
            values_unit: A scalar u; values are then moved as if they were stored as v / u. None
                is a unit of 1.
        """
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
        self._values_unit = values_unit
        # Columns of the tables: they grow and are saved with them. None for what is frozen.
        tables = dnd.tables
        if keys_learning_rate:
            self._keys_mean_square = tables.add_scratch_like(tables.keys, "keys_mean_square")
        if values_learning_rate:
            self._values_mean_square = tables.add_scratch_like(tables.values, "values_mean_square")

    def apply(self, keys_gradient: tf.IndexedSlices, values_gradient: tf.IndexedSlices) -> None:
        """Moves keys and values against their gradients and registers moved keys with the layer.

        Args:
            keys_gradient: Gradient of the loss by `dnd.tables.keys`; rows may repeat.
            values_gradient: Gradient of the loss by `dnd.tables.values`; rows may repeat.

        Raises:
            RuntimeError: Another thread reads the memory; keys and values are unchanged. Inside
                `tf.function`, a `tf.errors.UnknownError` with the same message.
        """
        self._dnd.require_no_readers()
        tables = self._dnd.tables
        if self._values_learning_rate:
            self._step(
                tables.values,
                self._values_mean_square,
                values_gradient,
                self._values_learning_rate,
                self._values_unit,
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
        unit: tf.Variable | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the distinct rows and the steps subtracted; NaN raises before any change."""
        rows, places = tf.unique(tf.cast(gradient.indices, tf.int64))
        total = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(rows))
        # Checks the sum, which is finite if all elements are; checking each element takes 0.2 ms.
        what = f"the gradient of the memory's {column.name}"
        with tf.control_dependencies([tf.debugging.check_numerics(tf.reduce_sum(total), what)]):
            # dL/d(v / u) = u dL/dv
            total = tf.identity(total) if unit is None else total * unit
        mean = self._decay * tf.gather(mean_square, rows) + (1 - self._decay) * tf.square(total)
        steps = learning_rate * total / tf.sqrt(mean + self._epsilon)
        steps = steps if unit is None else steps * unit
        mean_square.scatter_update(tf.IndexedSlices(mean, rows))
        column.scatter_sub(tf.IndexedSlices(steps, rows))
        return rows, steps
