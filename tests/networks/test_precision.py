import numpy as np
import pytest
import tensorflow as tf

from nec_tf.networks import encoders
from nec_tf.networks.precision import copy_in_bfloat16

_ROUNDING = 2.0**-8  # of a bfloat16


@pytest.fixture(scope="module")
def networks():
    """Returns Nature DQN's convolutions with keys of length 3, and its copy in bfloat16."""
    network = encoders.of_length(encoders.nature_dqn(key_size=16, seed=1), 3.0)
    copy = copy_in_bfloat16(network)
    for made in (network, copy):
        made(np.zeros([1, 84, 84, 4], np.uint8))
    copy.set_weights(network.get_weights())
    return network, copy


@pytest.fixture(scope="module")
def screens():
    return np.random.default_rng(0).integers(0, 256, (8, 84, 84, 4)).astype(np.uint8)


def gradients(network, screens):
    with tf.GradientTape() as tape:
        keys = network(screens, training=True)
        loss = tf.reduce_sum(tf.cast(keys, tf.float32)[:, 0])
    return tape.gradient(loss, network.trainable_variables)


def test_convolutions_and_products_compute_in_bfloat16_and_the_rest_in_float32(networks):
    _, copy = networks
    layers = {type(layer).__name__: layer for layer in [*copy.layers[0].layers, copy.layers[1]]}
    half = {name for name, layer in layers.items() if layer.compute_dtype == "bfloat16"}
    assert half == {"Conv2D", "Flatten", "Dense"}
    assert layers["FixedLength"].compute_dtype == layers["CentredPixels"].compute_dtype == "float32"


def test_weights_are_float32_and_not_shared(networks):
    network, copy = networks
    assert {variable.dtype for variable in copy.variables} == {tf.float32}
    assert [v.shape for v in copy.variables] == [v.shape for v in network.variables]
    assert not {id(v) for v in copy.variables} & {id(v) for v in network.variables}


def test_keys_agree_with_float32_to_the_rounding_of_bfloat16(networks, screens):
    network, copy = networks
    keys, same = copy(screens), network(screens)
    assert keys.dtype == tf.float32
    apart = np.linalg.norm(keys - same, axis=1) / np.linalg.norm(same, axis=1)
    assert 0.0 < apart.max() < 4 * _ROUNDING  # four layers


def test_gradients_are_float32_and_agree_with_those_of_float32(networks, screens):
    network, copy = networks
    for half, full in zip(gradients(copy, screens), gradients(network, screens), strict=True):
        assert half.dtype == tf.float32
        half, full = half.numpy().ravel(), full.numpy().ravel()
        cosine = half @ full / np.linalg.norm(half) / np.linalg.norm(full)
        assert cosine > 0.995
