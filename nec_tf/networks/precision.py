"""Networks that compute in bfloat16: half the memory traffic, and faster matrix products.

A bfloat16 has the range of a float32 and 8 bits of its mantissa. Products are added up in float32,
weights and their gradients stay float32. The range makes the scaling of losses unnecessary.
"""

import tensorflow as tf

_LAYERS = tf.keras.layers
# Other layers, such as `CentredPixels` and `FixedLength`, compute in float32: they are cheap, and
# bfloat16 cannot tell two grey values of a screen apart once their mean is subtracted.
_IN_BFLOAT16 = (_LAYERS.Conv1D, _LAYERS.Conv2D, _LAYERS.Conv3D, _LAYERS.Dense, _LAYERS.Flatten)


def copy_in_bfloat16(network: tf.keras.Model) -> tf.keras.Model:
    """Returns a copy with its own float32 variables that convolves and multiplies in bfloat16.

    >>> import numpy as np
    >>> from nec_tf import encoders
    >>> from nec_tf.networks.precision import copy_in_bfloat16
    >>> network = encoders.mlp((4,), key_size=3, seed=1)
    >>> copy = copy_in_bfloat16(network)
    >>> copy(np.ones([2, 4], np.float32)).dtype, copy.trainable_variables[0].dtype
    (tf.bfloat16, tf.float32)

    Args:
        network: A Sequential or functional model; weights are not copied.
    """
    return tf.keras.models.clone_model(network, clone_function=_copy_of)


def _copy_of(layer: tf.keras.layers.Layer) -> tf.keras.layers.Layer:
    if isinstance(layer, tf.keras.Model):
        return copy_in_bfloat16(layer)
    config = layer.get_config()
    if isinstance(layer, _IN_BFLOAT16):
        config["dtype"] = "mixed_bfloat16"
    return type(layer).from_config(config)
