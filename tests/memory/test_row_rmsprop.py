import numpy as np
import pytest
import reference
import tensorflow as tf
from memories import assert_same_contents, contents, fill, make_dnd

from nec_tf import RowRMSProp

KEYS_RATE, VALUES_RATE, DECAY, EPSILON = 0.3, 0.2, 0.9, 0.05


def make(**arguments):
    dnd = make_dnd(**arguments)
    optimizer = RowRMSProp(dnd, KEYS_RATE, VALUES_RATE, DECAY, EPSILON)
    return dnd, optimizer


def slices(dnd, rows, seed=0):
    """Gradients of keys and values at the given rows, which may repeat."""
    rng = np.random.default_rng(seed)
    indices = tf.constant(rows, tf.int64)
    return (
        tf.IndexedSlices(tf.constant(rng.normal(size=(len(rows), dnd.key_size))), indices),
        tf.IndexedSlices(tf.constant(rng.normal(size=len(rows))), indices),
    )


def expected_step(before, keys_gradient, values_gradient):
    """Contents after one step of the NumPy RMSProp on the rows touched."""
    after = {name: column.copy() for name, column in before.items()}
    for name, gradient, rate in (
        ("keys", keys_gradient, KEYS_RATE),
        ("values", values_gradient, VALUES_RATE),
    ):
        total = np.zeros_like(before[name])
        np.add.at(total, gradient.indices.numpy(), gradient.values.numpy())
        for row in set(gradient.indices.numpy().tolist()):
            after[name][row], after[f"{name}_mean_square"][row] = reference.rmsprop(
                before[name][row],
                before[f"{name}_mean_square"][row],
                total[row],
                rate,
                DECAY,
                EPSILON,
            )
    return after


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("rows", [[3], [2, 7, 5], [4, 4, 1, 4, 1], []])
def test_steps_are_those_of_rmsprop_on_the_rows_touched_and_no_other(rows, graph):
    dnd, optimizer = make()
    fill(dnd, 5)
    apply = tf.function(optimizer.apply) if graph else optimizer.apply
    for seed in range(3):
        gradients = slices(dnd, rows, seed)
        before = contents(dnd)
        expected = expected_step(before, *gradients)
        apply(*gradients)
        after = contents(dnd)
        untouched = [row for row in range(int(before["size"])) if row not in rows]
        for name in ("keys", "values", "keys_mean_square", "values_mean_square"):
            np.testing.assert_allclose(after[name], expected[name], rtol=1e-12, err_msg=name)
            np.testing.assert_array_equal(after[name][untouched], before[name][untouched])
        for name in ("stamps", "state_ids", "actions", "size", "clock"):
            np.testing.assert_array_equal(after[name], before[name], err_msg=name)


def test_epsilon_stands_inside_the_root():
    dnd = make_dnd(key_size=1)
    dnd.write([0], [[0.0]], [0.0])
    RowRMSProp(dnd, 0.0, 1.0, decay=0.75, epsilon=0.25).apply(
        None, tf.IndexedSlices(tf.constant([3.0], tf.float64), tf.constant([1]))
    )
    assert float(dnd.tables.values[1]) == pytest.approx(-3.0 / np.sqrt(0.25 * 9 + 0.25))


def test_the_drift_is_the_length_of_the_way():
    dnd, optimizer = make()
    fill(dnd, 5)
    way = np.zeros(11)
    for seed in range(3):
        before = dnd.tables.keys.numpy()
        optimizer.apply(*slices(dnd, [2, 6, 2], seed))
        way += np.linalg.norm(dnd.tables.keys.numpy() - before, axis=1)[:11]
    np.testing.assert_allclose(dnd.tables.drift.numpy()[:11], way)


@pytest.mark.parametrize("graph", [False, True])
def test_the_index_finds_a_moved_key_at_its_new_place_and_not_at_the_old_one(graph):
    dnd, optimizer = make(key_size=1, num_actions=1, num_neighbours=1)
    dnd.write([0, 0], [[0.0], [1.0]], [0.0, 1.0])
    push = tf.IndexedSlices(tf.constant([[-50.0]], tf.float64), tf.constant([1]))
    still = tf.IndexedSlices(tf.constant([0.0], tf.float64), tf.constant([1]))
    apply = tf.function(optimizer.apply) if graph else optimizer.apply
    for _ in range(20):
        apply(push, still)
    place = dnd.tables.keys.numpy()[1]
    assert place[0] > 5
    assert dnd.neighbours([place]).rows.numpy().tolist() == [[[1]]]
    assert dnd.neighbours([[0.0]]).rows.numpy().tolist() == [[[2]]]


def test_a_new_entry_in_a_reused_row_starts_with_zero_moments():
    dnd, optimizer = make(capacity=3)
    fill(dnd, 3)
    optimizer.apply(*slices(dnd, [1, 2, 3, 4, 5, 6]))
    before = contents(dnd)
    dnd.write([0], [[9.0, 9.0, 9.0]], [1.0])  # takes row 1
    after = contents(dnd)
    np.testing.assert_array_equal(after["keys"][1], 9.0)
    for name in ("keys_mean_square", "values_mean_square"):
        np.testing.assert_array_equal(after[name][1], 0)
        assert (after[name][2:7] > 0).all()
        np.testing.assert_array_equal(after[name][2:7], before[name][2:7])


def test_new_rows_start_with_zero_moments_when_the_tables_grow():
    dnd, optimizer = make()
    fill(dnd, 3)
    optimizer.apply(*slices(dnd, [1, 2, 3, 4, 5, 6]))
    fill(dnd, 20, seed=1)
    for name in ("keys_mean_square", "values_mean_square"):
        moments = contents(dnd)[name]
        assert (moments[1:7] > 0).all()
        np.testing.assert_array_equal(moments[7:47], 0)


