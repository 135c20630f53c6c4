import numpy as np
import pytest

from nec_tf.networks.vae import Vae, vae_encoder


def pictures(rng, count):
    """Images of a bright square on black: two numbers describe each."""
    images = np.zeros((count, 84, 84, 4), np.uint8)
    places = rng.integers(0, 64, (count, 2))
    for image, (row, column) in zip(images, places, strict=True):
        image[row : row + 20, column : column + 20] = 255
    return images, places


def test_training_lowers_the_loss_and_keys_tell_where_the_square_is():
    rng = np.random.default_rng(0)
    images, places = pictures(rng, 300)
    encoder = vae_encoder((84, 84, 4), 8, seed=0)
    losses = Vae(encoder, seed=0).train(images, 60, seed=0)
    assert np.mean(losses[-5:]) < 0.5 * np.mean(losses[:3])
    keys = encoder.predict(images, verbose=0)
    distances = np.linalg.norm(keys[:, None] - keys[None], axis=-1) + 1e9 * np.eye(len(keys))
    apart = np.linalg.norm(places - places[distances.argmin(axis=1)], axis=1)
    assert np.median(apart) < 8  # of 64 pixels; chance is 33


@pytest.mark.parametrize("shape", [(84, 84, 4), (3,)])
def test_the_same_seed_makes_the_same_encoder(shape):
    rng = np.random.default_rng(0)
    observations = rng.integers(0, 255, (64, *shape))
    observations = observations.astype(np.uint8 if len(shape) == 3 else np.float32)
    weights = []
    for _ in range(2):
        encoder = vae_encoder(shape, 4, seed=1)
        Vae(encoder, seed=1).train(observations, 3, seed=1)
        weights.append(encoder.get_weights())
    for first, second in zip(*weights, strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-4, atol=1e-6)
