import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from memories import assert_same_contents, contents, entries, make_dnd

from nec_tf.memory.writing import move_by

ALPHA = 0.25


def make(**arguments):
    defaults = {"num_actions": 2, "key_size": 1, "alpha": ALPHA, "num_neighbours": 2}
    return make_dnd(**{**defaults, **arguments})


def write(dnd, *triples):
    """Writes (action, key, value) triples in one batch; returns how many states were known."""
    actions, keys, values = zip(*triples, strict=True)
    return int(dnd.write(list(actions), np.array(keys)[:, None], np.array(values)))


def test_moving_by_alpha_is_equation_4():
    assert move_by(0.25)(8.0, 16.0) == 10.0
    assert move_by(1.0)(8.0, 16.0) == 16.0


def test_new_states_are_appended_to_the_memory_of_their_action():
    dnd = make()
    assert write(dnd, (0, 1.0, 10.0), (1, 2.0, 20.0), (0, 3.0, 30.0)) == 0
    assert entries(dnd) == [[((1.0,), 10.0), ((3.0,), 30.0)], [((2.0,), 20.0)]]
    assert dnd.sizes.tolist() == [2, 1]


def test_the_value_of_a_known_state_moves_by_alpha():
    dnd = make()
    write(dnd, (0, 1.0, 8.0))
    assert write(dnd, (0, 1.0, 16.0)) == 1
    assert entries(dnd) == [[((1.0,), 10.0)], []]


def test_the_same_key_of_another_action_is_another_entry():
    dnd = make()
    write(dnd, (0, 1.0, 8.0))
    assert write(dnd, (1, 1.0, 16.0)) == 0
    assert entries(dnd) == [[((1.0,), 8.0)], [((1.0,), 16.0)]]


def test_zero_and_minus_zero_are_the_same_key():
    dnd = make()
    write(dnd, (0, 0.0, 8.0))
    assert write(dnd, (0, -0.0, 16.0)) == 1


def test_a_state_known_by_its_id_takes_the_new_key():
    dnd = make(recognise_by_key=False)
    dnd.write([0, 0], [[1.0], [2.0]], [8.0, 0.0], [77, 88])
    assert int(dnd.write([0], [[5.0]], [16.0], [77])) == 1
    assert entries(dnd)[0] == [((5.0,), 10.0), ((2.0,), 0.0)]
    assert dnd.neighbours([[5.0]], [0]).rows[0, 0, 0] == 1
    assert dnd.neighbours([[1.0]], [0]).rows[0, 0, 0] == 2


def test_by_id_the_same_key_may_stand_for_two_states():
    dnd = make(recognise_by_key=False)
    assert int(dnd.write([0, 0], [[1.0], [1.0]], [8.0, 4.0], [77, 88])) == 0
    assert entries(dnd)[0] == [((1.0,), 8.0), ((1.0,), 4.0)]


def test_a_state_twice_in_one_batch_is_appended_and_then_updated():
    dnd = make()
    assert write(dnd, (0, 1.0, 8.0), (0, 1.0, 16.0), (0, 1.0, 18.0)) == 2
    assert entries(dnd) == [[((1.0,), 12.0)], []]


def test_a_full_memory_overwrites_the_oldest_entry_and_the_others_memory_is_left_alone():
    dnd = make(capacity=2)
    write(dnd, (1, 9.0, 9.0), (0, 1.0, 1.0), (0, 2.0, 2.0))
    assert write(dnd, (0, 3.0, 3.0)) == 0
    assert entries(dnd) == [[((3.0,), 3.0), ((2.0,), 2.0)], [((9.0,), 9.0)]]


def test_an_update_keeps_an_entry_from_eviction():
    dnd = make(capacity=2)
    write(dnd, (0, 1.0, 1.0), (0, 2.0, 2.0))
    write(dnd, (0, 1.0, 1.0))
    write(dnd, (0, 3.0, 3.0))
    assert entries(dnd)[0] == [((1.0,), 1.0), ((3.0,), 3.0)]


def test_being_a_neighbour_keeps_an_entry_from_eviction():
    dnd = make(capacity=3, num_neighbours=1)
    write(dnd, (0, 1.0, 1.0), (0, 2.0, 2.0), (0, 3.0, 3.0))
    dnd.lookup([[1.1]])
    write(dnd, (0, 4.0, 4.0))
    assert [key for (key,), _ in entries(dnd)[0]] == [1.0, 4.0, 3.0]


