import json

import numpy as np
import pytest
import reference
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from memories import assert_same_contents, contents, dense, fill, make_dnd

from nec_tf import DifferentiableNeuralDictionary, RowRMSProp

NAMES = list(reference.KERNELS)
P = 4
UPSTREAM = np.random.default_rng(7).normal(size=(6, 2))  # of every output in the loss below
GIVEN = np.array([0, 1, 1, 0, 0, 1])


def example(name="inverse_distance"):
    """A memory with 9 entries of action 0 and 3, fewer than p, of action 1; and queries.

    One query comes twice, one equals a key, and all share neighbours.
    """
    dnd = make_dnd(kernel=reference.CONFIGS[name], num_neighbours=P)
    rng = np.random.default_rng(0)
    keys = rng.normal(size=(12, 3))
    dnd.write(np.array([0] * 5 + [1] * 3 + [0] * 4), keys, rng.normal(size=12))
    queries = rng.normal(size=(6, 3))
    queries[3] = queries[0]
    queries[4] = keys[2]
    return dnd, queries


def test_a_memory_that_was_cleared_is_as_good_as_new():
    dnd, queries = example()
    dnd.clear()
    assert dnd.sizes.tolist() == [0, 0]
    np.testing.assert_array_equal(dnd(queries), 0.0)
    fresh = make_dnd(num_neighbours=P)
    keys = np.random.default_rng(1).normal(size=(6, 3))
    for memory in (dnd, fresh):
        memory.write([0, 1] * 3, keys, np.arange(6.0))
    np.testing.assert_allclose(dnd(queries), fresh(queries))


def memory_of(dnd, action):
    """The rows, keys and values of one action's memory, as the tables hold them."""
    tables = contents(dnd)
    used = np.arange(len(tables["actions"])) < tables["size"]
    rows = np.flatnonzero(used & (tables["actions"] == action))
    return rows, tables["keys"][rows], tables["values"][rows]


def expected_lookup(name, dnd, queries):
    memories = [memory_of(dnd, action) for action in range(dnd.num_actions)]
    return np.array(
        [
            [reference.lookup(name, q, keys, values, P) for _, keys, values in memories]
            for q in queries
        ]
    )


def maybe_graph(function, graph):
    return tf.function(function) if graph else function


both_modes = pytest.mark.parametrize("graph", [False, True], ids=["eager", "graph"])
all_kernels = pytest.mark.parametrize("name", NAMES)


# Lookup.


@both_modes
@all_kernels
def test_lookup_of_all_actions_is_that_of_the_reference(name, graph):
    dnd, queries = example(name)
    output = maybe_graph(dnd.lookup, graph)(tf.constant(queries))
    assert output.dtype == tf.float64
    np.testing.assert_allclose(output, expected_lookup(name, dnd, queries), rtol=1e-12)


@both_modes
@all_kernels
def test_lookup_of_given_actions_is_that_of_the_reference(name, graph):
    dnd, queries = example(name)
    output = maybe_graph(dnd.lookup, graph)(tf.constant(queries), tf.constant(GIVEN))
    expected = expected_lookup(name, dnd, queries)[np.arange(6), GIVEN]
    np.testing.assert_allclose(output, expected, rtol=1e-12)


@both_modes
@all_kernels
def test_the_neighbours_behind_an_answer_are_those_of_the_reference(name, graph):
    dnd, queries = example(name)
    found = maybe_graph(dnd.neighbours, graph)(tf.constant(queries))
    for b, a in np.ndindex(6, 2):
        rows, keys, values = memory_of(dnd, a)
        near = reference.nearest(queries[b], keys, P)
        count = len(near)
        assert found.rows[b, a, :count].numpy().tolist() == rows[near].tolist()
        distances = np.sqrt(reference.squared_distances(queries[b], keys[near]))
        np.testing.assert_allclose(found.distances[b, a, :count], distances, rtol=1e-12)
        weights = reference.weights(name, queries[b], keys[near])
        np.testing.assert_allclose(found.weights[b, a, :count], weights, rtol=1e-12)
        np.testing.assert_array_equal(found.values[b, a, :count], values[near])
        for part in found:
            np.testing.assert_array_equal(part[b, a, count:], 0)
    answers = np.sum(found.weights.numpy() * found.values.numpy(), axis=-1)
    np.testing.assert_allclose(answers, dnd.lookup(queries), rtol=1e-12)


