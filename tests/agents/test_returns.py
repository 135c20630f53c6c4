import numpy as np
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from reference import by_equation_3

from nec_tf.agents.returns import first_return, monte_carlo_returns, n_step_returns

numbers = st.floats(-100, 100)


def test_worked_out_by_hand():
    # N = 2, gamma = 0.5: t=0: 1 + 2/2 + 40/4 = 12; t=1: 2 + 3/2 + 50/4 = 16; t=2: 3 + 50/2 = 28
    returns = n_step_returns(np.array([1.0, 2, 3]), np.array([20.0, 30, 40, 50]), 0.5, 2)
    np.testing.assert_allclose(returns, [12, 16, 28])


def test_termination_is_a_last_value_of_zero():
    returns = n_step_returns(np.array([1.0, 2, 3]), np.array([20.0, 30, 40, 0]), 0.5, 2)
    np.testing.assert_allclose(returns, [12, 3.5, 3])


@given(
    st.lists(st.tuples(numbers, numbers), min_size=1, max_size=30),
    numbers,
    st.floats(0, 1),
    st.integers(1, 40),
)
def test_equals_the_equation_term_by_term(steps, last, gamma, n):
    rewards = np.array([reward for reward, _ in steps])
    values = np.array([value for _, value in steps] + [last])
    np.testing.assert_allclose(
        n_step_returns(rewards, values, gamma, n),
        by_equation_3(rewards, values, gamma, n),
        atol=1e-8,
    )


def test_a_value_that_no_return_needs_is_not_used():
    values = np.array([1.0, 2, 3, np.nan])
    assert np.isfinite(n_step_returns(np.ones(3), values, 0.9, 2)[:1]).all()


def test_monte_carlo_adds_all_rewards():
    np.testing.assert_allclose(monte_carlo_returns(np.array([1.0, 2, 3]), 1.0), [6, 5, 3])
    np.testing.assert_allclose(monte_carlo_returns(np.array([1.0, 2, 4]), 0.5), [3, 4, 4])


def test_an_empty_episode_has_no_returns():
    assert len(monte_carlo_returns(np.array([]), 0.9)) == 0


@given(
    st.lists(st.tuples(numbers, numbers, st.sampled_from(["goes on", "ends", "is cut off"]))),
    st.tuples(numbers, numbers),
    st.floats(0, 1),
)
def test_the_first_return_of_a_sequence_stops_where_its_episode_does(steps, last, gamma):
    """Of steps of several episodes, one after the other, only those of the first one count."""
    steps = [(*last, "goes on"), *steps, (*last, "goes on")]
    rewards, values, fates = map(np.array, zip(*steps, strict=True))
    end = next((t for t, fate in enumerate(fates[:-1]) if fate != "goes on"), len(steps) - 2)
    bootstrap = values[: end + 2].copy()
    if fates[end] == "ends":
        bootstrap[-1] = 0.0
    expected = by_equation_3(rewards[: end + 1], bootstrap, gamma, len(steps) - 1)[0]
    found = first_return(
        tf.constant(rewards),
        tf.constant(1.0 * (fates != "ends")),
        tf.constant(fates != "goes on"),
        tf.constant(values),
        gamma,
    )
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_first_returns_of_a_batch_are_those_of_each_sequence():
    rng = np.random.default_rng(0)
    sequences = rng.normal(size=(4, 7)), rng.integers(0, 2, (4, 7)) * 1.0
    ends, values = rng.integers(0, 2, (4, 7)) > 0, rng.normal(size=(4, 7))
    batch = first_return(*map(tf.constant, (*sequences, ends, values)), 0.9)
    alone = [
        float(first_return(*map(tf.constant, sequence), 0.9))
        for sequence in zip(*sequences, ends, values, strict=True)
    ]
    np.testing.assert_allclose(batch, alone)
