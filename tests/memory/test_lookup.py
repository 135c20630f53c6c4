import numpy as np
import pytest
import reference
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from nec_tf.memory import kernels, lookup

NAMES = list(reference.KERNELS)
B, A, P, KEY_SIZE = 3, 2, 4, 3


def example(seed=0):
    """Queries, keys, values and who is present: all of them, some of them, none of them."""
    rng = np.random.default_rng(seed)
    present = np.ones((B, A, P), bool)
    present[1, :, 2:] = False
    present[2, 1] = False
    return (
        rng.normal(size=(B, KEY_SIZE)),
        rng.normal(size=(B, A, P, KEY_SIZE)),
        rng.normal(size=(B, A, P)),
        present,
    )


def weighted_sum(name, queries, keys, values, present):
    kernel = kernels.get(reference.CONFIGS[name])
    return lookup.weighted_sum(
        kernel, *(tf.constant(x, tf.float64) for x in (queries, keys, values)), tf.constant(present)
    )


def gradients(name, queries, keys, values, present, upstream, graph=False):
    """The gradients of `sum(upstream * output)` by queries, keys and values."""
    kernel = kernels.get(reference.CONFIGS[name])

    def differentiate(queries, keys, values):
        with tf.GradientTape() as tape:
            tape.watch([queries, keys, values])
            output = lookup.weighted_sum(kernel, queries, keys, values, tf.constant(present))
            loss = tf.reduce_sum(upstream * output)
        return tape.gradient(loss, [queries, keys, values])

    inputs = [tf.constant(x, tf.float64) for x in (queries, keys, values)]
    found = tf.function(differentiate)(*inputs) if graph else differentiate(*inputs)
    return [gradient.numpy() for gradient in found]


def test_squared_distances_are_those_of_the_reference():
    queries, keys, _, _ = example()
    d2 = lookup.squared_distances(tf.constant(queries), tf.constant(keys)).numpy()
    for b, a in np.ndindex(B, A):
        expected = reference.squared_distances(queries[b], keys[b, a])
        np.testing.assert_allclose(d2[b, a], expected, rtol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_the_output_is_that_of_the_reference(name):
    queries, keys, values, present = example()
    output = weighted_sum(name, queries, keys, values, present).numpy()
    for b, a in np.ndindex(B, A):
        there = present[b, a]
        expected = reference.lookup(name, queries[b], keys[b, a][there], values[b, a][there], P)
        np.testing.assert_allclose(output[b, a], expected, rtol=1e-12)


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_the_gradients_are_those_of_the_reference(name, graph):
    queries, keys, values, present = example()
    upstream = np.random.default_rng(1).normal(size=(B, A))
    expected = [np.zeros_like(x) for x in (queries, keys, values)]
    for b, a in np.ndindex(B, A):
        there = present[b, a]
        d_query, d_keys, d_values = reference.lookup_gradients(
            name, queries[b], keys[b, a][there], values[b, a][there], P
        )
        expected[0][b] += upstream[b, a] * d_query
        expected[1][b, a, there] = upstream[b, a] * d_keys
        expected[2][b, a, there] = upstream[b, a] * d_values
    found = gradients(name, queries, keys, values, present, upstream, graph)
    for gradient, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(gradient, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("argument", [0, 1, 2])
def test_the_gradients_are_those_of_finite_differences(name, argument):
    inputs = list(example())
    upstream = np.random.default_rng(1).normal(size=(B, A))

    def loss(x):
        changed = [*inputs[:argument], x, *inputs[argument + 1 :]]
        return float(tf.reduce_sum(upstream * weighted_sum(name, *changed)))

    expected = reference.finite_differences(lambda x: np.array(loss(x)), inputs[argument])
    found = gradients(name, *inputs, upstream)[argument]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_a_query_equal_to_a_key_has_finite_gradients_that_pull_no_key_at_distance_zero(name):
    queries, keys, values, present = example()
    keys[0, 0, 1] = queries[0]
    found = gradients(name, queries, keys, values, present, np.ones((B, A)))
    for gradient in found:
        assert np.isfinite(gradient).all()
    np.testing.assert_array_equal(found[1][0, 0, 1], 0)


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_memory_answers_zero_without_gradients(name):
    queries, keys, values, _ = example()
    none_present = np.zeros((B, A, P), bool)
    np.testing.assert_array_equal(weighted_sum(name, queries, keys, values, none_present), 0)
    for gradient in gradients(name, queries, keys, values, none_present, np.ones((B, A))):
        np.testing.assert_array_equal(gradient, 0)


@pytest.mark.parametrize("name", NAMES)
def test_neighbours_too_far_to_square_the_distance_leave_all_finite(name):
    kernel = kernels.get(name)
    queries, values = tf.zeros([1, 2]), tf.constant([[[1.0, 3.0]]])
    keys = tf.constant([[[[1e25, 0.0], [0.0, 1e25]]]])
    with tf.GradientTape() as tape:
        tape.watch([queries, keys, values])
        output = lookup.weighted_sum(kernel, queries, keys, values, tf.ones([1, 1, 2], bool))
    np.testing.assert_allclose(output, [[2.0]])
    for gradient in tape.gradient(output, [queries, keys, values]):
        assert np.isfinite(gradient).all()


numbers = st.floats(-100, 100)
query = hnp.arrays(np.float64, (1, KEY_SIZE), elements=numbers)
keys = hnp.arrays(np.float64, (1, 1, P, KEY_SIZE), elements=numbers)
values = hnp.arrays(np.float64, (1, 1, P), elements=numbers)
EVERYBODY = np.ones((1, 1, P), bool)


@pytest.mark.parametrize("name", NAMES)
@given(query=query, keys=keys, values=values)
def test_the_output_lies_between_the_values(name, query, keys, values):
    output = float(weighted_sum(name, query, keys, values, EVERYBODY)[0, 0])
    assert values.min() - 1e-9 <= output <= values.max() + 1e-9


@pytest.mark.parametrize("name", NAMES)
@given(query=query, keys=keys, values=values, order=st.permutations(range(P)))
def test_the_output_does_not_depend_on_the_order_of_the_neighbours(
    name, query, keys, values, order
):
    output = weighted_sum(name, query, keys, values, EVERYBODY)
    reordered = weighted_sum(name, query, keys[:, :, order], values[:, :, order], EVERYBODY)
    np.testing.assert_allclose(reordered, output, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
@given(query=query, keys=keys, values=values)
def test_the_gradients_by_the_values_are_weights_and_those_of_query_and_keys_cancel(
    name, query, keys, values
):
    d_query, d_keys, d_values = gradients(name, query, keys, values, EVERYBODY, np.ones((1, 1)))
    assert np.isclose(d_values.sum(), 1.0)
    # Moving the query and all keys together changes no distance.
    scale = 1 + np.abs(d_keys).max()
    np.testing.assert_allclose(d_query[0] + d_keys.sum(axis=(0, 1, 2)), 0, atol=1e-9 * scale)
