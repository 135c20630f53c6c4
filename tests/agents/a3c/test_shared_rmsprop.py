"""RMSProp with shared statistics against the paper's equation in NumPy."""

import threading

import numpy as np
import tensorflow as tf

from nec_tf.agents.a3c.shared_rmsprop import SharedRMSProp
from nec_tf.runtime.graphs import Graph


def test_updates_are_those_of_the_papers_equation():
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=shape) for shape in ((3, 2), (2,))]
    variables = [tf.Variable(weight, dtype=tf.float32) for weight in weights]
    optimizer = SharedRMSProp(variables, decay=0.9, epsilon=0.1)
    squares = [np.zeros_like(weight) for weight in weights]
    for rate in (0.1, 0.05, 0.0):
        gradients = [rng.normal(size=weight.shape) for weight in weights]
        optimizer.apply([tf.constant(g, tf.float32) for g in gradients], tf.constant(rate))
        for i, gradient in enumerate(gradients):
            squares[i] = 0.9 * squares[i] + 0.1 * gradient**2
            weights[i] = weights[i] - rate * gradient / np.sqrt(squares[i] + 0.1)
    for variable, weight in zip(variables, weights, strict=True):
        np.testing.assert_allclose(variable, weight, rtol=1e-5)
    for variable, square in zip(optimizer.mean_squares, squares, strict=True):
        np.testing.assert_allclose(variable, square, rtol=1e-5)


def test_no_update_of_several_threads_is_lost_and_readers_get_whole_matrices():
    """With decay 1 the statistics stay 0: each update subtracts exactly 1 from every weight."""
    variable = tf.Variable(tf.zeros([200, 200]))
    copies = [tf.Variable(variable) for _ in range(4)]
    optimizer = SharedRMSProp([variable], decay=1.0, epsilon=1.0)
    torn = []

    def work(copy):
        def update():
            optimizer.apply([tf.ones([200, 200])], tf.constant(1.0))
            copy.assign(variable)

        graph = Graph(update)
        for _ in range(200):
            graph()
            read = copy.numpy()
            torn.append(read.min() != read.max())

    threads = [threading.Thread(target=work, args=[copy]) for copy in copies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(variable, np.full([200, 200], -800.0))
    assert len(torn) == 800
    assert not any(torn)
