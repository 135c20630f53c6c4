from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tensorflow as tf
from tf_agents.trajectories import time_step as ts

from nec_tf.runtime.graphs import Graph, to_numpy


def test_nests_of_arrays_go_in_and_nests_of_tensors_come_out():
    graph = Graph(lambda step, more: {"sum": step.reward + more[0], "step": step})
    step = ts.TimeStep(*(np.full(2, value, np.float32) for value in range(4)))
    answer = to_numpy(graph(step, [np.array([10.0, 20.0], np.float32)]))
    np.testing.assert_array_equal(answer["sum"], [11.0, 21.0])
    np.testing.assert_array_equal(answer["step"].observation, [3.0, 3.0])


def test_it_is_traced_once_and_runs_at_every_call():
    traced, count = [], tf.Variable(0)

    def function(number):
        traced.append(number)
        return count.assign_add(number)

    graph = Graph(function)
    assert [int(graph(np.int32(2))) for _ in range(3)] == [2, 4, 6]
    assert len(traced) == 1


def test_rows_of_a_gradient_pass_in_both_directions():
    table = tf.Variable(np.arange(6.0).reshape(3, 2))

    def gradient(rows):
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(tf.gather(table, rows) ** 2)
        return tape.gradient(total, table)

    slices = Graph(gradient)(np.array([2, 0]))
    assert isinstance(slices, tf.IndexedSlices)
    dense = Graph(lambda given: tf.convert_to_tensor(given))(slices)
    np.testing.assert_array_equal(dense, [[0, 2], [0, 0], [8, 10]])


def test_what_returns_nothing_still_runs():
    count = tf.Variable(0)
    graph = Graph(lambda by: [count.assign_add(by), None][1])
    graph(np.int32(3))
    graph(np.int32(4))
    assert int(count) == 7


def test_threads_share_one_trace():
    traced = []
    graph = Graph(lambda x: [traced.append(x), x + 1][1])
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda x: int(graph(np.int64(x))), range(40)))
    assert answers == list(range(1, 41))
    assert len(traced) == 1
