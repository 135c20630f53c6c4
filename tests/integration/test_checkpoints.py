import numpy as np
import pytest
import tensorflow as tf
from memories import assert_same_contents, contents, fill, make_dnd

from nec_tf import RowRMSProp

CAPACITY = 12


class Learner:
    """A memory and its optimizer, played with random numbers of a seed."""

    def __init__(self, recognise_by_key=True, rates=(0.1, 0.1), index="exact", **arguments):
        self.dnd = make_dnd(
            capacity=CAPACITY, recognise_by_key=recognise_by_key, index=index, **arguments
        )
        self.optimizer = RowRMSProp(self.dnd, *rates)

    @property
    def checkpoint(self):
        return tf.train.Checkpoint(dnd=self.dnd)

    def play(self, seed, rounds=5):
        """Writes new and known states, looks up, learns; returns all that it saw."""
        rng = np.random.default_rng(seed)
        seen = []
        for _ in range(rounds):
            actions = rng.integers(2, size=6)
            # Some keys are on a grid and come again; some are as gradients have left them.
            keys = rng.integers(2, size=(6, 3)).astype(float)
            stored = self.dnd.tables.keys.numpy()
            keys[0] = stored[rng.integers(int(self.dnd.tables.size))]
            ids = None if self.dnd.recognise_by_key else rng.integers(40, size=6)
            seen.append(int(self.dnd.write(actions, keys, rng.normal(size=6), ids)))
            queries = rng.normal(size=(3, 3))
            with tf.GradientTape() as tape:
                output = self.dnd.lookup(queries)
                loss = tf.reduce_sum(output**2)
            tables = self.dnd.tables
            self.optimizer.apply(*tape.gradient(loss, [tables.keys, tables.values]))
            seen.extend(output.numpy().ravel().tolist())
            seen.extend(self.dnd.neighbours(queries).rows.numpy().ravel().tolist())
        return seen


def in_use(dnd):
    """The contents without spare rows and without what only the exact index needs to catch up."""
    tables = contents(dnd)
    size = int(tables["size"])
    derived = ("drift", "state_ids") if dnd.recognise_by_key else ("drift",)
    return {
        name: column[:size] if column.ndim else column
        for name, column in tables.items()
        if name not in derived
    }


@pytest.mark.parametrize("recognise_by_key", [True, False])
@pytest.mark.parametrize("used", [False, True], ids=["fresh", "used"])
def test_a_restored_layer_is_the_same_and_goes_on_in_the_same_way(recognise_by_key, used, tmp_path):
    original, restored = Learner(recognise_by_key), Learner(recognise_by_key)
    original.play(seed=1, rounds=8)
    if used:
        restored.play(seed=2, rounds=7)
        restored.dnd.lookup(np.ones((1, 3)))
    path = original.checkpoint.save(tmp_path / "checkpoint")
    restored.checkpoint.restore(path).assert_consumed()
    assert_same_contents(contents(original.dnd), contents(restored.dnd))
    assert restored.dnd.sizes.tolist() == original.dnd.sizes.tolist() == [CAPACITY, CAPACITY]
    assert restored.play(seed=3) == original.play(seed=3)
    assert_same_contents(in_use(original.dnd), in_use(restored.dnd))


def test_a_key_moved_just_before_the_checkpoint_is_recognised_after_it(tmp_path):
    original, restored = Learner(), Learner()
    original.dnd.write([0], [[1.0, 2.0, 3.0]], [0.0])
    rows = tf.constant([1])
    original.optimizer.apply(
        tf.IndexedSlices(tf.ones([1, 3], tf.float64), rows),
        tf.IndexedSlices(tf.ones([1], tf.float64), rows),
    )
    moved = original.dnd.tables.keys.numpy()[1:2]
    restored.checkpoint.restore(original.checkpoint.save(tmp_path / "checkpoint"))
    assert int(restored.dnd.write([0], moved, [1.0])) == 1
    assert int(restored.dnd.write([0], [[1.0, 2.0, 3.0]], [1.0])) == 0


def test_saving_changes_nothing(tmp_path):
    learner = Learner()
    learner.play(seed=1)
    before = contents(learner.dnd)
    learner.checkpoint.save(tmp_path / "checkpoint")
    assert_same_contents(before, contents(learner.dnd))


