import numpy as np
import pytest

from nec_tf.replay.random_shifts import shifted

MEAN = np.array([[10, 20, 30], [40, 50, 60], [70, 80, 90]], np.float32)[..., None]


def shift_one(screen, shift, mean=MEAN):
    return shifted(screen[None], mean, np.array([shift]))[0]


def test_what_differs_from_the_mean_screen_moves_and_the_mean_screen_stays():
    screen = MEAN.astype(np.uint8)
    screen[0, 0] += 100  # a sprite in the upper left corner
    moved = shift_one(screen, (1, 2))
    wanted = MEAN.astype(np.uint8)
    wanted[1, 2] += 100
    np.testing.assert_array_equal(moved, wanted)


@pytest.mark.parametrize("shift", [(0, 0), (1, 0), (0, -1), (-2, 2), (2, 2)])
def test_every_shift_agrees_with_a_slow_loop(shift):
    screen = np.random.default_rng(0).integers(0, 256, (3, 3, 1)).astype(np.uint8)
    wanted = MEAN.copy()
    for row in range(3):
        for column in range(3):
            to = row + shift[0], column + shift[1]
            if all(0 <= place < 3 for place in to):
                wanted[to] += float(screen[row, column, 0]) - MEAN[row, column]
    np.testing.assert_array_equal(shift_one(screen, shift), np.clip(wanted, 0, 255))


def test_each_state_of_a_batch_has_its_own_shift_and_all_frames_of_it_the_same():
    screens = np.random.default_rng(0).integers(0, 256, (2, 5, 5, 4)).astype(np.uint8)
    mean = np.full((5, 5, 4), 7.4)
    moved = shifted(screens, mean, np.array([[0, 0], [1, 1]]))
    np.testing.assert_array_equal(moved[0], screens[0])
    np.testing.assert_array_equal(moved[1, 1:, 1:], screens[1, :-1, :-1])
    assert (moved[1, 0] == 7).all()