def test_an_updated_entry_keeps_its_moments():
    dnd, optimizer = make(recognise_by_key=False)
    dnd.write([0], [[1.0, 2.0, 3.0]], [0.0], [5])
    optimizer.apply(*slices(dnd, [1]))
    before = contents(dnd)
    dnd.write([0], [[3.0, 2.0, 1.0]], [1.0], [5])
    for name in ("keys_mean_square", "values_mean_square"):
        np.testing.assert_array_equal(contents(dnd)[name], before[name])


@pytest.mark.parametrize(
    ("rates", "still", "moving"), [((0.0, 0.1), "keys", "values"), ((0.1, 0.0), "values", "keys")]
)
def test_a_learning_rate_of_zero_has_no_moments_and_moves_nothing(rates, still, moving):
    dnd = make_dnd()
    fill(dnd, 3)
    optimizer = RowRMSProp(dnd, *rates)
    before = contents(dnd)
    assert f"{still}_mean_square" not in before
    assert f"{moving}_mean_square" in before
    optimizer.apply(*slices(dnd, [1, 4]))
    after = contents(dnd)
    np.testing.assert_array_equal(after[still], before[still])
    assert (after[moving][[1, 4]] != before[moving][[1, 4]]).all()


def test_two_learning_rates_of_zero_change_nothing():
    dnd = make_dnd()
    fill(dnd, 3)
    before = contents(dnd)
    RowRMSProp(dnd, 0.0, 0.0).apply(*slices(dnd, [1, 4]))
    assert_same_contents(before, contents(dnd))


@pytest.mark.parametrize("graph", [False, True])
def test_a_training_step_lowers_the_loss_and_touches_only_the_neighbours(graph):
    dnd, optimizer = make(num_neighbours=2)
    fill(dnd, 8)
    queries, actions = np.zeros((2, 3)), np.array([0, 1])
    targets = tf.constant([3.0, -3.0], tf.float64)

    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((dnd.lookup(queries, actions) - targets) ** 2)
        tables = dnd.tables
        optimizer.apply(*tape.gradient(loss, [tables.keys, tables.values]))
        return loss

    near = set(dnd.neighbours(queries, actions).rows.numpy().ravel().tolist())
    before = contents(dnd)
    step = tf.function(step) if graph else step
    first = float(step())
    after = contents(dnd)
    others = [row for row in range(17) if row not in near]
    for name in ("keys", "values", "keys_mean_square", "values_mean_square"):
        np.testing.assert_array_equal(after[name][others], before[name][others])
        assert (after[name][sorted(near)] != before[name][sorted(near)]).any()
    for _ in range(10):
        last = float(step())
    assert last < first


def test_a_gradient_that_names_the_empty_row_leaves_it_at_zero():
    dnd, optimizer = make(num_neighbours=10)
    fill(dnd, 2)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(dnd.lookup(np.zeros((2, 3))))
    gradients = tape.gradient(loss, [dnd.tables.keys, dnd.tables.values])
    assert 0 in gradients[0].indices.numpy()
    optimizer.apply(*gradients)
    tables = contents(dnd)
    for name in ("keys", "values", "keys_mean_square", "values_mean_square", "drift"):
        np.testing.assert_array_equal(tables[name][0], 0)


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("keys_learning_rate", -0.1),
        ("values_learning_rate", float("nan")),
        ("decay", 1.0),
        ("epsilon", 0.0),
    ],
)
def test_a_bad_setting_is_refused_by_name(name, bad):
    settings = {"keys_learning_rate": 0.1, "values_learning_rate": 0.1, name: bad}
    with pytest.raises(ValueError, match=name):
        RowRMSProp(make_dnd(), **settings)


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("column", ["keys", "values"])
def test_a_gradient_that_is_not_a_number_is_refused(column, graph):
    dnd, optimizer = make()
    fill(dnd, 5)
    before = contents(dnd)
    of_keys, of_values = slices(dnd, [1, 2])
    bad = of_keys if column == "keys" else of_values
    bad = tf.IndexedSlices(bad.values * float("nan"), bad.indices)
    apply = tf.function(optimizer.apply) if graph else optimizer.apply
    with pytest.raises(tf.errors.InvalidArgumentError, match=column):
        apply(*((bad, of_values) if column == "keys" else (of_keys, bad)))
    after = contents(dnd)
    np.testing.assert_array_equal(before[column], after[column])


@pytest.mark.parametrize("unit", [0.5, 300.0])
def test_values_in_another_unit_move_as_if_they_were_stored_in_it(unit):
    """Worked out by hand: u = v / unit has the gradient unit * dL/dv and the plain step."""
    dnd = make_dnd()
    optimizer = RowRMSProp(
        dnd, KEYS_RATE, VALUES_RATE, DECAY, EPSILON, tf.Variable(unit, dtype="float64")
    )
    fill(dnd, 5)
    keys_gradient, values_gradient = slices(dnd, [2, 7])
    before = contents(dnd)
    optimizer.apply(keys_gradient, values_gradient)
    after = contents(dnd)
    for row, gradient in zip([2, 7], values_gradient.values.numpy(), strict=True):
        moved, mean_square = reference.rmsprop(
            before["values"][row] / unit, 0.0, unit * gradient, VALUES_RATE, DECAY, EPSILON
        )
        np.testing.assert_allclose(after["values"][row], moved * unit, rtol=1e-9)
        np.testing.assert_allclose(after["values_mean_square"][row], mean_square, rtol=1e-9)
    plain, plain_optimizer = make()
    fill(plain, 5)
    plain_optimizer.apply(keys_gradient, values_gradient)
    np.testing.assert_array_equal(after["keys"], contents(plain)["keys"])  # keys are not concerned
