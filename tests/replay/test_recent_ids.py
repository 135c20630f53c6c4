import numpy as np
import pytest

from nec_tf.replay.recent_ids import RecentIds


def ring(count, capacity=10):
    ids = RecentIds(capacity)
    for first in range(0, count, 3):
        ids.add(np.arange(first, min(first + 3, count)) * 100)
    return ids


@pytest.mark.parametrize("count", [8, 10, 25])
def test_ids_around_a_state_are_those_of_the_states_before_and_after_it(count):
    for state in range(max(0, count - 10) + 2, count - 2):
        around = ring(count).around(np.array([state]), reach=3)
        np.testing.assert_array_equal(around, [[100 * s for s in range(state - 2, state + 3)]])


def test_at_the_ends_ids_repeat_and_none_is_of_a_state_that_is_gone():
    around = ring(25).around(np.array([15, 24]), reach=3)
    np.testing.assert_array_equal(
        around, [[1500, 1500, 1500, 1600, 1700], [2200, 2300, 2400, 2400, 2400]]
    )


def test_a_reach_of_1_is_the_state_itself_and_of_0_nothing():
    ids = ring(8)
    np.testing.assert_array_equal(ids.around(np.array([3, 5]), reach=1), [[300], [500]])
    assert ids.around(np.array([3, 5]), reach=0).shape == (2, 0)


@pytest.mark.parametrize("count", [4, 25])
def test_a_restored_ring_goes_on_as_the_saved_one(count):
    saved, restored = ring(count), RecentIds(10)
    restored.restore(saved.state())
    for ids in (saved, restored):
        ids.add(np.array([-1, -2]))
    states = np.array([count - 1, count, count + 1])
    np.testing.assert_array_equal(restored.around(states, 2), saved.around(states, 2))


def test_more_ids_than_fit_leave_the_newest():
    ids = RecentIds(4)
    ids.add(np.arange(11))
    assert ids.around(np.array([10]), 1).item() == 10
    assert ids.around(np.array([7]), 1).item() == 7
