"""An optimizer with which `model.fit` trains a Keras model that has a memory inside."""

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from nec_tf.memory.row_rmsprop import RowRMSProp


class WithMemory(tf.keras.optimizers.Optimizer):
    """Gives the memory's gradients to `RowRMSProp`, and all others to an optimizer of Keras.

    Keras' own optimizers cannot take the tables: these grow, and most of their rows have no
    gradient.
    """

    def __init__(self, optimizer: tf.keras.optimizers.Optimizer | str, memory: RowRMSProp) -> None:
        """An optimizer of a model.

        Args:
            optimizer: Of all but the memory: an optimizer or its name.
            memory: Of the memory's keys and values.
        """
        self._others = tf.keras.optimizers.get(optimizer)
        super().__init__(name="with_memory")
        self._memory = memory

    @property
    def iterations(self) -> tf.Variable:
        """How many steps were taken."""
        return self._others.iterations

    @property
    def learning_rate(self) -> Any:
        """That of all but the memory."""
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
        """Refuses: a memory's optimizer belongs to one memory and is not made of words."""
        raise NotImplementedError("save the weights (model.save_weights), not the optimizer")
