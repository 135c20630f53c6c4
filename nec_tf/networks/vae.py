"""A small variational auto-encoder (Kingma and Welling, 2014) for MFEC: trained once, then fixed.

The key of an observation is the mean of its latent distribution.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

_LEARNING_RATE = 1e-3  # default of Adam [ours]
_BATCH = 64  # observations [ours]


def vae_encoder(
    observation_shape: Sequence[int], key_size: int = 64, seed: int | None = None
) -> tf.keras.Model:
    """Returns the encoder up to the mean: observations [B, ...] to keys float32 [B, key_size]."""
    pixels = len(observation_shape) == 3
    layers = tf.keras.layers
    body = (
        [
            layers.Rescaling(1.0 / 255.0),
            layers.Conv2D(16, 8, 4, activation="relu"),
            layers.Conv2D(32, 4, 2, activation="relu"),
        ]
        if pixels
        else [layers.Flatten(), layers.Dense(64, activation="relu")]
    )
    if seed is not None:
        tf.keras.utils.set_random_seed(seed)
    dtype = tf.uint8 if pixels else tf.float32
    return tf.keras.Sequential(
        [
            layers.InputLayer(tuple(observation_shape), dtype=dtype),
            *body,
            layers.Flatten(),
            layers.Dense(key_size),
        ],
        name="vae_encoder",
    )


class Vae(tf.Module):
    """An encoder with the parts that train it: log-variances and a decoder."""

    def __init__(self, encoder: tf.keras.Model, seed: int) -> None:
        """Makes an untrained auto-encoder around an encoder from `vae_encoder`."""
        super().__init__(name="vae")
        layers = tf.keras.layers
        self._encoder = encoder
        self._shape = encoder.input_shape[1:]
        self._pixels = len(self._shape) == 3
        key_size = encoder.output_shape[-1]
        self._log_variance = tf.Variable(tf.zeros([key_size]), name="log_variance")
        size = int(np.prod(self._shape))
        hidden = [layers.InputLayer((key_size,)), layers.Dense(256, activation="relu")]
        self._decoder = tf.keras.Sequential([*hidden, layers.Dense(size)], name="vae_decoder")
        self._optimizer = tf.keras.optimizers.Adam(_LEARNING_RATE)
        self._generator = tf.random.Generator.from_seed(seed)
        self._step = tf.function(self._update)

    def train(self, observations: np.ndarray, updates: int, seed: int) -> list[float]:
        """Trains on observations [n, ...]; returns the loss of each update."""
        rng = np.random.default_rng(seed)
        losses = []
        for _ in range(updates):
            chosen = rng.integers(0, len(observations), _BATCH)
            losses.append(float(self._step(tf.constant(observations[chosen]))))
        return losses

    def _update(self, observations: tf.Tensor) -> tf.Tensor:
        variables = [
            *self._encoder.trainable_variables,
            *self._decoder.trainable_variables,
            self._log_variance,
        ]
        with tf.GradientTape() as tape:
            loss = self._loss(observations)
        gradients = tape.gradient(loss, variables)
        self._optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return loss

    def _loss(self, observations: tf.Tensor) -> tf.Tensor:
        """Returns the negative evidence lower bound: reconstruction error plus KL divergence."""
        mean = self._encoder(observations, training=True)
        noise = self._generator.normal(tf.shape(mean))
        decoded = self._decoder(mean + tf.exp(0.5 * self._log_variance) * noise)
        given = tf.reshape(tf.cast(observations, tf.float32), tf.shape(decoded))
        if self._pixels:
            errors = tf.nn.sigmoid_cross_entropy_with_logits(given / 255.0, decoded)
        else:
            errors = 0.5 * tf.square(given - decoded)
        variance = tf.exp(self._log_variance)
        divergence = 0.5 * (tf.square(mean) + variance - 1.0 - self._log_variance)
        return tf.reduce_mean(tf.reduce_sum(errors, axis=1) + tf.reduce_sum(divergence, axis=1))
