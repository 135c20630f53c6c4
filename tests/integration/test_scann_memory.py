"""A memory behind ScaNN answers as an exact one does, whatever happened to it."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from memories import contents, make_dnd

from nec_tf import RowRMSProp
from nec_tf.memory import dnd
from nec_tf.memory.neighbours import ExactIndex, scann_index

KEY_SIZE, P, CAPACITY = 8, 10, 1500


def clustered(count, seed):
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(100).normal(size=(30, KEY_SIZE))
    noise = 0.1 * rng.normal(size=(count, KEY_SIZE))
    return (centres[rng.integers(30, size=count)] + noise).astype(np.float32)


@pytest.fixture
def memory(monkeypatch):
    """A ScaNN memory with a tree from 300 keys on; the index gets moved keys 20 at a time."""
    monkeypatch.setattr(scann_index.ScannIndex, "refresh_after", 20)
    small_tree = functools.partial(scann_index.ScannIndex, tree_from=300)
    monkeypatch.setattr(
        dnd, "make_index", lambda backend, key_size, p, dtype: small_tree(key_size, p)
    )
    return make_dnd(
        key_size=KEY_SIZE, num_neighbours=P, capacity=CAPACITY, index="scann", dtype="float32"
    )


def write(memory, count, seed):
    rng = np.random.default_rng(seed)
    memory.write(rng.integers(2, size=count), clustered(count, seed), rng.normal(size=count))


def learn(memory, optimizer, steps, seed):
    for step in range(steps):
        queries = clustered(16, seed + step)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((memory.lookup(queries) - 1.0) ** 2)
        tables = memory.tables
        optimizer.apply(*tape.gradient(loss, [tables.keys, tables.values]))


def recall(memory, queries):
    """The part of the nearest live keys that the memory found."""
    tables = contents(memory)
    rows_in_use = np.arange(len(tables["actions"])) < tables["size"]
    found = memory.neighbours(queries).rows.numpy()
    hits = []
    for action in range(2):
        rows = np.flatnonzero(rows_in_use & (tables["actions"] == action))
        index = ExactIndex(KEY_SIZE)
        index.rebuild(tables["keys"][rows])
        true = rows[index.search(queries, P)]
        hits += [
            len(set(mine) & set(wanted))
            for mine, wanted in zip(found[:, action], true, strict=True)
        ]
    return np.mean(hits) / P


def test_recall_holds_through_writes_gradient_steps_and_evictions(memory):
    optimizer = RowRMSProp(memory, 0.02, 0.1)
    queries = clustered(50, seed=1000)
    write(memory, 200, seed=0)
    assert recall(memory, queries) == 1.0  # brute force
    for seed in range(1, 11):
        write(memory, 200, seed)
        assert recall(memory, queries) >= 0.95
    for seed in range(3):
        learn(memory, optimizer, 10, seed=2000 + 10 * seed)
        assert recall(memory, queries) >= 0.95
    for seed in range(11, 26):
        write(memory, 200, seed)
        assert recall(memory, queries) >= 0.95
    assert memory.sizes.tolist() == [CAPACITY, CAPACITY]


def test_an_overwritten_entry_is_found_under_its_new_key_only(memory):
    write(memory, 2 * CAPACITY + 1000, seed=0)
    assert memory.sizes.tolist() == [CAPACITY, CAPACITY]
    tables = contents(memory)
    rows = np.flatnonzero(tables["actions"][: tables["size"]] == 0)
    oldest = rows[np.argmin(tables["stamps"][rows])]
    old, new = tables["keys"][[oldest]], np.full((1, KEY_SIZE), 5.0)
    assert memory.neighbours(old, [0]).rows[0, 0, 0] == oldest
    memory.write([0], new, [0.0])
    assert memory.neighbours(new, [0]).rows[0, 0, 0] == oldest
    assert oldest not in memory.neighbours(old, [0]).rows.numpy()


def push(optimizer, rows, force):
    """Moves keys by about `force` in the same direction, one after the other."""
    for row in rows:
        optimizer.apply(
            tf.IndexedSlices(tf.fill([1, KEY_SIZE], -force), tf.constant([row])),
            tf.IndexedSlices(tf.zeros([1]), tf.constant([row])),
        )


def test_keys_beyond_the_tolerance_reach_the_index_and_others_do_not(memory, monkeypatch):
    sent = []
    move = scann_index.ScannIndex.move

    def note_and_move(index, slots, keys):
        sent.extend(slots)
        move(index, slots, keys)

    monkeypatch.setattr(scann_index.ScannIndex, "move", note_and_move)
    optimizer = RowRMSProp(memory, 1.0, 0.0, epsilon=1.0)
    write(memory, 1000, seed=0)
    rows = np.arange(1, 26)
    actions = memory.tables.actions.numpy()[rows]
    push(optimizer, rows, force=1e-5)
    memory.lookup(clustered(1, seed=1))
    assert sent == []
    push(optimizer, rows, force=10.0)
    keys = memory.tables.keys.numpy()[rows]
    assert memory.neighbours(keys, actions).rows[:, 0, 0].numpy().tolist() == rows.tolist()
    assert len(sent) == 25


def test_many_small_moves_reach_the_index_as_one_large_one_does(memory):
    optimizer = RowRMSProp(memory, 1.0, 0.0, decay=0.0, epsilon=1.0)
    write(memory, 1000, seed=0)
    rows = np.arange(1, 26)
    for _ in range(400):
        optimizer.apply(
            tf.IndexedSlices(tf.fill([25, KEY_SIZE], -0.01), tf.constant(rows)),
            tf.IndexedSlices(tf.zeros([25]), tf.constant(rows)),
        )
    keys = memory.tables.keys.numpy()[rows]
    actions = memory.tables.actions.numpy()[rows]
    assert memory.neighbours(keys, actions).rows[:, 0, 0].numpy().tolist() == rows.tolist()


def test_a_lagging_index_costs_recall_and_never_correctness(memory):
    write(memory, 1000, seed=0)
    old = memory.tables.keys.numpy()[[1]]
    push(RowRMSProp(memory, 1.0, 0.0), rows=[1], force=10.0)  # one alone: the index does not get it
    new, value = memory.tables.keys.numpy()[[1]], memory.tables.values.numpy()[1]
    action = memory.tables.actions.numpy()[[1]]
    assert memory._store.neighbours(old, action, 1)[0, 0, 0] == 1  # it is still thought to be here
    far = np.linalg.norm(new - old)
    found = memory.neighbours(old, action)
    place = np.flatnonzero(found.rows[0, 0] == 1)
    assert (np.diff(found.distances[0, 0]) >= 0).all()  # ranked by the live keys
    if len(place):
        np.testing.assert_allclose(found.distances[0, 0, place[0]], far, rtol=1e-5)
        assert found.values[0, 0, place[0]] == value
    else:
        assert found.distances[0, 0, -1] <= far
