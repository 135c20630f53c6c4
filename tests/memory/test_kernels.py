import numpy as np
import pytest
import reference
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from nec_tf.memory import kernels

NAMES = list(reference.KERNELS)


def make(name):
    return kernels.get(reference.CONFIGS[name])


def doubles(array):
    return tf.constant(array, tf.float64)


@pytest.mark.parametrize(
    ("kernel", "d2", "k"),
    [
        (kernels.InverseDistance(), 0.0, 1000.0),
        (kernels.InverseDistance(), 0.999, 1.0),
        (kernels.InverseDistance(delta=1.0), 3.0, 0.25),
        (kernels.Gaussian(), 0.0, 1.0),
        (kernels.Gaussian(), 2.0, np.exp(-1.0)),
        (kernels.Gaussian(sigma=2.0), 8.0, np.exp(-1.0)),
        (kernels.Mean(), 0.0, 1.0),
        (kernels.Mean(), 1e9, 1.0),
    ],
)
def test_a_kernel_has_the_values_worked_out_by_hand(kernel, d2, k):
    np.testing.assert_allclose(kernel(doubles(d2)), k, rtol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_a_kernel_its_logarithm_and_its_slope_agree_with_the_reference(name):
    d2 = np.array([0.0, 1e-4, 0.3, 1.0, 7.0, 50.0])
    k, slope = reference.KERNELS[name]
    np.testing.assert_allclose(make(name)(doubles(d2)), k(d2), rtol=1e-12)
    np.testing.assert_allclose(make(name).log(doubles(d2)), np.log(k(d2)), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(make(name).log_slope(doubles(d2)), slope(d2) / k(d2), rtol=1e-12)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
def test_a_kernel_keeps_dtype_and_shape(name, dtype):
    d2 = tf.ones([2, 3], dtype)
    kernel = make(name)
    for result in (kernel(d2), kernel.log(d2), kernel.log_slope(d2)):
        assert result.dtype == dtype
        assert result.shape == [2, 3]


def test_delta_is_the_papers():
    assert kernels.InverseDistance().delta == 1e-3
    assert kernels.get("inverse_distance") == kernels.InverseDistance(1e-3)


@pytest.mark.parametrize("kernel", [kernels.InverseDistance(0.5), kernels.Gaussian(3.0)])
def test_a_kernel_is_found_from_itself_and_from_its_configuration(kernel):
    assert kernels.get(kernel) is kernel
    assert kernels.get(kernels.serialise(kernel)) == kernel


@pytest.mark.parametrize("name", NAMES)
def test_a_kernel_is_found_by_its_name(name):
    assert kernels.serialise(kernels.get(name))["name"] == name


def test_finding_a_kernel_does_not_change_its_configuration():
    configuration = {"name": "gaussian", "sigma": 2.0}
    kernels.get(configuration)
    assert configuration == {"name": "gaussian", "sigma": 2.0}


@pytest.mark.parametrize("identifier", ["euclid", {"name": "euclid"}, {}, 3, None])
def test_what_is_not_a_kernel_is_refused(identifier):
    with pytest.raises(ValueError, match="kernel must be one of inverse_distance"):
        kernels.get(identifier)


@pytest.mark.parametrize("parameter", [0.0, -1.0, float("nan"), float("inf")])
@pytest.mark.parametrize(
    ("kind", "name"), [(kernels.InverseDistance, "delta"), (kernels.Gaussian, "sigma")]
)
def test_a_parameter_that_is_not_positive_and_finite_is_refused(kind, name, parameter):
    with pytest.raises(ValueError, match=name):
        kind(parameter)


distances = hnp.arrays(np.float64, 5, elements=st.floats(0, 1e6))
some_present = hnp.arrays(bool, 5).filter(np.any)


@pytest.mark.parametrize("name", NAMES)
@given(d2=distances, present=some_present)
def test_weights_are_the_normalised_kernels_of_those_present(name, d2, present):
    weights = kernels.normalised_weights(make(name), doubles(d2), tf.constant(present)).numpy()
    assert np.isclose(weights.sum(), 1.0, rtol=1e-12)
    assert (weights >= 0).all()
    assert (weights[~present] == 0).all()
    k = reference.KERNELS[name][0](d2) * present
    if k.sum() > 0:  # the reference underflows where all are far
        np.testing.assert_allclose(weights, k / k.sum(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
@given(d2=distances)
def test_the_nearer_neighbour_never_weighs_less(name, d2):
    present = tf.ones(5, bool)
    weights = kernels.normalised_weights(make(name), doubles(np.sort(d2)), present).numpy()
    assert (np.diff(weights) <= 0).all()


@pytest.mark.parametrize("name", NAMES)
@given(d2=distances, present=some_present, order=st.permutations(range(5)))
def test_weights_follow_their_neighbours_when_these_change_places(name, d2, present, order):
    weights = kernels.normalised_weights(make(name), doubles(d2), tf.constant(present)).numpy()
    swapped = kernels.normalised_weights(
        make(name), doubles(d2[order]), tf.constant(present[order])
    ).numpy()
    np.testing.assert_allclose(swapped, weights[order], rtol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_where_none_is_present_all_weights_are_zero(name):
    d2 = tf.constant([[0.0, 1.0], [2.0, 3.0]])
    present = tf.constant([[False, False], [True, False]])
    weights = kernels.normalised_weights(make(name), d2, present)
    np.testing.assert_array_equal(weights, [[0, 0], [1, 0]])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("far", [1e8, 1e30, np.inf])
def test_weights_stay_finite_where_all_neighbours_are_very_far(name, far):
    d2 = tf.constant([far, far], tf.float32)
    weights = kernels.normalised_weights(make(name), d2, tf.constant([True, True]))
    np.testing.assert_array_equal(weights, [0.5, 0.5])


def test_a_near_neighbour_takes_all_weight_from_one_too_far_to_measure():
    d2 = tf.constant([1.0, np.inf], tf.float32)
    weights = kernels.normalised_weights(kernels.Gaussian(), d2, tf.constant([True, True]))
    np.testing.assert_array_equal(weights, [1.0, 0.0])
