"""Checkpoints hold the trees of the indices, which are then not trained again."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from nec_tf import DifferentiableNeuralDictionary
from nec_tf.memory.neighbours import scann_index
from nec_tf.memory.saved_trees import SavedTrees

KEY_SIZE, ENTRIES = 8, 4_200  # above `scann_index.TREE_FROM`


def keys(seed, count=ENTRIES):
    return np.random.default_rng(seed).normal(size=(count, KEY_SIZE)).astype(np.float32)


def layer():
    return DifferentiableNeuralDictionary(2, KEY_SIZE, capacity=10_000, num_neighbours=10)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A layer whose first action has a tree and whose second has not, and its checkpoint."""
    dnd = layer()
    dnd.write(np.zeros(ENTRIES, int), keys(0), np.arange(ENTRIES))
    dnd.write(np.ones(50, int), keys(1, 50), np.arange(50))
    path = str(tmp_path_factory.mktemp("checkpoint") / "model")
    return dnd, tf.train.Checkpoint(dnd=dnd).write(path)


def count_trainings(monkeypatch):
    trainings = []
    build = scann_index._build
    monkeypatch.setattr(
        scann_index, "_build", lambda *given: trainings.append(bool(given[2])) or build(*given)
    )
    return trainings


def test_a_restored_memory_answers_the_same_without_training_a_tree(saved, monkeypatch):
    dnd, path = saved
    restored = layer()
    restored.write([0], keys(3, 1), [1.0])
    trainings = count_trainings(monkeypatch)
    tf.train.Checkpoint(dnd=restored).read(path).assert_existing_objects_matched()
    queries = keys(2, 100)
    np.testing.assert_array_equal(restored.candidates(queries), dnd.candidates(queries))
    np.testing.assert_array_equal(restored.lookup(queries), dnd.lookup(queries))
    assert not any(trainings)
    assert restored.sizes.tolist() == [ENTRIES, 50]


def test_the_trees_belong_to_one_restore_only(saved, monkeypatch):
    dnd, path = saved
    restored = layer()
    tf.train.Checkpoint(dnd=restored).read(path)
    others = dataclasses.replace(dnd.entries(), keys=keys(4, ENTRIES + 50))
    restored.load_entries(others)
    trainings = count_trainings(monkeypatch)
    found = restored.candidates(others.keys[:100])[:, 0, 0]
    assert np.mean(found == others.rows[:100]) > 0.95
    assert any(trainings)


def test_a_checkpoint_from_before_trees_were_saved_is_restored(saved, monkeypatch, tmp_path):
    dnd, _ = saved
    monkeypatch.setattr(SavedTrees, "serialize", lambda self: "nec_tf memory, format 1")
    path = tf.train.Checkpoint(dnd=dnd).write(str(tmp_path / "old"))
    restored = layer()
    trainings = count_trainings(monkeypatch)
    tf.train.Checkpoint(dnd=restored).read(path).assert_existing_objects_matched()
    assert restored.sizes.tolist() == [ENTRIES, 50]
    assert any(trainings)
