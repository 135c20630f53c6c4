"""The mathematics of a lookup: equations 1 and 2 of the paper, and their gradients.

Equation 1, `o = sum_i w_i v_i`, is computed in three places, because each needs something else:

- `weighted_sum`, here: with gradients to queries, keys and values, for training.
- `DifferentiableNeuralDictionary.lookup_from_candidates`: without gradients, for acting. `nearest`
  has measured the distances already; measuring again would gather every key twice.
- `nec_tf.serving.frozen_memory.FrozenMemory`: in an exported graph, which has only stock
  operations, other tables and its own search; the weights are also returned by `explain`.

All three take the weights, equation 2, from `nec_tf.memory.kernels.normalised_weights`, and tests
compare their results.
"""

import tensorflow as tf

from nec_tf.memory.kernels import Kernel, normalised_weights


def squared_distances(queries: tf.Tensor, keys: tf.Tensor) -> tf.Tensor:
    """Returns `||h - h_i||^2`.

    Args:
        queries: `h`, [B, key_size].
        keys: `h_i`, [B, A, p, key_size].

    Returns:
        [B, A, p].
    """
    return tf.reduce_sum(tf.math.squared_difference(queries[:, None, None, :], keys), axis=-1)


def nearest(
    keys: tf.Variable, queries: tf.Tensor, candidates: tf.Tensor, p: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the p candidates whose current keys are nearest, nearest first.

    Args:
        keys: `h_i`, [rows, key_size].
        queries: `h`, [B, key_size].
        candidates: Rows [B, A, c], c at least p; 0 for none.
        p: Number of neighbours.

    Returns:
        Rows [B, A, p], and their squared distances [B, A, p], without gradients.
    """
    d2 = squared_distances(queries, tf.gather(keys, candidates))
    d2 = tf.where(candidates > 0, d2, d2.dtype.max)
    top = tf.math.top_k(-d2, p)
    rows = tf.gather(candidates, top.indices, batch_dims=2)
    return tf.stop_gradient(rows), tf.stop_gradient(-top.values)


def weighted_sum(
    kernel: Kernel, queries: tf.Tensor, keys: tf.Tensor, values: tf.Tensor, present: tf.Tensor
) -> tf.Tensor:
    """Equation 1: `o = sum_i w_i v_i` over the neighbours that are present; 0 if there is none.

    With normalised `w_i`, `do/dv_i = w_i` and `do/d(log k_i) = w_i (v_i - o)`; the chain rule
    through the squared distance gives the rest. The gradient is written out so that the backward
    pass reuses differences and weights, and stays finite if a query equals a key.

    Args:
        kernel: `k`, a function of the squared distance.
        queries: `h`, [B, key_size].
        keys: `h_i`, [B, A, p, key_size].
        values: `v_i`, [B, A, p].
        present: False for places without a neighbour, bool [B, A, p].

    Returns:
        `o`, [B, A].
    """

    @tf.custom_gradient
    def output(queries, keys, values):
        d2 = squared_distances(queries, keys)
        weights = normalised_weights(kernel, d2, present)
        o = tf.reduce_sum(weights * values, axis=-1)

        def gradient(d_o):
            d_values = d_o[..., None] * weights
            d_log_k = d_values * (values - o[..., None])
            d_d2 = d_log_k * kernel.log_slope(d2)
            d_difference = 2.0 * d_d2[..., None] * (queries[:, None, None, :] - keys)
            return tf.reduce_sum(d_difference, axis=[1, 2]), -d_difference, d_values

        return o, gradient

    return output(queries, keys, values)