def test_the_neighbours_of_given_actions_are_those_of_these_actions():
    dnd, queries = example()
    everybody, given_ones = dnd.neighbours(queries), dnd.neighbours(queries, GIVEN)
    for part, whole in zip(given_ones, everybody, strict=True):
        assert part.shape == [6, 1, P]
        np.testing.assert_array_equal(part[:, 0], whole.numpy()[np.arange(6), GIVEN])


def loss_of_all(dnd, queries):
    return tf.reduce_sum(UPSTREAM * dnd.lookup(queries, stamp=False))


def loss_of_given(dnd, queries):
    return tf.reduce_sum(UPSTREAM[:, 0] * dnd.lookup(queries, GIVEN, stamp=False))


LOSSES = {"all actions": loss_of_all, "given actions": loss_of_given}
both_losses = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


def gradients(loss, dnd, queries, graph):
    """The gradients of a loss by queries, keys and values, dense, rows in use only."""

    def differentiate(queries):
        with tf.GradientTape() as tape:
            tape.watch(queries)
            value = loss(dnd, queries)
        return tape.gradient(value, [queries, dnd.tables.keys, dnd.tables.values])

    d_queries, d_keys, d_values = maybe_graph(differentiate, graph)(tf.constant(queries))
    assert isinstance(d_keys, tf.IndexedSlices)
    assert isinstance(d_values, tf.IndexedSlices)
    size = int(dnd.tables.size)
    return d_queries.numpy(), dense(d_keys, size), dense(d_values, size)


