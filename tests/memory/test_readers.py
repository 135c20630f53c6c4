"""While a thread reads the memory, everything that would change it raises and changes nothing."""

import threading

import numpy as np
import pytest
import tensorflow as tf
from memories import assert_same_contents, contents, fill, make_dnd

from nec_tf import RowRMSProp
from nec_tf.memory.neighbours import ExactIndex

QUERY = np.zeros((1, 3))


def write(dnd, tmp_path):
    dnd.write([0], np.ones((1, 3)), [1.0])


def load_entries(dnd, tmp_path):
    dnd.load_entries(dnd.entries())


def clear(dnd, tmp_path):
    dnd.clear()


def train(dnd, tmp_path):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(dnd.lookup(QUERY, stamp=False))
    gradients = tape.gradient(loss, [dnd.tables.keys, dnd.tables.values])
    dnd.optimizer.apply(*gradients)


def set_weights(dnd, tmp_path):
    dnd.set_weights(dnd.get_weights())


def load_own_variables(dnd, tmp_path):
    store = {}
    dnd.save_own_variables(store)
    dnd.load_own_variables(store)


def restore(dnd, tmp_path):
    other = make_memory()
    fill(other, 7, seed=5)
    path = tf.train.Checkpoint(dnd=other).save(str(tmp_path / "other"))
    tf.train.Checkpoint(dnd=dnd).restore(path)


CHANGES = [write, load_entries, clear, train, set_weights, load_own_variables, restore]


def make_memory(**arguments):
    dnd = make_dnd(**arguments)
    fill(dnd, 6)
    dnd.optimizer = RowRMSProp(dnd, 0.1, 0.1)
    return dnd


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_while_a_thread_reads_raises_and_leaves_the_memory_as_it_is(change, tmp_path):
    dnd = make_memory()
    before, answer = contents(dnd), dnd(QUERY, training=False).numpy()
    dnd.begin_reading()
    with pytest.raises(RuntimeError, match=r"1 update\(s\) read it: wait"):
        change(dnd, tmp_path)
    assert_same_contents(before, contents(dnd))
    np.testing.assert_array_equal(dnd(QUERY, training=False), answer)
    dnd.end_reading()
    change(dnd, tmp_path)
    dnd(QUERY)


def test_moved_keys_are_not_registered_while_a_thread_reads():
    dnd = make_memory()
    rows, distances = tf.constant([1], tf.int64), tf.constant([0.5], tf.float64)
    dnd.begin_reading()
    with pytest.raises(RuntimeError, match="cannot change"):
        dnd.keys_moved(rows, distances)
    dnd.end_reading()
    dnd.keys_moved(rows, distances)


def test_frozen_keys_do_not_let_values_change_while_a_thread_reads(tmp_path):
    dnd = make_dnd()
    fill(dnd, 6)
    dnd.optimizer = RowRMSProp(dnd, 0.0, 0.1)
    before = contents(dnd)
    dnd.begin_reading()
    with pytest.raises(RuntimeError, match="cannot change"):
        train(dnd, tmp_path)
    assert_same_contents(before, contents(dnd))


@pytest.mark.parametrize("change", [write, train])
def test_inside_a_graph_a_change_raises_as_well(change, tmp_path):
    dnd = make_memory()
    run = tf.function(lambda: change(dnd, tmp_path))
    run()
    dnd.begin_reading()
    before = contents(dnd)
    with pytest.raises(tf.errors.UnknownError, match=r"RuntimeError.*cannot change"):
        run()
    assert_same_contents(before, contents(dnd))
    dnd.end_reading()
    run()


def test_an_index_with_moved_keys_is_synchronised_before_a_thread_reads():
    """Were it synchronised by the lookup of the reader, the index would change while it reads."""
    dnd = make_memory()
    row = int(dnd.neighbours(QUERY, [0]).rows[0, 0, 0])
    far = np.full((1, 3), 50.0)
    dnd.tables.put(dnd.tables.keys, np.array([row]), far)
    dnd.keys_moved(tf.constant([row], tf.int64), tf.constant([80.0], tf.float64))
    dnd.begin_reading()
    assert int(dnd.neighbours(far, [0]).rows[0, 0, 0]) == row
    dnd.end_reading()


def test_a_synchronisation_with_pending_moves_raises_while_a_thread_reads(monkeypatch):
    monkeypatch.setattr(ExactIndex, "refresh_after", 2)
    dnd = make_memory()
    dnd.keys_moved(tf.constant([1], tf.int64), tf.constant([1.0], tf.float64))
    dnd.begin_reading()
    monkeypatch.setattr(ExactIndex, "refresh_after", 1)
    with pytest.raises(RuntimeError, match="cannot change"):
        dnd.sync()
    dnd.end_reading()
    dnd.sync()


def test_acting_may_stamp_neighbours_while_updates_read():
    dnd = make_memory()
    clock = int(dnd.tables.clock)
    dnd.begin_reading()
    dnd(QUERY)
    assert int(dnd.tables.clock) == clock + 1


def test_two_threads_that_read_are_counted():
    dnd = make_memory()
    both_read, first_may_end, second_may_end = (
        threading.Barrier(3),
        threading.Event(),
        threading.Event(),
    )

    def read(may_end):
        dnd.begin_reading()
        both_read.wait(30)
        may_end.wait(30)
        dnd.end_reading()

    threads = [threading.Thread(target=read, args=[e]) for e in (first_may_end, second_may_end)]
    for thread in threads:
        thread.start()
    both_read.wait(30)
    with pytest.raises(RuntimeError, match=r"2 update\(s\)"):
        write(dnd, None)
    first_may_end.set()
    threads[0].join()
    with pytest.raises(RuntimeError, match=r"1 update\(s\)"):
        write(dnd, None)
    second_may_end.set()
    threads[1].join()
    write(dnd, None)
    assert dnd.sizes.tolist() == [7, 6]


def test_many_threads_at_once_leave_no_reader_behind():
    dnd = make_memory()

    def read_often():
        for _ in range(2_000):
            dnd.begin_reading()
            dnd.end_reading()

    threads = [threading.Thread(target=read_often) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    write(dnd, None)


def test_an_end_without_a_beginning_is_an_error():
    with pytest.raises(RuntimeError, match="more often than begin_reading"):
        make_dnd().end_reading()
