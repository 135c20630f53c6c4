"""Embeddings: networks from an observation `s` to the key `h` that is looked up in the memory.

Paper, section 3: a convolutional network processes pixels into a key; its architecture is that of
DQN (Mnih et al., 2015).
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

#: Height and width of the smallest images that the convolutions of `nature_dqn` fit into.
SMALLEST_SCREEN = 36
_SMALLEST_SQUARE = 1e-12  # squared length; avoids a division by 0 for a key of zeros


def nature_dqn(
    observation_shape: Sequence[int] = (84, 84, 4), key_size: int = 64, seed: int | None = None
) -> tf.keras.Model:
    """Returns the convolutions of Nature DQN and one linear layer to the key.

    >>> import numpy as np
    >>> from nec_tf import encoders
    >>> network = encoders.nature_dqn((84, 84, 4), key_size=64, seed=1)
    >>> network(np.zeros([2, 84, 84, 4], np.uint8)).shape
    TensorShape([2, 64])

    Args:
        observation_shape: Height, width, stacked frames.
        key_size: Number of elements of the key `h`; the paper tuned it but does not state it.
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
    """Subtracts the mean screen, if it is known, and divides pixels by 255.

    Most of a screen never changes. Without subtraction this part dominates every key of a new
    network, and each update of its weights moves all new keys away from the stored ones
    (docs/algorithm.md).

    >>> import numpy as np
    >>> from nec_tf import encoders
    >>> network = encoders.nature_dqn((84, 84, 4), key_size=64, seed=1)
    >>> pixels = encoders.pixels_of(network)
    >>> pixels.centre_on([np.full([8, 84, 84, 4], 100, np.uint8)])
    >>> float(pixels.mean[0, 0, 0])
    100.0

    Attributes:
        mean: Mean of each pixel, [height, width, frames]; 0 until it is known. Not trained.
    """

    def build(self, input_shape: tf.TensorShape) -> None:
        """Makes the variable of the mean screen."""
        self.mean = self.add_weight(
            "mean", input_shape[1:], tf.float32, initializer="zeros", trainable=False
        )
        super().build(input_shape)

    def call(self, pixels: tf.Tensor) -> tf.Tensor:
        """Returns float32 of the shape of `pixels`, uint8 [B, height, width, frames]."""
        return (tf.cast(pixels, tf.float32) - self.mean) * (1.0 / 255.0)

    def centre_on(self, batches: Iterable[np.ndarray]) -> None:
        """Sets `mean` to the mean of all states, uint8 [n, height, width, frames] per batch."""
        total, count = np.zeros(self.mean.shape), 0
        for batch in batches:
            total += np.sum(batch, axis=0, dtype=np.float64)
            count += len(batch)
        self.mean.assign(total / count)


def pixels_of(model: tf.keras.Model) -> CentredPixels | None:
    """Returns the `CentredPixels` layer of a network, or None."""
    return next((part for part in model.submodules if isinstance(part, CentredPixels)), None)


def mlp(
    observation_shape: Sequence[int],
    key_size: int = 64,
    hidden: Sequence[int] = (64, 64),
    seed: int | None = None,
    pixels: bool = False,
) -> tf.keras.Model:
    """Returns fully connected layers for vector observations.

    >>> import numpy as np
    >>> from nec_tf import encoders
    >>> network = encoders.mlp((4,), key_size=16, hidden=(32,), seed=1)
    >>> network(np.zeros([2, 4], np.float32)).shape
    TensorShape([2, 16])

    Args:
        observation_shape: Shape of one observation; it is flattened.
        key_size: Number of elements of the key `h`.
        hidden: Number of units of each hidden layer.
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
    """Scales every key to the same Euclidean length, so that only its direction is learned.

    >>> import numpy as np
    >>> from nec_tf.networks.encoders import FixedLength
    >>> FixedLength(10.0)(np.array([[3.0, 4.0]], np.float32)).numpy()
    array([[6., 8.]], dtype=float32)
    """

    def __init__(self, length: float, **kwargs: Any) -> None:
        """Makes a layer without weights.

        Args:
            length: Length of every key.
            **kwargs: Arguments of every Keras layer.
        """
        super().__init__(**kwargs)
        self.length = length

    def call(self, keys: tf.Tensor) -> tf.Tensor:
        """Returns keys [B, key_size] scaled to the fixed length."""
        d2 = tf.reduce_sum(tf.square(keys), axis=-1, keepdims=True)
        # One factor per key: with other forms TensorFlow's graph optimiser rounds the same keys
        # differently in different graphs.
        return keys * (self.length * tf.math.rsqrt(tf.maximum(d2, _SMALLEST_SQUARE)))

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), "length": self.length}


def of_length(model: tf.keras.Model, length: float) -> tf.keras.Model:
    """Returns the network followed by `FixedLength`; variables are shared.

    >>> import numpy as np
    >>> from nec_tf import encoders
    >>> network = encoders.of_length(encoders.mlp((4,), key_size=16, seed=1), 3.0)
    >>> keys = network(np.ones([1, 4], np.float32))
    >>> float(np.linalg.norm(keys).round(3))
    3.0
    """
    return tf.keras.Sequential([model, FixedLength(length)], name=f"{model.name}_of_length")


def random_projection(
    observation_shape: Sequence[int], key_size: int = 64, seed: int | None = None
) -> tf.keras.Model:
    """Returns a fixed Gaussian projection, as in MFEC (Blundell et al., 2016); it is not trained.

    It approximately keeps distances between observations, with pixels scaled to 0..1: its elements
    have the variance 1 / key_size.

    >>> import numpy as np
    >>> from nec_tf import encoders
    >>> network = encoders.random_projection((84, 84, 4), key_size=64, seed=1)
    >>> network(np.zeros([2, 84, 84, 4], np.uint8)).shape
    TensorShape([2, 64])

    Args:
        observation_shape: Shape of one observation; it is flattened.
        key_size: Number of elements of the key `h`.
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
    """Yields initialisers, one per layer, each with its own seed; a shared one would repeat.

    He initialisation (uniform) keeps the scale of activations. With Keras' default, Glorot, the
    50th neighbour of a Pong state was at a squared distance of 0.0003, far below the kernel's delta
    of 0.001, so that every lookup was a plain mean; with He it is at 0.015.
    """
    layer = 0
    while True:
        layer_seed = None if seed is None else seed * 1000 + layer
        yield {"kernel_initializer": tf.keras.initializers.HeUniform(layer_seed)}
        layer += 1