@both_modes
@both_losses
@all_kernels
def test_all_three_gradients_are_those_of_the_reference(name, loss, graph):
    dnd, queries = example(name)
    expected = [np.zeros((6, 3)), np.zeros((13, 3)), np.zeros(13)]
    for b, a in np.ndindex(6, 2):
        if loss is loss_of_given and GIVEN[b] != a:
            continue
        upstream = UPSTREAM[b, a] if loss is loss_of_all else UPSTREAM[b, 0]
        rows, keys, values = memory_of(dnd, a)
        parts = reference.lookup_gradients(name, queries[b], keys, values, P)
        for total, places, part in zip(expected, (b, rows, rows), parts, strict=True):
            total[places] += upstream * part
    for found, wanted in zip(gradients(loss, dnd, queries, graph), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


@both_losses
@all_kernels
def test_all_three_gradients_are_those_of_finite_differences(name, loss):
    dnd, queries = example(name)
    tables = dnd.tables
    found = gradients(loss, dnd, queries, graph=False)
    size = int(tables.size)

    def loss_with(variable, content):
        variable.assign(tf.concat([content, variable[size:]], axis=0))
        return loss(dnd, queries).numpy()

    def differences(variable):
        content = variable.numpy()[:size]
        derivative = reference.finite_differences(lambda x: loss_with(variable, x), content)
        loss_with(variable, content)
        return derivative

    by_queries = reference.finite_differences(lambda x: loss(dnd, x).numpy(), queries)
    np.testing.assert_allclose(found[0], by_queries, rtol=1e-5, atol=1e-7)
    # The empty row is no entry: moving its key changes no lookup.
    np.testing.assert_allclose(found[1], differences(tables.keys), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(found[2], differences(tables.values), rtol=1e-5, atol=1e-7)


def test_a_training_gradient_names_no_row_of_another_action():
    dnd, queries = example()
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(dnd.lookup(queries, np.zeros(6, int)))
    gradient = tape.gradient(loss, dnd.tables.keys)
    assert set(gradient.indices.numpy()) <= set(memory_of(dnd, 0)[0])


@given(hnp.arrays(np.float64, (4, 3), elements=st.floats(-50, 50)))
def test_every_answer_lies_between_the_values_of_the_memory(queries):
    dnd, _ = example()
    output = dnd.lookup(queries).numpy()
    for action in range(2):
        values = memory_of(dnd, action)[2]
        assert (values.min() - 1e-9 <= output[:, action]).all()
        assert (output[:, action] <= values.max() + 1e-9).all()


def test_the_order_of_the_queries_does_not_matter():
    dnd, queries = example()
    order = [4, 2, 0, 5, 1, 3]
    np.testing.assert_array_equal(dnd.lookup(queries[order]), dnd.lookup(queries).numpy()[order])


# The edges.


@both_modes
def test_an_empty_memory_answers_zero_without_gradient(graph):
    dnd = make_dnd()
    queries = tf.ones([2, 3], tf.float64)

    def differentiate(queries):
        with tf.GradientTape() as tape:
            tape.watch(queries)
            output = dnd.lookup(queries)
        return output, tape.gradient(output, [queries, dnd.tables.keys, dnd.tables.values])

    output, (d_queries, d_keys, d_values) = maybe_graph(differentiate, graph)(queries)
    np.testing.assert_array_equal(output, np.zeros((2, 2)))
    np.testing.assert_array_equal(d_queries, np.zeros((2, 3)))
    np.testing.assert_array_equal(dense(d_keys, 1), 0)
    np.testing.assert_array_equal(dense(d_values, 1), 0)
    assert dnd.sizes.tolist() == [0, 0]


def test_an_empty_memory_beside_a_full_one_answers_zero():
    dnd = make_dnd()
    dnd.write([1], [[1.0, 2.0, 3.0]], [5.0])
    np.testing.assert_allclose(dnd.lookup(np.zeros((1, 3))), [[0.0, 5.0]])
    assert dnd.sizes.tolist() == [0, 1]


def test_a_query_equal_to_a_key_gets_nearly_but_not_only_its_value():
    dnd = make_dnd(num_actions=1, key_size=1)
    dnd.write([0, 0], [[0.0], [1.0]], [0.0, 1.0])
    expected = (1 / 1.001) / (1 / 1.001 + 1 / 0.001)
    np.testing.assert_allclose(dnd.lookup([[0.0]]), [[expected]])


def test_no_queries_have_no_answers():
    dnd, _ = example()
    assert dnd.lookup(np.zeros((0, 3))).shape == (0, 2)
    assert dnd.lookup(np.zeros((0, 3)), np.zeros(0, int)).shape == (0,)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8, np.uint64])
def test_actions_may_be_integers_of_any_kind(dtype):
    dnd = make_dnd()
    dnd.write(np.array([1], dtype), np.zeros((1, 3)), [2.0])
    np.testing.assert_allclose(dnd.lookup(np.zeros((1, 3)), np.array([1], dtype)), [2.0])


# A lookup is a use of the neighbours, unless it leaves no trace.


@both_modes
def test_a_lookup_stamps_its_neighbours_with_one_tick_and_no_other_row(graph):
    dnd, queries = example()
    before, clock = contents(dnd)["stamps"], int(dnd.tables.clock)
    near = np.unique(dnd.neighbours(queries[:1]).rows)
    maybe_graph(dnd.lookup, graph)(tf.constant(queries[:1]))
    after = contents(dnd)["stamps"]
    others = np.setdiff1d(np.arange(13), near)
    np.testing.assert_array_equal(after[near], clock)
    np.testing.assert_array_equal(after[others], before[others])
    assert int(dnd.tables.clock) == clock + 1


