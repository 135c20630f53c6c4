"""The running scale of returns: one unit for games that pay in ones and in thousands."""

import math

import numpy as np
import tensorflow as tf

# Returns that the scale remembers. A tenth of the 100,000 steps of Atari-100k: short enough to
# follow returns that grow as the agent learns, long enough for games in which rewards are rare.
_REMEMBERED = 10_000
# The least scale, as a share of the returns' root mean square: returns that are all the same have
# no deviation.
_LEAST_SHARE = 0.01


class ReturnScale(tf.Module):
    """The standard deviation of the returns written so far, with exponentially fading memory.

    It is homogeneous: returns multiplied by c give a scale multiplied by c.

    >>> import numpy as np
    >>> scale = ReturnScale()
    >>> scale.observe(np.array([-300.0, 300.0]))
    >>> round(float(scale.value))
    300

    Attributes:
        value: The scale in points, a float32 scalar; 1 until a return differs from 0.
    """

    def __init__(self) -> None:
        """Starts with no return."""
        super().__init__(name="return_scale")
        self.value = tf.Variable(1.0, trainable=False, name="value")
        # The total weight, and the weighted sums of returns and of squared returns.
        self._sums = tf.Variable(tf.zeros([3], tf.float64), trainable=False, name="sums")

    def observe(self, returns: np.ndarray) -> None:
        """Counts returns, [n], the oldest first."""
        returns = np.asarray(returns, np.float64)
        keep = 1.0 - 1.0 / _REMEMBERED
        weights = keep ** np.arange(len(returns) - 1, -1, -1)
        seen = [weights.sum(), weights @ returns, weights @ np.square(returns)]
        sums = keep ** len(returns) * self._sums.numpy() + seen
        self._sums.assign(sums)
        self.value.assign(_scale(*sums))


def _scale(weight: float, total: float, total_of_squares: float) -> float:
    mean_square = total_of_squares / weight
    variance = mean_square - (total / weight) ** 2
    return math.sqrt(max(variance, _LEAST_SHARE**2 * mean_square)) or 1.0
