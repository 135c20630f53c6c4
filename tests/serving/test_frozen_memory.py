import numpy as np
import pytest
import reference
import tensorflow as tf
from memories import fill, make_dnd

from nec_tf.networks.encoders import mlp
from nec_tf.serving.frozen_memory import (
    FrozenMemory,
    FrozenNetwork,
    exact_memory,
    inverted_file,
)


def uneven(**arguments):
    """A memory of three actions with many entries, with fewer than p, and with none."""
    dnd = make_dnd(num_actions=3, **arguments)
    rng = np.random.default_rng(0)
    actions = np.array([0] * 60 + [1] * 2)
    rng.shuffle(actions)
    dnd.write(actions, 5.0 + rng.normal(size=(62, 3)), rng.normal(size=62))
    return dnd, 5.0 + rng.normal(size=(7, 3))


@pytest.mark.parametrize("kernel", reference.CONFIGS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_it_answers_as_the_layer_that_it_was_made_of(kernel, dtype):
    dnd, queries = uneven(kernel=reference.CONFIGS[kernel], dtype=dtype)
    queries = queries.astype(dtype)
    frozen = exact_memory(dnd)
    tolerance = 1e-4 if dtype == "float32" else 1e-9
    np.testing.assert_allclose(frozen(queries), dnd(queries), rtol=tolerance, atol=tolerance)
    assert (frozen(queries).numpy()[:, 2] == 0).all()


def test_its_neighbours_are_those_of_the_layer_by_the_layers_rows():
    dnd, queries = uneven()
    mine, theirs = exact_memory(dnd).neighbours(queries), dnd.neighbours(queries)
    np.testing.assert_array_equal(mine.rows, theirs.rows)
    for field in ("distances", "weights", "values"):
        np.testing.assert_allclose(getattr(mine, field), getattr(theirs, field), atol=1e-9)


def test_it_stays_as_it_was_when_the_layer_goes_on():
    dnd, queries = uneven()
    frozen = exact_memory(dnd)
    before = frozen(queries).numpy()
    fill(dnd, 20)
    np.testing.assert_array_equal(frozen(queries), before)


def test_an_empty_memory_answers_zero():
    np.testing.assert_array_equal(exact_memory(make_dnd())(np.zeros((2, 3))), np.zeros((2, 2)))


def test_its_graph_has_no_python_inside():
    dnd, _ = uneven(dtype="float32", index="scann")
    network = FrozenNetwork(mlp((5,), 3), exact_memory(dnd))
    graph = tf.function(network).get_concrete_function(tf.TensorSpec([None, 5])).graph
    assert not {op.type for op in graph.get_operations()} & {"EagerPyFunc", "PyFunc"}
    keys, q = network(np.ones((2, 5), np.float32))
    np.testing.assert_allclose(q, dnd(keys), rtol=1e-4, atol=1e-4)


def test_an_inverted_file_of_all_blocks_answers_as_the_layer_too():
    dnd, queries = uneven()
    entries = dnd.entries()
    search = inverted_file(entries, dnd.num_actions, 10)
    frozen = FrozenMemory(entries, search, dnd.kernel, dnd.num_neighbours)
    np.testing.assert_allclose(frozen(queries), dnd(queries), rtol=1e-9)
    np.testing.assert_array_equal(frozen.neighbours(queries).rows, dnd.neighbours(queries).rows)