@both_modes
@pytest.mark.parametrize(
    "look",
    [
        lambda dnd, queries: dnd.neighbours(queries).values,
        lambda dnd, queries: dnd.lookup(queries, stamp=False),
        lambda dnd, queries: dnd(queries, training=False),
        lambda dnd, queries: dnd(queries, GIVEN, training=False),
    ],
    ids=["neighbours", "stamp=False", "training=False", "training=False, given"],
)
def test_what_leaves_no_trace_leaves_none(look, graph):
    dnd, queries = example()
    before = contents(dnd)
    maybe_graph(lambda queries: look(dnd, queries), graph)(tf.constant(queries))
    assert_same_contents(before, contents(dnd))


@pytest.mark.parametrize("training", [None, True])
def test_a_call_is_a_lookup(training):
    dnd, queries = example()
    clock = int(dnd.tables.clock)
    np.testing.assert_array_equal(dnd(queries, training=training), dnd.lookup(queries))
    np.testing.assert_array_equal(dnd(queries, GIVEN), dnd.lookup(queries, GIVEN))
    assert int(dnd.tables.clock) == clock + 4


# What cannot be right is refused by name, and the memory is unchanged.

NAN_KEYS, INF_KEYS = np.zeros((2, 3)), np.zeros((2, 3))
NAN_KEYS[1, 2], INF_KEYS[0, 0] = np.nan, -np.inf
GOOD_WRITE = {"actions": np.array([0, 1]), "keys": np.ones((2, 3)), "values": np.array([5.0, 6.0])}
BAD_WRITES = {
    "NaN key": {"keys": NAN_KEYS},
    "infinite key": {"keys": INF_KEYS},
    "key of the wrong size": {"keys": np.zeros((2, 4))},
    "keys without a batch": {"keys": np.zeros(3)},
    "too many keys": {"keys": np.zeros((3, 3))},
    "NaN value": {"values": np.array([0.0, np.nan])},
    "infinite value": {"values": np.array([np.inf, 0.0])},
    "too few values": {"values": np.array([0.0])},
    "values with a second axis": {"values": np.zeros((2, 1))},
    "no batch of values": {"values": np.array(0.0)},
    "unknown action": {"actions": np.array([0, 2])},
    "negative action": {"actions": np.array([-1, 0])},
    "actions with a second axis": {"actions": np.array([[0], [1]])},
    "no batch of actions": {"actions": np.array(0)},
}
BAD_WRITES_BY_ID = {
    "too few ids": {"state_ids": np.array([1])},
    "ids with a second axis": {"state_ids": np.array([[1], [2]])},
}
BAD_LOOKUPS = {
    "NaN query": {"queries": np.array([[0.0, 0.0, np.nan]])},
    "infinite query": {"queries": np.array([[np.inf, 0.0, 0.0]])},
    "unknown action": {"actions": np.array([2])},
    "negative action": {"actions": np.array([-1])},
    "too many actions": {"actions": np.array([0, 1])},
    "actions with a second axis": {"actions": np.array([[0]])},
}


def refused(function, arguments, changed, graph):
    """Calls with one argument changed and checks that the error names it."""
    [name] = changed
    error = tf.errors.InvalidArgumentError if graph else ValueError
    arguments = {key: tf.constant(value) for key, value in {**arguments, **changed}.items()}
    with pytest.raises(error, match=f"{name} must"):
        maybe_graph(function, graph)(**arguments)


@both_modes
@pytest.mark.parametrize("changed", BAD_WRITES.values(), ids=BAD_WRITES)
def test_a_bad_write_is_refused_and_changes_nothing(changed, graph):
    dnd, queries = example()
    before, answers = contents(dnd), dnd.lookup(queries, stamp=False)
    refused(dnd.write, GOOD_WRITE, changed, graph)
    assert_same_contents(before, contents(dnd))
    np.testing.assert_array_equal(dnd.lookup(queries, stamp=False), answers)
    assert int(dnd.write(**GOOD_WRITE)) == 0  # nothing of it is known


