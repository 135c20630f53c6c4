"""An optimizer for `model.fit` of a Keras model that contains a memory."""

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from nec_tf.memory.row_rmsprop import RowRMSProp


class WithMemory(tf.keras.optimizers.Optimizer):
    """Applies the memory's gradients with `RowRMSProp` and all others with a Keras optimizer.

    Keras' own optimizers cannot train the tables of a memory: the tables grow, and most rows have
    no gradient.

    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from nec_tf import DifferentiableNeuralDictionary, RowRMSProp, WithMemory
    >>> memory = DifferentiableNeuralDictionary(2, 3, num_neighbours=1, index="exact")
    >>> known = memory.write(actions=[0, 1], keys=np.eye(2, 3), values=[1.0, 5.0])
    >>> model = tf.keras.Sequential([tf.keras.layers.Dense(3), memory])
    >>> model.compile(WithMemory("adam", RowRMSProp(memory, 0.1, 0.1)), "mse")
    >>> history = model.fit(np.ones([8, 4]), np.zeros([8, 2]), verbose=0)
    >>> memory.tables.values.numpy()[1:].round(1)  # towards 0, from 1 and 5
    array([0.6, 4.6], dtype=float32)
    """

    def __init__(self, optimizer: tf.keras.optimizers.Optimizer | str, memory: RowRMSProp) -> None:
        """Makes an optimizer of a model.

        Args:
            optimizer: Optimizer, or its name, of all variables outside the memory.
            memory: Optimizer of the memory's keys and values.
        """
        self._others = tf.keras.optimizers.get(optimizer)
        super().__init__(name="with_memory")
        self._memory = memory

    @property
    def iterations(self) -> tf.Variable:
        """Number of steps taken."""
        return self._others.iterations

    @property
    def learning_rate(self) -> Any:
        """Learning rate of the variables outside the memory."""
        return self._others.learning_rate

    def build(self, var_list: Iterable[tf.Variable]) -> None:
        """See Keras."""
        self._others.build([v for v in var_list if self._memory.column_of(v) is None])
        self._built = True

    def apply_gradients(
        self, grads_and_vars: Iterable[tuple[Any, tf.Variable]], name: str | None = None
    ) -> tf.Variable:
        """See Keras."""
        of_memory: dict[str, Any] = {}
        others = []
        for gradient, variable in grads_and_vars:
            column = self._memory.column_of(variable)
            if column is None:
                others.append((gradient, variable))
            else:
                of_memory[column] = gradient
        if of_memory:
            self._memory.apply(of_memory["keys"], of_memory["values"])
        return self._others.apply_gradients(others, name=name)

    def get_config(self) -> dict[str, Any]:
        """Raises `NotImplementedError`: the optimizer refers to one memory."""
        raise NotImplementedError(
            "WithMemory refers to a memory and cannot be saved: save an uncompiled model,"
            " tf.keras.Model(model.inputs, model.outputs).save('model.keras'), and compile it again"
            " after loading"
        )
