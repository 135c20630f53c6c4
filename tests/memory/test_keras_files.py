"""Keras models that contain a memory: `.keras` files, and optimizers that cannot train it."""

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from memories import contents, fill, make_dnd

from nec_tf import RowRMSProp, WithMemory

LOAD = """
import sys
import numpy as np
import tensorflow as tf
import nec_tf.memory.dnd
model = tf.keras.models.load_model(sys.argv[1])
np.save(sys.argv[2], model(np.load(sys.argv[3]), training=False))
"""


def make_model(**arguments):
    dnd = make_dnd(dtype="float32", **arguments)
    fill(dnd, 20)
    inputs = tf.keras.Input((5,))
    return tf.keras.Model(inputs, dnd(tf.keras.layers.Dense(3)(inputs))), dnd


def data():
    rng = np.random.default_rng(0)
    return rng.normal(size=(8, 5)).astype(np.float32), rng.normal(size=(8, 2)).astype(np.float32)


def test_a_fresh_process_loads_a_keras_file_without_custom_objects(tmp_path):
    model, _ = make_model(kernel={"name": "gaussian", "sigma": 2.0}, keep_larger=True)
    inputs, _ = data()
    np.save(tmp_path / "inputs.npy", inputs)
    model.save(tmp_path / "model.keras")
    files = [str(tmp_path / name) for name in ("model.keras", "outputs.npy", "inputs.npy")]
    subprocess.run([sys.executable, "-c", LOAD, *files], check=True)
    np.testing.assert_allclose(
        np.load(tmp_path / "outputs.npy"), model(inputs, training=False), rtol=1e-5
    )


def test_a_trained_model_is_saved_uncompiled_and_trains_on_after_loading(tmp_path):
    model, dnd = make_model()
    model.compile(WithMemory("adam", RowRMSProp(dnd, 0.1, 0.1)), "mse")
    model.fit(*data(), verbose=0)
    with pytest.raises(NotImplementedError, match=r"tf\.keras\.Model\(model\.inputs"):
        model.save(tmp_path / "compiled.keras")
    tf.keras.Model(model.inputs, model.outputs).save(tmp_path / "model.keras")
    loaded = tf.keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded(data()[0]), model(data()[0]), rtol=1e-5)
    memory = loaded.layers[-1]
    loaded.compile(WithMemory("adam", RowRMSProp(memory, 0.1, 0.1)), "mse")
    before = contents(memory)["values"]
    loaded.fit(*data(), verbose=0)
    assert (contents(memory)["values"] != before).any()


@pytest.mark.parametrize(
    "optimizer",
    ["adam", "sgd", "rmsprop", tf.keras.optimizers.legacy.Adam(0.1)],
    ids=["adam", "sgd", "rmsprop", "legacy adam"],
)
def test_an_optimizer_of_keras_alone_is_an_error_that_names_with_memory(optimizer):
    model, _ = make_model()
    model.compile(optimizer, "mse")
    with pytest.raises(ValueError, match=r"compile the model with nec_tf\.WithMemory"):
        model.fit(*data(), verbose=0)


def test_an_optimizer_of_keras_alone_trains_the_network_if_the_memory_is_not_trainable():
    model, dnd = make_model()
    dnd.trainable = False
    kernel, before = model.layers[1].kernel.numpy(), contents(dnd)["values"]
    model.compile("adam", "mse")
    model.fit(*data(), verbose=0)
    assert (model.layers[1].kernel.numpy() != kernel).any()
    np.testing.assert_array_equal(contents(dnd)["values"], before)