@both_modes
@pytest.mark.parametrize("changed", BAD_WRITES_BY_ID.values(), ids=BAD_WRITES_BY_ID)
def test_bad_state_ids_are_refused_and_change_nothing(changed, graph):
    dnd = make_dnd(recognise_by_key=False)
    good = {**GOOD_WRITE, "state_ids": np.array([3, 4])}
    dnd.write(**good)
    before = contents(dnd)
    refused(dnd.write, good, changed, graph)
    assert_same_contents(before, contents(dnd))


@both_modes
@pytest.mark.parametrize("changed", BAD_LOOKUPS.values(), ids=BAD_LOOKUPS)
def test_a_bad_lookup_is_refused_and_stamps_nothing(changed, graph):
    dnd, _ = example()
    before = contents(dnd)
    good = {"queries": np.zeros((1, 3)), "actions": np.array([0])}
    refused(dnd.lookup, good, changed, graph)
    refused(dnd.neighbours, good, changed, graph)
    assert_same_contents(before, contents(dnd))


@both_modes
@pytest.mark.parametrize("shape", [(2, 4), (3,), (2, 1, 3), (2, 1)])
def test_queries_of_the_wrong_shape_are_refused(shape, graph):
    dnd, _ = example()
    with pytest.raises(ValueError, match=r"queries must have the shape \[n, 3\]"):
        maybe_graph(dnd.lookup, graph)(tf.zeros(shape, tf.float64))


@pytest.mark.parametrize("spec", [None, [None, None]])
@pytest.mark.parametrize("shape", [(2, 4), (2, 1)])
def test_queries_whose_shape_is_known_only_when_the_graph_runs_are_refused_then(spec, shape):
    dnd, queries = example()
    lookup = tf.function(dnd.lookup, input_signature=[tf.TensorSpec(spec, tf.float64)])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"queries must have the shape"):
        lookup(tf.zeros(shape, tf.float64))
    np.testing.assert_array_equal(lookup(queries), dnd.lookup(queries))


@both_modes
@pytest.mark.parametrize("name", ["actions", "state_ids"])
@pytest.mark.parametrize("bad", [np.array([0.5, 1.0]), np.array([True, False]), ["a", "b"]])
def test_what_is_not_an_integer_is_refused_where_one_is_wanted(name, bad, graph):
    dnd = make_dnd(recognise_by_key=False)
    arguments = {**GOOD_WRITE, "state_ids": np.array([3, 4]), name: bad}
    before = contents(dnd)
    with pytest.raises(ValueError, match=f"{name} must be integers"):
        maybe_graph(lambda: dnd.write(**arguments), graph)()
    assert_same_contents(before, contents(dnd))


@both_modes
def test_state_ids_are_wanted_exactly_where_states_are_known_by_them(graph):
    by_key, by_id = make_dnd(), make_dnd(recognise_by_key=False)
    with pytest.raises(ValueError, match="state_ids must be left out"):
        maybe_graph(by_key.write, graph)(**GOOD_WRITE, state_ids=np.array([1, 2]))
    with pytest.raises(ValueError, match="state_ids must be given"):
        maybe_graph(by_id.write, graph)(**GOOD_WRITE)
    assert by_key.sizes.tolist() == by_id.sizes.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        *((name, bad) for name in ("num_actions", "key_size", "capacity") for bad in (0, -1, 2.5)),
        ("num_neighbours", 0),
        ("num_neighbours", "50"),
        ("alpha", 0.0),
        ("alpha", 1.1),
        ("alpha", float("nan")),
        ("kernel", "euclid"),
        ("kernel", None),
        ("kernel", {"name": "euclid"}),
        ("index", "faiss"),
    ],
)
def test_a_bad_argument_of_the_constructor_is_refused_by_name(name, bad):
    with pytest.raises(ValueError, match=f"{name} must be"):
        make_dnd(**{name: bad})


# Memory grows with what is stored.


