import numpy as np
import pytest
import tensorflow as tf

from nec_tf.networks import encoders


def test_nature_dqn_has_the_convolutions_of_mnih_et_al_and_a_linear_key():
    model = encoders.nature_dqn(key_size=64)
    convolutions = [x for x in model.layers if isinstance(x, tf.keras.layers.Conv2D)]
    assert [(x.filters, x.kernel_size, x.strides) for x in convolutions] == [
        (32, (8, 8), (4, 4)),
        (64, (4, 4), (2, 2)),
        (64, (3, 3), (1, 1)),
    ]
    assert all(x.activation is tf.keras.activations.relu for x in convolutions)
    assert model.layers[-1].activation is tf.keras.activations.linear
    assert convolutions[-1].output_shape == (None, 7, 7, 64)
    assert model.output_shape == (None, 64)


def test_nature_dqn_takes_bytes_and_scales_them_to_one():
    model = encoders.nature_dqn(key_size=8, seed=0)
    frames = np.random.default_rng(0).integers(256, size=(2, 84, 84, 4)).astype(np.uint8)
    keys = model(frames)
    assert keys.dtype == tf.float32
    assert keys.shape == (2, 8)
    scaled = tf.keras.Sequential(model.layers[1:])(frames / np.float32(255))
    np.testing.assert_allclose(keys, scaled, rtol=1e-4, atol=1e-5)


def test_mlp_flattens_observations_and_ends_linear():
    model = encoders.mlp((2, 3), key_size=5, hidden=(7, 6))
    dense = [x for x in model.layers if isinstance(x, tf.keras.layers.Dense)]
    assert [x.units for x in dense] == [7, 6, 5]
    assert [x.activation.__name__ for x in dense] == ["tanh", "tanh", "linear"]
    assert model(np.zeros((4, 2, 3), np.float32)).shape == (4, 5)


def test_mlp_without_hidden_layers_is_one_linear_map():
    model = encoders.mlp((3,), key_size=2, hidden=(), seed=0)
    x = np.array([[1.0, -2.0, 3.0]], np.float32)
    np.testing.assert_allclose(model(2 * x), 2 * model(x), rtol=1e-5)


def test_keys_of_one_length_keep_their_direction():
    model = encoders.mlp((3,), key_size=2, seed=0)
    fixed = encoders.of_length(model, 5.0)
    x = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)
    keys, same = model(x).numpy(), fixed(x).numpy()
    np.testing.assert_allclose(np.linalg.norm(same, axis=1), 5.0, rtol=1e-5)
    lengths = np.linalg.norm(keys, axis=1, keepdims=True)
    np.testing.assert_allclose(same, 5.0 * keys / lengths, rtol=1e-4, atol=1e-6)
    assert lengths.std() > 0.01
    again = tf.keras.models.clone_model(fixed)
    again.set_weights(fixed.get_weights())
    np.testing.assert_array_equal(again(x), same)
    model.set_weights([weight + 1 for weight in model.get_weights()])
    assert not np.allclose(fixed(x), same)  # the variables are shared
    np.testing.assert_array_equal(encoders.FixedLength(5.0)(np.zeros((1, 2), np.float32)), 0.0)


def test_the_mean_screen_is_taken_off_once_it_is_known():
    layer = encoders.CentredPixels()
    screens = np.array([[[[0], [255]]], [[[51], [255]]]], np.uint8)
    np.testing.assert_allclose(layer(screens).numpy()[..., 0], [[[0, 1]], [[0.2, 1]]], rtol=1e-6)
    assert layer.trainable_weights == []
    layer.centre_on([screens, screens[:1]])
    # By hand: the first pixel's mean is 51 / 3 = 17.
    wanted = np.array([[[-17, 0]], [[34, 0]]]) / 255
    np.testing.assert_allclose(layer(screens).numpy()[..., 0], wanted, rtol=1e-5, atol=1e-7)


def test_only_networks_of_pixels_have_a_mean_screen():
    pixels = encoders.nature_dqn((44, 44, 2), 4, seed=0)
    for network in (pixels, encoders.of_length(pixels, 3.0)):
        assert encoders.pixels_of(network) is pixels.layers[0]
    assert encoders.pixels_of(encoders.mlp((3,), 4)) is None


MAKERS = [
    lambda seed: encoders.nature_dqn((44, 44, 2), 4, seed),
    lambda seed: encoders.mlp((8,), 8, (8, 8), seed),
]


def weights_of(model):
    """Those that are trained, as arrays: the mean screen always begins at 0."""
    return [weight.numpy() for weight in model.trainable_weights]


@pytest.mark.parametrize("make", MAKERS)
def test_the_seed_decides_the_weights(make):
    first, same, other = (weights_of(make(seed)) for seed in (1, 1, 2))
    assert all(np.array_equal(x, y) for x, y in zip(first, same, strict=True))
    assert not np.array_equal(first[0], other[0])


def test_layers_of_the_same_shape_start_differently():
    kernels = encoders.mlp((8,), 8, (8, 8), seed=0).get_weights()[::2]
    assert not np.array_equal(kernels[0], kernels[1])
    assert not np.array_equal(kernels[1], kernels[2])


@pytest.mark.parametrize("make", MAKERS)
def test_without_a_seed_every_model_is_another(make):
    assert not np.array_equal(weights_of(make(None))[0], weights_of(make(None))[0])
