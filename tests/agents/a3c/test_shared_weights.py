"""Weights in shared memory: the same update as TensorFlow's, and visible to other processes."""

import multiprocessing

import numpy as np
import tensorflow as tf

from nec_tf.agents.a3c.config import A3cConfig
from nec_tf.agents.a3c.shared_rmsprop import SharedRMSProp
from nec_tf.agents.a3c.shared_weights import SharedWeights

SIZE = 70_000  # more than two blocks


def test_updates_are_those_of_tensorflows_rmsprop_and_the_learning_rate_falls():
    config = A3cConfig(learning_rate=0.1, annealing_steps=20, rmsprop_decay=0.9)
    rng = np.random.default_rng(0)
    shared = SharedWeights(multiprocessing.get_context("spawn"), SIZE)
    shared.weights[:] = rng.normal(size=SIZE)
    variable = tf.Variable(shared.weights)
    optimizer = SharedRMSProp([variable], 0.9, config.rmsprop_epsilon)
    for rate in (0.1, 0.075, 0.05):
        gradient = rng.normal(size=SIZE).astype(np.float32)
        optimizer.apply([tf.constant(gradient)], tf.constant(rate))
        shared.apply(gradient, 5, config)
    np.testing.assert_allclose(shared.weights, variable, atol=1e-6)
    np.testing.assert_allclose(shared.mean_squares, optimizer.mean_squares[0], rtol=1e-5)
    assert shared.steps_and_updates == (15, 3)


def test_updates_of_several_processes_meet():
    """With decay 1 the mean squares stay 0: each update subtracts exactly 1 from every weight."""
    config = A3cConfig(learning_rate=1.0, rmsprop_decay=1.0, rmsprop_epsilon=1.0)
    context = multiprocessing.get_context("spawn")
    shared = SharedWeights(context, SIZE)
    gradient = np.ones(SIZE, np.float32)
    processes = [context.Process(target=shared.apply, args=(gradient, 1, config)) for _ in "ab"]
    for process in processes:
        process.start()
        process.join()  # one after the other: at the same time an update may be lost
    np.testing.assert_allclose(shared.weights, -2.0, rtol=1e-6)
    assert shared.steps_and_updates == (2, 2)
