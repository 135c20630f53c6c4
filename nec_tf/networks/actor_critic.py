"""Networks of A3C (Mnih et al., 2016): a body, and on it a softmax policy and a value."""

from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from nec_tf.networks import encoders


def body(
    observation_shape: Sequence[int], key_size: int = 256, seed: int | None = None
) -> tf.keras.Model:
    """The layers that policy and value share, without the last ReLU.

    Args:
        observation_shape: Height, width, stacked frames; or another shape, which `encoders.mlp`
            flattens.
        key_size: Units of the last hidden layer.
        seed: Seed of the initial weights.

    Returns:
        A model from uint8 screens or float32 vectors, [B, *observation_shape], to float32
        [B, key_size].
    """
    if len(observation_shape) != 3 or min(observation_shape[:2]) < encoders.SMALLEST_SCREEN:
        return encoders.mlp(observation_shape, key_size, seed=seed)
    initial = _initialisers(seed)
    convolutions = [
        tf.keras.layers.Conv2D(filters, size, stride, "valid", activation="relu", **next(initial))
        for filters, size, stride in ((16, 8, 4), (32, 4, 2))  # Mnih et al., 2016, section 8
    ]
    return tf.keras.Sequential(
        [
            tf.keras.layers.InputLayer(tuple(observation_shape), dtype=tf.uint8),
            tf.keras.layers.Rescaling(1.0 / 255.0),
            *convolutions,
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(key_size, **next(initial)),
        ],
        name="a3c_body",
    )


def actor_critic(
    shared: tf.keras.Model, num_actions: int, seed: int | None = None
) -> tf.keras.Model:
    """Adds a ReLU and two linear outputs to a body.

    Args:
        shared: From observations [B, ...] to the last hidden layer, before its ReLU.
        num_actions: A.
        seed: Seed of the initial weights of the outputs.

    Returns:
        A model from observations [B, ...] to logits [B, A] and values [B].
    """
    initial = _initialisers(None if seed is None else seed + 1)  # other numbers than the body's
    hidden = tf.keras.layers.ReLU()(shared.output)
    logits = tf.keras.layers.Dense(num_actions, name="logits", **next(initial))(hidden)
    value = tf.keras.layers.Dense(1, name="value", **next(initial))(hidden)
    value = tf.keras.layers.Reshape(())(value)
    return tf.keras.Model(shared.inputs, [logits, value], name="actor_critic")


def _initialisers(seed: int | None) -> Iterator[dict[str, Any]]:
    """One initialiser a layer: uniform within 1 / sqrt(inputs), Torch's default of that time.

    The authors used Torch; biases begin at 0 [ours], where Torch draws them as well.
    """
    layer = 0
    while True:
        layer_seed = None if seed is None else seed * 1000 + layer
        initial = tf.keras.initializers.VarianceScaling(1 / 3, "fan_in", "uniform", layer_seed)
        yield {"kernel_initializer": initial}
        layer += 1
