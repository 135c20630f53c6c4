"""Embeddings: from an observation `s` to the key `h` that the memory is asked with.

Paper, section 3: a convolutional network processes pixels into a key; its architecture is that of
DQN (Mnih et al., 2015).
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

#: Height and width of the smallest images that the convolutions of `nature_dqn` fit into.
SMALLEST_SCREEN = 36
_NO_LENGTH = 1e-12  # squared: a key of zeros stays where it is


def nature_dqn(
    observation_shape: Sequence[int] = (84, 84, 4), key_size: int = 64, seed: int | None = None
) -> tf.keras.Model:
    """The convolutions of Nature DQN, then one linear layer to the key.

    Args:
        observation_shape: Height, width, stacked frames.
        key_size: Length of the key `h`; the paper tuned it and does not give it.
        seed: Seed of the initial weights.

    Returns:
        A model from uint8 [B, height, width, frames] to float32 [B, key_size].
    """
    initial = _initialisers(seed)
    convolutions = [
        tf.keras.layers.Conv2D(filters, size, stride, "valid", activation="relu", **next(initial))
        for filters, size, stride in ((32, 8, 4), (64, 4, 2), (64, 3, 1))  # Mnih et al., 2015
    ]
    return tf.keras.Sequential(
        [
            tf.keras.layers.InputLayer(tuple(observation_shape), dtype=tf.uint8),
            CentredPixels(),
            *convolutions,
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(key_size, **next(initial)),
        ],
        name="nature_dqn",
    )


@tf.keras.utils.register_keras_serializable("nec_tf")
class CentredPixels(tf.keras.layers.Layer):
    """Pixels of 0 to 255 as numbers of at most 1, less the mean screen where that is known.

    Most of a screen never changes. Left in, it makes up nearly all of every key of a new network,
    and whatever an update does to it moves all keys at once, away from those that are stored
    (docs/algorithm.md).

    Attributes:
        mean: Of each pixel, [height, width, frames]; 0 until it is known. It is not trained.
    """

    def build(self, input_shape: tf.TensorShape) -> None:
        """Makes the mean screen."""
        self.mean = self.add_weight(
            "mean", input_shape[1:], tf.float32, initializer="zeros", trainable=False
        )
        super().build(input_shape)

    def call(self, pixels: tf.Tensor) -> tf.Tensor:
        """From uint8 [B, height, width, frames] to float32."""
        return (tf.cast(pixels, tf.float32) - self.mean) * (1.0 / 255.0)

    def centre_on(self, batches: Iterable[np.ndarray]) -> None:
        """Takes the mean of states, uint8 [n, height, width, frames] in each batch."""
        total, count = np.zeros(self.mean.shape), 0
        for batch in batches:
            total += np.sum(batch, axis=0, dtype=np.float64)
            count += len(batch)
        self.mean.assign(total / count)


def pixels_of(model: tf.keras.Model) -> CentredPixels | None:
    """Returns the layer that takes the mean screen off, None where a network has none."""
    return next((part for part in model.submodules if isinstance(part, CentredPixels)), None)


def mlp(
    observation_shape: Sequence[int],
    key_size: int = 64,
    hidden: Sequence[int] = (64, 64),
    seed: int | None = None,
    pixels: bool = False,
) -> tf.keras.Model:
    """Fully connected layers for vector observations.

    Args:
        observation_shape: Shape of one observation; flattened.
        key_size: Length of the key `h`.
        hidden: Units of the hidden layers.
        seed: Seed of the initial weights.
        pixels: Whether observations are uint8 from 0 to 255, which are scaled to at most 1.

    Returns:
        A model from float32 or uint8 [B, *observation_shape] to float32 [B, key_size].
    """
    initial = _initialisers(seed)
    shape, dtype = tuple(observation_shape), tf.uint8 if pixels else tf.float32
    return tf.keras.Sequential(
        [
            tf.keras.layers.InputLayer(shape, dtype=dtype),
            *([CentredPixels()] if pixels else []),
            tf.keras.layers.Flatten(),
            *[tf.keras.layers.Dense(units, "tanh", **next(initial)) for units in hidden],
            tf.keras.layers.Dense(key_size, **next(initial)),
        ],
        name="mlp",
    )


@tf.keras.utils.register_keras_serializable("nec_tf")
class FixedLength(tf.keras.layers.Layer):
    """Makes every key as long as the others: what is learnt is its direction."""

    def __init__(self, length: float, **kwargs: Any) -> None:
        """A layer that has no weights.

        Args:
            length: Of every key.
            **kwargs: As in every Keras layer.
        """
        super().__init__(**kwargs)
        self.length = length

    def call(self, keys: tf.Tensor) -> tf.Tensor:
        """From keys [B, key_size] of any length to keys of the fixed one."""
        d2 = tf.reduce_sum(tf.square(keys), axis=-1, keepdims=True)
        # One factor for each key: written otherwise, TensorFlow's optimiser of graphs rounds the
        # same keys differently in different graphs.
        return keys * (self.length * tf.math.rsqrt(tf.maximum(d2, _NO_LENGTH)))

    def get_config(self) -> dict[str, Any]:
        """Returns what the constructor takes."""
        return {**super().get_config(), "length": self.length}


def of_length(model: tf.keras.Model, length: float) -> tf.keras.Model:
    """Returns a network from observations to keys with keys of one length; it shares variables."""
    return tf.keras.Sequential([model, FixedLength(length)], name=f"{model.name}_of_length")


def random_projection(
    observation_shape: Sequence[int], key_size: int = 64, seed: int | None = None
) -> tf.keras.Model:
    """A fixed Gaussian projection, as in MFEC (Blundell et al., 2016); it is never trained.

    Distances between observations, with pixels from 0 to 1, are about kept: entries have the
    variance 1 / key_size.

    Args:
        observation_shape: Shape of one observation; flattened.
        key_size: Length of the key `h`.
        seed: Seed of the projection.

    Returns:
        A model from [B, *observation_shape], uint8 or float32, to float32 [B, key_size].
    """
    pixels = len(observation_shape) == 3
    normal = tf.keras.initializers.RandomNormal(stddev=key_size**-0.5, seed=seed)
    project = tf.keras.layers.Dense(key_size, use_bias=False, kernel_initializer=normal)
    project.trainable = False
    return tf.keras.Sequential(
        [
            tf.keras.layers.InputLayer(
                tuple(observation_shape), dtype=tf.uint8 if pixels else tf.float32
            ),
            tf.keras.layers.Rescaling(1.0 / 255.0 if pixels else 1.0),
            tf.keras.layers.Flatten(),
            project,
        ],
        name="random_projection",
    )


def _initialisers(seed: int | None):
    """One initialiser a layer, each with its own seed: Keras would repeat a shared one.

    He initialisation (uniform) keeps the scale of what a layer sees. With Keras' default, Glorot,
    the 50th neighbour of a state of Pong was at a squared distance of 0.0003, well inside the
    kernel's delta of 0.001, so that every lookup was a plain mean; with He it is at 0.015.
    """
    layer = 0
    while True:
        layer_seed = None if seed is None else seed * 1000 + layer
        yield {"kernel_initializer": tf.keras.initializers.HeUniform(layer_seed)}
        layer += 1