def test_an_empty_memory_is_restored_over_a_full_one(tmp_path):
    empty, full = Learner(), Learner()
    full.play(seed=1)
    full.checkpoint.restore(empty.checkpoint.save(tmp_path / "checkpoint"))
    assert full.dnd.sizes.tolist() == [0, 0]
    np.testing.assert_array_equal(full.dnd.lookup(np.ones((1, 3))), 0)
    assert full.play(seed=2) == empty.play(seed=2)


def test_a_graph_traced_before_the_restore_sees_what_was_restored(tmp_path):
    original, restored = Learner(), Learner()
    original.play(seed=1)
    restored.play(seed=2)
    lookup = tf.function(restored.dnd.lookup)
    queries = tf.constant(np.random.default_rng(0).normal(size=(4, 3)))
    lookup(queries)
    restored.checkpoint.restore(original.checkpoint.save(tmp_path / "checkpoint"))
    np.testing.assert_array_equal(lookup(queries), original.dnd.lookup(queries))


def test_a_checkpoint_without_moments_goes_into_a_layer_that_learns(tmp_path):
    plain = make_dnd()
    fill(plain, 10)
    path = tf.train.Checkpoint(dnd=plain).save(tmp_path / "checkpoint")
    learner = Learner()
    learner.checkpoint.restore(path).expect_partial()
    learner.play(seed=1)
    assert learner.dnd.sizes.tolist() == [CAPACITY, CAPACITY]


@pytest.mark.parametrize("rates", [(0.0, 0.1), (0.1, 0.0)])
def test_a_checkpoint_goes_into_a_layer_that_learns_only_keys_or_only_values(rates, tmp_path):
    original, restored = Learner(), Learner(rates=rates)
    original.play(seed=1)
    restored.checkpoint.restore(original.checkpoint.save(tmp_path / "c")).expect_partial()
    mine, theirs = contents(restored.dnd), contents(original.dnd)
    assert_same_contents(mine, {name: theirs[name] for name in mine})
    assert any(name.endswith("mean_square") for name in mine)
    restored.play(seed=2)


def test_a_checkpoint_of_the_optimizer_brings_the_memory_with_it(tmp_path):
    original, restored = Learner(), Learner()
    original.play(seed=1)
    path = tf.train.Checkpoint(optimizer=original.optimizer).save(tmp_path / "checkpoint")
    tf.train.Checkpoint(optimizer=restored.optimizer).restore(path).assert_consumed()
    assert restored.play(seed=3) == original.play(seed=3)


def model_around(dnd):
    inputs = tf.keras.Input([3], dtype=tf.float64)
    embedding = tf.keras.layers.Dense(3, dtype=tf.float64)
    return tf.keras.Model(inputs, dnd(embedding(inputs)))


@pytest.mark.parametrize("file", ["weights", "model.weights.h5"], ids=["TensorFlow", "Keras"])
@pytest.mark.parametrize("used", [False, True], ids=["fresh", "used"])
def test_the_weights_of_a_model_hold_the_memory(file, used, tmp_path):
    original, restored = Learner(), Learner()
    models = [model_around(learner.dnd) for learner in (original, restored)]
    original.play(seed=1)
    if used:
        restored.play(seed=2)
    models[0].save_weights(tmp_path / file)
    models[1].load_weights(tmp_path / file)
    x = np.random.default_rng(0).normal(size=(4, 3))
    np.testing.assert_array_equal(models[0](x, training=False), models[1](x, training=False))
    assert restored.play(seed=3) == original.play(seed=3)


def test_a_model_in_keras_own_format_holds_the_memory(tmp_path):
    dnd = make_dnd()
    fill(dnd, 10)
    model = model_around(dnd)
    model.save(tmp_path / "model.keras")
    loaded = tf.keras.models.load_model(
        tmp_path / "model.keras", custom_objects={type(dnd).__name__: type(dnd)}
    )
    x = np.random.default_rng(0).normal(size=(4, 3))
    np.testing.assert_array_equal(loaded(x, training=False), model(x, training=False))


def test_a_scann_memory_is_restored_with_an_index_of_what_it_holds(tmp_path):
    original, restored = (make_dnd(index="scann", dtype="float32") for _ in range(2))
    fill(original, 60)
    fill(restored, 40, seed=1)
    path = tf.train.Checkpoint(dnd=original).save(tmp_path / "checkpoint")
    tf.train.Checkpoint(dnd=restored).restore(path)
    queries = np.random.default_rng(2).normal(size=(10, 3)).astype(np.float32)
    np.testing.assert_array_equal(
        restored.neighbours(queries).rows, original.neighbours(queries).rows
    )
    np.testing.assert_array_equal(restored.lookup(queries), original.lookup(queries))