def size_in_bytes(dnd):
    return sum(variable.numpy().nbytes for variable in dnd.tables.variables)


def test_a_large_capacity_costs_nothing_until_it_is_used():
    dnd = make_dnd(num_actions=18, key_size=64, capacity=500_000, dtype="float32")
    assert size_in_bytes(dnd) < 1000
    fill(dnd, 10)
    entry = 64 * 4 + 4 + 4 + 3 * 8  # key, value, drift, stamp, state, action
    assert size_in_bytes(dnd) <= 1.25 * (180 + 1) * entry + 16


def test_at_most_a_quarter_is_spare_however_the_memory_grew():
    dnd = make_dnd()
    rng = np.random.default_rng(0)
    for _ in range(60):
        count = rng.integers(1, 12)
        dnd.write(rng.integers(2, size=count), rng.normal(size=(count, 3)), np.zeros(count))
        assert dnd.tables.num_rows <= 1.25 * (1 + dnd.sizes.sum())


def test_states_that_are_known_or_repeated_take_no_room():
    dnd = make_dnd()
    for _ in range(2):
        dnd.write(np.zeros(1000, int), np.ones((1000, 3)), np.zeros(1000))
        assert dnd.tables.num_rows == 2


# As Keras layers are.


@all_kernels
def test_a_layer_is_made_again_from_its_configuration(name):
    dnd = DifferentiableNeuralDictionary(
        num_actions=3,
        key_size=5,
        capacity=7,
        num_neighbours=2,
        kernel=reference.CONFIGS[name],
        alpha=0.5,
        index="exact",
        recognise_by_key=False,
        name="memories",
        dtype="float64",
    )
    config = json.loads(json.dumps(dnd.get_config()))
    again = DifferentiableNeuralDictionary.from_config(config)
    assert again.get_config() == dnd.get_config()
    assert again.kernel == dnd.kernel
    assert again.name == "memories"
    assert again.dtype == "float64"
    for argument in ("num_actions", "key_size", "capacity", "num_neighbours", "alpha", "index"):
        assert getattr(again, argument) == getattr(dnd, argument)
    assert again.recognise_by_key is False


def test_the_defaults_are_the_papers():
    dnd = DifferentiableNeuralDictionary(num_actions=1, key_size=2)
    assert dnd.capacity == 500_000
    assert dnd.num_neighbours == 50
    assert dnd.get_config()["kernel"] == {"name": "inverse_distance", "delta": 1e-3}
    assert dnd.recognise_by_key is True


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_keys_values_and_answers_have_the_layers_dtype(dtype):
    dnd = make_dnd(dtype=dtype)
    dnd.write([0], [[0.1, 0.2, 0.3]], [0.7])
    assert dnd.tables.keys.dtype == dnd.tables.values.dtype == dtype
    output = dnd(np.zeros((2, 3)))
    assert output.dtype == dtype
    np.testing.assert_allclose(output[:, 0], np.full(2, 0.7), rtol=1e-6)
    for part in dnd.neighbours(np.zeros((2, 3)))[1:]:
        assert part.dtype == dtype


def test_lists_of_numbers_keep_all_digits_in_float64():
    dnd = make_dnd()
    dnd.write([0], [[0.1, 0.2, 0.3]], [0.7])
    assert dnd.tables.keys.numpy()[1].tolist() == [0.1, 0.2, 0.3]
    assert float(dnd.lookup([[0.1, 0.2, 0.3]])[0, 0]) == 0.7
    assert float(dnd.neighbours([[0.1, 0.2, 0.3]]).distances[0, 0, 0]) == 0.0


def test_mixed_precision_keeps_keys_and_values_in_float32():
    dnd = make_dnd(dtype="mixed_float16")
    dnd.write([0], [[0.1, 0.2, 0.3]], [1234.5])
    output = dnd(np.zeros((1, 3), np.float32))
    assert output.dtype == tf.float32
    np.testing.assert_allclose(output, [[1234.5, 0.0]])


