import numpy as np
import pytest

from nec_tf.agents.nec.return_scale import ReturnScale


def scale_of(*batches):
    scale = ReturnScale()
    for batch in batches:
        scale.observe(np.asarray(batch, np.float64))
    return float(scale.value)


def slow_scale(returns, remembered=10_000):
    """From the definition: each return's weight falls by 1 / remembered with every later one."""
    weights = np.array([(1 - 1 / remembered) ** age for age in range(len(returns))])[::-1]
    mean = np.average(returns, weights=weights)
    return np.sqrt(np.average((np.asarray(returns) - mean) ** 2, weights=weights))


def test_it_is_the_deviation_of_returns_that_fade_however_they_are_batched():
    returns = np.random.default_rng(0).normal(50.0, 20.0, 3_000)
    wanted = slow_scale(returns)
    assert scale_of(returns) == pytest.approx(wanted, rel=1e-6)
    assert scale_of(*np.split(returns, [7, 64, 1_500])) == pytest.approx(wanted, rel=1e-6)
    assert 18.0 < wanted < 22.0


def test_it_follows_returns_that_grow():
    rng = np.random.default_rng(0)
    early, late = rng.normal(0.0, 1.0, 10_000), rng.normal(0.0, 30.0, 50_000)
    assert scale_of(early, late) == pytest.approx(30.0, rel=0.05)


def test_returns_times_128_have_exactly_128_times_the_scale():
    returns = np.random.default_rng(0).normal(2.0, 5.0, 500).astype(np.float32)
    assert scale_of(128.0 * returns) == 128.0 * scale_of(returns)


def test_without_a_reward_the_scale_is_1():
    assert scale_of(np.zeros(100)) == 1.0


def test_returns_that_are_all_the_same_have_a_small_scale_above_0():
    assert scale_of(np.full(100, 500.0)) == pytest.approx(5.0, rel=1e-6)
