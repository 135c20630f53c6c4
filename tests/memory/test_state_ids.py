import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from nec_tf.memory.state_ids import hash_states


@given(hnp.arrays(np.float32, (6, 2), elements=st.sampled_from([-0.0, 0.0, 0.5, 1.0])))
def test_states_have_the_same_id_exactly_when_they_are_equal(states):
    ids = hash_states(states)
    for i in range(len(states)):
        for j in range(len(states)):
            assert (ids[i] == ids[j]) == np.array_equal(states[i], states[j])


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float32, np.float64])
def test_there_is_one_int64_for_each_state(dtype):
    ids = hash_states(np.arange(24).reshape(2, 3, 4).astype(dtype))
    assert ids.dtype == np.int64
    assert ids.shape == (2,)
    assert hash_states(np.empty((0, 3), dtype)).shape == (0,)


def test_ids_are_the_same_in_every_process_and_on_every_machine():
    assert hash_states(np.array([[1, 2, 3]], np.uint8)).tolist() == [3881955430054305505]


def test_an_id_does_not_depend_on_the_layout_in_memory_or_on_the_batch():
    states = np.random.default_rng(0).normal(size=(5, 4))
    ids = hash_states(states)
    np.testing.assert_array_equal(hash_states(np.asfortranarray(states)), ids)
    np.testing.assert_array_equal(hash_states(states[::2]), ids[::2])


def test_the_states_are_left_as_they_were():
    states = np.array([[-0.0, 1.0]])
    hash_states(states)
    assert np.signbit(states[0, 0])


def test_many_different_states_have_different_ids():
    states = np.arange(20_000, dtype=np.int64)[:, None]
    assert len(np.unique(hash_states(states))) == len(states)