def test_an_evicted_state_is_forgotten():
    dnd = make(capacity=1)
    write(dnd, (0, 1.0, 1.0))
    write(dnd, (0, 2.0, 2.0))
    assert write(dnd, (0, 1.0, 5.0)) == 0
    assert entries(dnd)[0] == [((1.0,), 5.0)]


def test_with_capacity_one_each_new_state_takes_the_place_of_the_last():
    dnd = make(capacity=1)
    assert write(dnd, (0, 1.0, 8.0), (0, 2.0, 2.0), (0, 1.0, 8.0), (0, 1.0, 16.0)) == 1
    assert entries(dnd)[0] == [((1.0,), 10.0)]
    assert dnd.lookup([[0.0]])[0, 0] == 10.0
    assert dnd.sizes.tolist() == [1, 0]


def test_a_batch_larger_than_the_capacity_leaves_its_last_entries():
    dnd = make(capacity=3)
    write(dnd, *((0, float(i), float(i)) for i in range(11)))
    assert sorted(entries(dnd)[0]) == [((8.0,), 8.0), ((9.0,), 9.0), ((10.0,), 10.0)]
    assert dnd.neighbours([[0.0]], [0]).values[0, 0].numpy().tolist() == [8.0, 9.0]


def test_a_state_evicted_and_written_again_in_one_batch_starts_anew():
    dnd = make(capacity=2)
    write(dnd, (0, 1.0, 8.0))
    assert write(dnd, (0, 2.0, 0.0), (0, 3.0, 0.0), (0, 1.0, 16.0)) == 0
    assert sorted(entries(dnd)[0]) == [((1.0,), 16.0), ((3.0,), 0.0)]


writes = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 5).map(float), st.integers(-8, 8).map(float)),
    min_size=1,
    max_size=14,
)


@pytest.mark.parametrize("recognise_by_key", [True, False])
@settings(max_examples=15)
@given(batches=st.lists(writes, min_size=1, max_size=3), capacity=st.integers(1, 4))
def test_a_batch_does_what_its_entries_do_one_after_the_other(recognise_by_key, batches, capacity):
    together, alone = (make(capacity=capacity, recognise_by_key=recognise_by_key) for _ in range(2))
    for batch in batches:
        known = 0
        for action, key, value in batch:
            ids = None if recognise_by_key else [int(key) % 3]
            known += int(alone.write([action], [[key]], [value], ids))
        actions, keys, values = (np.array(column) for column in zip(*batch, strict=True))
        ids = None if recognise_by_key else keys.astype(np.int64) % 3
        assert int(together.write(actions, keys[:, None], values, ids)) == known
        used = slice(int(together.tables.size))
        for name, column in contents(together).items():
            expected = contents(alone)[name]
            if column.ndim:  # spare rows may differ
                column, expected = column[used], expected[used]
            np.testing.assert_array_equal(column, expected, err_msg=name)
        queries = np.arange(6.0)[:, None]
        np.testing.assert_array_equal(
            alone.neighbours(queries).rows, together.neighbours(queries).rows
        )


def test_an_empty_batch_changes_nothing():
    dnd = make()
    write(dnd, (0, 1.0, 8.0))
    before = contents(dnd)
    assert int(dnd.write([], np.empty((0, 1)), [])) == 0
    assert_same_contents(before, contents(dnd))


def test_rows_of_actions_that_fill_up_beside_each_other_do_not_mix():
    dnd = make(num_actions=3, capacity=4)
    rng = np.random.default_rng(0)
    for _ in range(30):
        actions = rng.integers(3, size=5)
        dnd.write(actions, rng.normal(size=(5, 1)), actions.astype(float))
    tables = contents(dnd)
    assert int(tables["size"]) == 1 + 3 * 4
    np.testing.assert_array_equal(tables["values"][1:13], tables["actions"][1:13])
    np.testing.assert_allclose(dnd.lookup(rng.normal(size=(4, 1))), [[0, 1, 2]] * 4)


def test_a_memory_restored_from_one_of_larger_capacity_still_takes_writes(tmp_path):
    large, small = make(capacity=10), make(capacity=3)
    write(large, *((0, float(i), 0.0) for i in range(8)))
    tf.train.Checkpoint(dnd=large).write(tmp_path / "checkpoint")
    tf.train.Checkpoint(dnd=small).read(tmp_path / "checkpoint")
    write(small, *((1, float(i), 1.0) for i in range(3)), (0, 100.0, 5.0))
    assert small.sizes.tolist() == [8, 3]
    assert ((100.0,), 5.0) in entries(small)[0]
