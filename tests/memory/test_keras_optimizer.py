import numpy as np
import pytest
import tensorflow as tf
from memories import contents, fill, make_dnd

from nec_tf import RowRMSProp, WithMemory


def make_model(optimizer="adam", keys_rate=0.1, values_rate=0.1):
    dnd = make_dnd(dtype="float32")
    fill(dnd, 20)
    inputs = tf.keras.Input((5,))
    model = tf.keras.Model(inputs, dnd(tf.keras.layers.Dense(3)(inputs)))
    model.compile(WithMemory(optimizer, RowRMSProp(dnd, keys_rate, values_rate)), "mse")
    return model, dnd


def data(seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(64, 5)).astype(np.float32), rng.normal(size=(64, 2)).astype(np.float32)


def test_fit_trains_the_network_the_keys_and_the_values():
    model, dnd = make_model()
    kernel, before = model.layers[1].kernel.numpy(), contents(dnd)
    losses = model.fit(*data(), epochs=5, verbose=0).history["loss"]
    after = contents(dnd)
    assert losses[-1] < losses[0]
    assert (model.layers[1].kernel.numpy() != kernel).any()
    assert (after["keys"] != before["keys"]).any()
    assert (after["values"] != before["values"]).any()
    assert int(model.optimizer.iterations) == 5 * 2


def test_the_memory_may_grow_between_epochs():
    model, dnd = make_model()
    model.fit(*data(), verbose=0)
    fill(dnd, 20, seed=1)
    model.fit(*data(), verbose=0)
    assert dnd.sizes.tolist() == [40, 40]


def test_the_network_moves_as_with_the_optimizer_alone():
    with_memory, dnd = make_model(tf.keras.optimizers.SGD(0.1), 0.0, 0.0)
    dense = with_memory.layers[1]
    images, targets = data()
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(dnd(dense(images)) - targets))
    expected = dense.kernel - 0.1 * tape.gradient(loss, dense.kernel)
    with_memory.fit(images, targets, batch_size=64, verbose=0)
    np.testing.assert_allclose(dense.kernel, expected, rtol=1e-4)


def test_its_learning_rate_is_that_of_the_network():
    model, _ = make_model(tf.keras.optimizers.SGD(0.25))
    assert float(model.optimizer.learning_rate) == pytest.approx(0.25)
