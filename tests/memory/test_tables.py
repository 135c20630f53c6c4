import numpy as np
import pytest
import tensorflow as tf

from nec_tf.memory.tables import EMPTY_ROW, Tables

KEY_SIZE = 2
COLUMNS = ("keys", "values", "stamps", "state_ids", "actions", "drift")


def filled(rows):
    """Tables whose rows in use hold their own number in every column."""
    tables = Tables(KEY_SIZE, tf.float64)
    tables.reserve(rows)
    numbers = np.arange(1, rows)
    for name in COLUMNS:
        content = np.stack([numbers] * KEY_SIZE, axis=1) if name == "keys" else numbers
        tables.put(getattr(tables, name), numbers, content)
    tables.size.assign(rows)
    return tables


def test_empty_tables_hold_only_the_empty_row():
    tables = Tables(KEY_SIZE, tf.float32)
    assert tables.num_rows == int(tables.size) == 1
    assert int(tables.clock) == 0
    assert tables.read(tables.keys, np.array([EMPTY_ROW])).tolist() == [[0, 0]]
    assert tables.read(tables.values, np.array([EMPTY_ROW])).tolist() == [0]
    assert tables.read(tables.actions, np.array([EMPTY_ROW])).tolist() == [-1]


def test_only_keys_and_values_are_trainable():
    tables = Tables(KEY_SIZE, tf.float32)
    assert {v.ref() for v in tables.trainable_variables} == {
        tables.keys.ref(),
        tables.values.ref(),
    }


def test_keys_values_and_drift_have_the_dtype_asked_for():
    tables = Tables(KEY_SIZE, tf.float64)
    assert tables.keys.dtype == tables.values.dtype == tables.drift.dtype == tf.float64


def test_growing_keeps_every_column_of_every_row():
    tables = filled(10)
    tables.reserve(1000)
    rows = np.arange(1, 10)
    for name in COLUMNS:
        content = tables.read(getattr(tables, name), rows)
        np.testing.assert_array_equal(content.reshape(9, -1)[:, 0], rows, err_msg=name)
    assert tables.read(tables.actions, np.array([EMPTY_ROW])).tolist() == [-1]
    assert int(tables.size) == 10


def test_room_that_is_there_is_not_made_again():
    tables = filled(10)
    rows = tables.num_rows
    tables.reserve(5)
    assert tables.num_rows == rows


def test_all_columns_have_equally_many_rows_after_growing():
    tables = filled(10)
    scratch = tables.add_scratch_like(tables.keys, "moments")
    for rows in (11, 12, 40, 41):
        tables.reserve(rows)
        columns = [getattr(tables, name) for name in COLUMNS] + [scratch]
        assert {len(column.numpy()) for column in columns} == {tables.num_rows}


def test_growing_row_by_row_never_has_more_than_a_quarter_spare_and_seldom_copies():
    tables = Tables(KEY_SIZE, tf.float32)
    growths = 0
    for rows in range(2, 600):
        before = tables.num_rows
        tables.reserve(rows)
        growths += tables.num_rows != before
        assert rows <= tables.num_rows <= 1.25 * rows
    assert growths < 40


def test_a_scratch_column_starts_at_zero_with_all_rows():
    tables = filled(10)
    scratch = tables.add_scratch_like(tables.keys, "moments")
    np.testing.assert_array_equal(scratch.numpy(), np.zeros((tables.num_rows, KEY_SIZE)))
    assert not scratch.trainable


def test_a_second_column_of_the_same_name_is_refused():
    tables = filled(3)
    tables.add_scratch_like(tables.keys, "moments")
    with pytest.raises(ValueError, match="there is already a column"):
        tables.add_scratch_like(tables.values, "moments")


def test_clearing_scratch_sets_just_these_rows_to_zero():
    tables = filled(5)
    scratch = tables.add_scratch_like(tables.values, "moments")
    tables.put(scratch, np.arange(5), np.ones(5))
    tables.clear_scratch(np.array([2, 4]))
    assert scratch.numpy().tolist() == [1, 1, 0, 1, 0]
    assert tables.drift.numpy().tolist() == [0, 1, 0, 3, 0]
    assert tables.values.numpy().tolist() == [0, 1, 2, 3, 4]


def test_resizing_gives_a_short_scratch_column_all_rows_and_leaves_the_others():
    tables = filled(5)
    scratch = tables.add_scratch_like(tables.values, "moments")
    scratch.assign([7.0])
    tables.resize_scratch()
    assert scratch.numpy().tolist() == [0] * tables.num_rows
    assert tables.drift.numpy()[:5].tolist() == [0, 1, 2, 3, 4]


def test_stamps_are_the_time_before_the_clock_ticks():
    tables = filled(5)
    tables.clock.assign(10)
    tables.stamp(tf.constant([[1, 3], [3, 1]], tf.int64))
    tables.stamp(tf.constant([4], tf.int64))
    assert tables.stamps.numpy()[[1, 3, 4]].tolist() == [10, 10, 11]
    assert int(tables.clock) == 12


def test_reading_a_row_that_is_not_there_is_an_error():
    with pytest.raises(tf.errors.InvalidArgumentError):
        filled(5).read(filled(5).values, np.array([1000]))


def test_a_checkpoint_finds_scratch_columns_by_name_whatever_their_order(tmp_path):
    tables = filled(4)
    for name in ("first", "second"):
        tables.add_scratch_like(tables.values, name)
    tables.put(tables.by_name()["second"], np.arange(4), np.full(4, 2.0))
    path = tf.train.Checkpoint(tables=tables).save(tmp_path / "checkpoint")
    restored = Tables(KEY_SIZE, tf.float64)
    second = restored.add_scratch_like(restored.values, "second")
    tf.train.Checkpoint(tables=restored).restore(path).expect_partial()
    assert second.numpy().tolist() == [2, 2, 2, 2]
