import dataclasses

import numpy as np
import pytest

from nec_tf.experiments.viewer import remembered
from nec_tf.experiments.viewer.remembered import Remembered
from nec_tf.memory.dnd import DifferentiableNeuralDictionary
from nec_tf.memory.entries import Entries


@pytest.fixture(scope="module")
def dnd():
    """Keys on a plane in eight dimensions, far longer one way than the other."""
    rng = np.random.default_rng(0)
    layer = DifferentiableNeuralDictionary(2, 8, num_neighbours=5, index="exact")
    keys = np.zeros((60, 8), np.float32)
    keys[:, 2], keys[:, 5] = 10 * rng.normal(size=60), rng.normal(size=60)
    layer.write(rng.integers(0, 2, 60), keys, rng.normal(size=60))
    return layer


def test_the_map_shows_the_two_directions_in_which_keys_differ_most(dnd):
    memory = Remembered(dnd.entries(), dnd.kernel, dnd.num_neighbours)
    assert memory.explained == pytest.approx(1.0)
    keys = memory.entries.keys
    np.testing.assert_allclose(
        np.linalg.norm(memory.coordinates[0] - memory.coordinates, axis=1),
        np.linalg.norm(keys[0] - keys, axis=1),
        rtol=1e-4,
        atol=1e-4,
    )
    spread = memory.coordinates.std(axis=0)
    assert spread[0] > 5 * spread[1]
    np.testing.assert_allclose(memory.project(keys[:3]), memory.coordinates[:3])


def test_the_neighbours_of_an_entry_are_those_of_its_layer_without_itself(dnd):
    memory = Remembered(dnd.entries(), dnd.kernel, 4)
    place = 7
    entries = memory.entries
    found = dnd.neighbours(entries.keys[[place]], entries.actions[[place]])
    near = memory.near(place)
    assert found.rows.numpy()[0, 0, 0] == entries.rows[place]
    np.testing.assert_array_equal(near.rows, found.rows.numpy()[0, 0, 1:])
    np.testing.assert_allclose(near.distances, found.distances.numpy()[0, 0, 1:], rtol=1e-4)
    assert near.weights.sum() == pytest.approx(1.0)
    assert (np.diff(near.weights) <= 0).all()


def test_rows_without_an_entry_have_no_place(dnd):
    memory = Remembered(dnd.entries(), dnd.kernel, 5)
    for place in (0, 20, 59):
        assert memory.place(int(memory.entries.rows[place])) == place
    for row in (0, -1, 10_000):
        assert memory.place(row) is None


def test_an_empty_memory_and_one_with_a_single_entry_have_a_map(dnd):
    empty = Remembered(Entries.empty(8), dnd.kernel, 5)
    assert empty.coordinates.shape == (0, 2)
    assert empty.place(0) is None
    first = dataclasses.asdict(dnd.entries())
    one = Remembered(Entries(**{name: c[:1] for name, c in first.items()}), dnd.kernel, 5)
    np.testing.assert_array_equal(one.coordinates, [[0.0, 0.0]])
    assert len(one.near(0).rows) == 0


def test_a_map_has_a_bounded_number_of_points(dnd, monkeypatch):
    monkeypatch.setattr(remembered, "MOST_ON_MAP", 25)
    memory = Remembered(dnd.entries(), dnd.kernel, 5)
    assert memory.on_map.tolist() == list(range(0, 60, 3))
    assert len(memory.coordinates) == 60
