"""Neighbours found with TensorFlow's own operations, for graphs that leave without Python."""

from collections.abc import Sequence

import tensorflow as tf

_SPARE = 14  # candidates beyond p: rough distances may swap neighbours that are nearly as far


class ExactSearch(tf.Module):
    """Compares a query with every key of each action.

    By a matrix product, which has fewer digits than differences have but reads the keys only once.
    Whoever asks measures the candidates again.
    """

    def __init__(self, keys: tf.Variable, starts: Sequence[int]) -> None:
        """A search over keys.

        Args:
            keys: [n, key_size], those of action a from `starts[a]` to `starts[a + 1]`. Their mean
                is about 0, so that the products have most of their digits.
            starts: A + 1 places.
        """
        super().__init__(name="exact_search")
        self._keys = keys
        self._starts = list(starts)
        squares = tf.reduce_sum(tf.square(keys), axis=-1)
        self._squares = tf.Variable(squares, trainable=False, name="squares")

    def __call__(self, queries: tf.Tensor, p: int) -> tf.Tensor:
        """Returns the places of p or somewhat more candidates, int32 [B, A, c], 0 for none."""
        found = []
        for start, end in zip(self._starts[:-1], self._starts[1:], strict=True):
            products = tf.matmul(queries, self._keys[start:end], transpose_b=True)
            count = min(p + _SPARE, end - start)
            nearest = tf.math.top_k(2.0 * products - self._squares[start:end], count, sorted=False)
            found.append(tf.pad(start + nearest.indices, [[0, 0], [0, p + _SPARE - count]]))
        return tf.stack(found, axis=1)