def test_keys_and_values_are_the_trainable_weights():
    dnd = make_dnd()
    assert {v.ref() for v in dnd.trainable_weights} == {
        dnd.tables.keys.ref(),
        dnd.tables.values.ref(),
    }
    dnd.trainable = False
    assert dnd.trainable_weights == []


def test_the_layer_stands_in_a_functional_model_and_passes_gradients_on():
    inputs = tf.keras.Input([5])
    embedding = tf.keras.layers.Dense(3)
    dnd = make_dnd(dtype="float32")
    model = tf.keras.Model(inputs, dnd(embedding(inputs)))
    assert model.output_shape == (None, 2)
    fill(dnd, 6)
    x = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
    with tf.GradientTape() as tape:
        output = model(x, training=True)
        loss = tf.reduce_sum(output**2)
    np.testing.assert_array_equal(output, dnd.lookup(embedding(x)))
    for gradient in tape.gradient(loss, model.trainable_weights):
        assert np.abs(tf.convert_to_tensor(gradient)).sum() > 0


def test_a_functional_model_may_give_the_actions():
    queries, actions = tf.keras.Input([3]), tf.keras.Input([], dtype=tf.int64)
    dnd = make_dnd(dtype="float32")
    model = tf.keras.Model([queries, actions], dnd(queries, actions))
    assert model.output_shape == (None,)
    fill(dnd, 6)
    x = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    given_actions = np.array([0, 1, 1, 0])
    np.testing.assert_array_equal(model([x, given_actions]), dnd.lookup(x, given_actions))


def test_a_prediction_of_a_model_leaves_no_trace_and_training_does():
    inputs = tf.keras.Input([3])
    dnd = make_dnd(dtype="float32")
    model = tf.keras.Model(inputs, dnd(inputs))
    fill(dnd, 6)
    x = np.zeros((4, 3), np.float32)
    before = contents(dnd)
    model.predict(x, verbose=0)
    model(x, training=False)
    assert_same_contents(before, contents(dnd))
    model(x, training=True)
    assert int(dnd.tables.clock) == before["clock"] + 1


def test_the_output_shape_is_told_in_advance():
    assert make_dnd().compute_output_shape(tf.TensorShape([None, 3])) == [None, 2]
    lookup = tf.function(make_dnd().lookup)
    spec = tf.TensorSpec([None, 3], tf.float64)
    assert lookup.get_concrete_function(spec).output_shapes == [None, 2]
    actions = tf.TensorSpec([None], tf.int64)
    assert lookup.get_concrete_function(spec, actions).output_shapes == [None]


# Inside one graph, calls keep their order.


def waits_for(operation):
    """All operations that have to be done before this one starts."""
    found, ahead = set(), [operation]
    while ahead:
        current = ahead.pop()
        before = [tensor.op for tensor in current.inputs] + list(current.control_inputs)
        ahead.extend(op for op in before if op not in found)
        found.update(before)
    return found


def test_a_write_waits_for_the_lookup_before_it():
    dnd = make_dnd()

    def look_and_write(keys, values):
        output = dnd.lookup(keys)
        dnd.write(tf.constant([0]), keys, values)
        return output

    traced = tf.function(look_and_write).get_concrete_function(
        tf.TensorSpec([1, 3], tf.float64), tf.TensorSpec([1], tf.float64)
    )
    operations = traced.graph.get_operations()
    write = [op for op in operations if op.type == "EagerPyFunc"][-1]
    gathers = [op for op in operations if op.type == "ResourceGather"]
    assert len(gathers) == 2
    assert set(gathers) <= waits_for(write)


