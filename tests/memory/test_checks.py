import numpy as np
import pytest
import tensorflow as tf

from nec_tf.memory import checks


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((2, 3), [2, 3]), ((5, 3), [None, 3]), ((None, 3), [4, 3]), ((), []), ((0, 3), [None, 3])],
)
def test_a_shape_that_fits_passes(shape, expected):
    checks.require_shape("keys", shape, expected)
    checks.require_shape("keys", tf.TensorShape(shape), expected)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((2, 4), [2, 3]), ((2,), [2, 3]), ((2, 3, 1), [2, 3]), ((), [1]), ((None, 4), [None, 3])],
)
def test_a_shape_that_does_not_fit_is_refused_by_name(shape, expected):
    with pytest.raises(ValueError, match="keys must have the shape"):
        checks.require_shape("keys", shape, expected)


def test_the_error_says_which_shape_was_wanted_and_which_was_given():
    with pytest.raises(ValueError, match=r"keys must have the shape \[n, 3\], not \[2, 4\]"):
        checks.require_shape("keys", (2, 4), [None, 3])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused_with_its_place(bad):
    array = np.zeros((2, 3))
    array[1, 2] = bad
    with pytest.raises(ValueError, match=rf"keys must be finite, but keys\[1, 2\] is {bad}"):
        checks.require_finite("keys", array)


def test_finite_numbers_pass_even_when_there_are_none():
    checks.require_finite("keys", np.array([0.0, -1e300]))
    checks.require_finite("keys", np.empty((0, 3)))


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8])
def test_known_actions_pass(dtype):
    checks.require_actions(np.array([0, 2, 1], dtype), 3)


@pytest.mark.parametrize("actions", [[0, 3], [-1], [0.0, 1.0], [True]])
def test_what_is_not_an_action_is_refused(actions):
    with pytest.raises(ValueError, match="actions must be"):
        checks.require_actions(np.array(actions), 3)
