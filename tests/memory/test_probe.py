import numpy as np
import pytest

from nec_tf.memory import probe
from nec_tf.memory.dnd import DifferentiableNeuralDictionary


def memory(index, count=6_000):
    rng = np.random.default_rng(3)
    dnd = DifferentiableNeuralDictionary(
        2, 8, capacity=5_000, num_neighbours=10, index=index, recognise_by_key=False
    )
    keys = rng.normal(size=(count, 8)).astype(np.float32)
    dnd.write(np.arange(count) % 2, keys, np.zeros(count, np.float32), np.arange(count))
    return dnd


@pytest.mark.parametrize("index", ["exact", "scann"])
def test_a_healthy_memory_is_left_alone(index):
    assert probe.damaged_indices(memory(index), seed=1) == {}


def test_an_empty_memory_is_healthy():
    assert probe.damaged_indices(DifferentiableNeuralDictionary(2, 3), seed=1) == {}


@pytest.mark.parametrize("index", ["exact", "scann"])
def test_equal_keys_are_no_damage(index):
    dnd = DifferentiableNeuralDictionary(
        1, 3, num_neighbours=5, index=index, recognise_by_key=False
    )
    dnd.write(np.zeros(50, int), np.ones((50, 3)), np.zeros(50), np.arange(50))
    assert probe.damaged_indices(dnd, seed=1) == {}


@pytest.mark.parametrize("index", ["exact", "scann"])
def test_a_damaged_index_is_found_and_rebuilt(index):
    dnd = memory(index)
    healthy = dnd.indices[1]
    healthy.rebuild(np.random.default_rng(4).normal(size=(len(healthy), 8)).astype(np.float32))
    damaged = probe.damaged_indices(dnd, seed=1)
    assert [*damaged] == [1]
    assert damaged[1] < 0.5
    probe.repair(dnd, damaged)
    assert probe.damaged_indices(dnd, seed=1) == {}