def test_a_lookup_waits_for_the_gradient_step_before_it():
    dnd = make_dnd()
    optimizer = RowRMSProp(dnd, 0.1, 0.1)

    def step_and_look(queries):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(dnd.lookup(queries))
        tables = dnd.tables
        optimizer.apply(*tape.gradient(loss, [tables.keys, tables.values]))
        return dnd.lookup(queries)

    traced = tf.function(step_and_look).get_concrete_function(tf.TensorSpec([1, 3], tf.float64))
    operations = traced.graph.get_operations()
    look = [op for op in operations if op.type == "EagerPyFunc"][-1]
    *scatters, last = [op for op in operations if op.type.startswith("ResourceScatter")]
    assert len(scatters) == 6  # a stamp, two columns, two moments, the drift
    assert set(scatters) <= waits_for(look)
    assert look in waits_for(last)  # the stamp of this lookup


def test_writes_and_lookups_of_one_graph_happen_one_after_the_other():
    dnd = make_dnd(num_actions=1, key_size=1, capacity=1)

    @tf.function
    def play(key, value):
        dnd.write([0], key, value)
        first = dnd.lookup(key)
        dnd.write([0], key + 0.5, value + 100)
        return first, dnd.lookup(key)

    for i in range(20):
        key, value = tf.constant([[float(i)]], tf.float64), tf.constant([float(i)], tf.float64)
        first, second = play(key, value)
        assert float(first[0, 0]) == i
        assert float(second[0, 0]) == i + 100


def test_a_loop_inside_a_graph_writes_and_looks_up_in_order():
    dnd = make_dnd(num_actions=1, key_size=1, num_neighbours=3)

    @tf.function
    def play():
        total = tf.zeros([], tf.float64)
        for i in tf.range(5):
            value = tf.cast(i, tf.float64)
            dnd.write([0], tf.reshape(value, [1, 1]), tf.reshape(value, [1]))
            total += dnd.lookup(tf.reshape(value, [1, 1]))[0, 0]
        return total

    alone, expected = make_dnd(num_actions=1, key_size=1, num_neighbours=3), 0.0
    for i in range(5):
        alone.write([0], [[float(i)]], [float(i)])
        expected += float(alone.lookup([[float(i)]])[0, 0])
    np.testing.assert_allclose(play(), expected)
    assert dnd.sizes.tolist() == [5]


def test_weights_that_are_set_are_what_is_looked_up():
    dnd, queries = example()
    other = make_dnd(num_neighbours=P)
    fill(other, 6, seed=3)
    other(queries)  # has an index of what it held before
    other.set_weights(dnd.get_weights())
    np.testing.assert_allclose(other(queries), dnd(queries), rtol=1e-12)
    np.testing.assert_array_equal(other.sizes, dnd.sizes)


def test_a_checkpoint_of_more_actions_is_refused(tmp_path):
    dnd = make_dnd(num_actions=3)
    fill(dnd, 4)
    path = tf.train.Checkpoint(dnd=dnd).write(str(tmp_path / "three"))
    smaller = make_dnd(num_actions=2)
    tf.train.Checkpoint(dnd=smaller).read(path)
    for _ in range(2):  # it stays refused
        with pytest.raises(ValueError, match="action 2, but the layer has num_actions=2"):
            smaller(np.zeros((1, 3)))


@pytest.mark.parametrize("index", ["exact", "scann"])
def test_answers_to_candidates_asked_for_before_are_those_of_a_lookup(index):
    dnd = make_dnd(index=index, dtype="float32")
    fill(dnd, 60)
    queries = tf.constant(np.random.default_rng(1).normal(size=(4, dnd.key_size)), tf.float32)
    near = dnd.candidates(queries)
    assert near.shape[:2] == (4, dnd.num_actions)
    whole = tf.function(lambda q: dnd.lookup(q, stamp=False))(queries)
    parts = tf.function(lambda q, n: dnd.lookup_from_candidates(q, n, stamp=False))(queries, near)
    np.testing.assert_array_equal(whole, parts)
    before = int(dnd.tables.clock)
    dnd.lookup_from_candidates(queries, tf.constant(near))
    assert int(dnd.tables.clock) == before + 1
