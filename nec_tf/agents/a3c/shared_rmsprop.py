"""RMSProp whose statistics all workers share (Mnih et al., 2016, section 4 and equation S2)."""

from collections.abc import Sequence

import tensorflow as tf


class SharedRMSProp(tf.Module):
    """RMSProp with epsilon inside the root, without momentum.

    g <- decay g + (1 - decay) gradient^2,
    weights <- weights - learning rate gradient / sqrt(g + epsilon).

    For workers of one process; `SharedWeights` does the same for several. Any thread may call
    `apply`: each operation holds the locks of one weight matrix and of its statistics. TensorFlow's
    operation without locks may replace a buffer that another thread reads.

    Attributes:
        mean_squares: `g` of each variable; begins at 0.
    """

    def __init__(self, variables: Sequence[tf.Variable], decay: float, epsilon: float) -> None:
        """Makes statistics for variables.

        Args:
            variables: The shared weights.
            decay: Share of `g` that an update keeps.
            epsilon: Added to `g` inside the root.
        """
        super().__init__(name="shared_rmsprop")
        self._variables = list(variables)
        self._decay = decay
        self._epsilon = epsilon
        self.mean_squares = [_zeros_like(variable) for variable in variables]
        self._momentum = [_zeros_like(variable) for variable in variables]  # the operation has it

    def apply(self, gradients: Sequence[tf.Tensor], learning_rate: tf.Tensor) -> None:
        """Applies one gradient to each variable."""
        for variable, mean_square, momentum, gradient in zip(
            self._variables, self.mean_squares, self._momentum, gradients, strict=True
        ):
            tf.raw_ops.ResourceApplyRMSProp(
                var=variable.handle,
                ms=mean_square.handle,
                mom=momentum.handle,
                lr=learning_rate,
                rho=self._decay,
                momentum=0.0,
                epsilon=self._epsilon,
                grad=gradient,
                use_locking=True,
            )


def _zeros_like(variable: tf.Variable) -> tf.Variable:
    return tf.Variable(tf.zeros_like(variable), trainable=False)
