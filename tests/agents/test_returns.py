import numpy as np
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from reference import by_equation_3, by_equation_4

from nec_tf.agents.returns import (
    first_return,
    greedy_returns,
    monte_carlo_returns,
    n_step_returns,
    off_policy_returns,
    q_star_traces,
    retrace_traces,
)

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


def by_watkins(rewards, values, greedy, gamma, n):
    """Step by step from the definition; a cut looks only at what follows the first action."""

    def worth(t, end):
        if t == end:
            return values[end]
        following = worth(t + 1, end)
        if t + 1 < end and not greedy[t + 1]:
            following = max(following, values[t + 1])
        return rewards[t] + gamma * following

    return [worth(t, min(t + n, len(rewards))) for t in range(len(rewards))]


def test_a_return_ends_before_exploration_that_cost_something():
    # gamma = 0.5, N = 3, the random actions 1 and 2. From the end: t=2: 3 + 50/2 = 28;
    # t=1: action 2 earned 28 < 40, so 2 + 40/2 = 22; t=0: action 1 earned 22 < 30: 1 + 30/2 = 16.
    rewards, values = np.array([1.0, 2, 3]), np.array([20.0, 30, 40, 50])
    greedy = np.array([True, False, False])
    np.testing.assert_allclose(greedy_returns(rewards, values, greedy, 0.5, 3), [16, 22, 28])
    # Action 1 earned 22 where its state promised 10, and is kept: 1 + 22/2 = 12.
    values = np.array([20.0, 10, 40, 50])
    np.testing.assert_allclose(greedy_returns(rewards, values, greedy, 0.5, 3), [12, 22, 28])


@given(
    st.lists(st.tuples(numbers, numbers, st.booleans()), min_size=1, max_size=30),
    numbers,
    st.floats(0, 1),
    st.integers(1, 40),
)
def test_greedy_returns_equal_their_definition(steps, last, gamma, n):
    rewards, values, greedy = (np.array(column) for column in zip(*steps, strict=True))
    values = np.append(values, last)
    np.testing.assert_allclose(
        greedy_returns(rewards, values, greedy, gamma, n),
        by_watkins(rewards, values, greedy, gamma, n),
        atol=1e-8,
    )
    np.testing.assert_allclose(
        greedy_returns(rewards, values, np.ones(len(steps), bool), gamma, n),
        n_step_returns(rewards, values, gamma, n),
        atol=1e-8,
    )


def test_a_value_that_no_greedy_return_needs_is_not_used():
    values = np.array([1.0, 2, 3, np.nan])
    greedy = np.array([True, False, False])
    assert np.isfinite(greedy_returns(np.ones(3), values, greedy, 0.9, 2)[:1]).all()


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


def float64(*arrays):
    return [tf.constant(array, tf.float64) for array in arrays]


def test_off_policy_returns_worked_out_by_hand():
    """gamma = 0.5, traces 0.5: from the last step backwards.

    t=2: 4 + 30/2 = 19.
    t=1: 2 + (20 + 0.5 (19 - 12))/2 = 2 + 23.5/2 = 13.75.
    t=0: 1 + (10 + 0.5 (13.75 - 8))/2 = 1 + 12.875/2 = 7.4375.
    """
    returns = off_policy_returns(
        *float64([1, 2, 4], [0.5] * 3, [6, 8, 12], [10, 20, 30], [9, 0.5, 0.5])
    )
    np.testing.assert_allclose(returns, [7.4375, 13.75, 19])


def test_a_terminated_episode_has_nothing_beyond_its_last_reward():
    """As above, but the episode terminates with the second action: t=1: 2; t=0: 1 + 7/2 = 4.5."""
    returns = off_policy_returns(
        *float64([1, 2, 4], [0.5, 0, 0.5], [6, 8, 12], [10, 20, 30], [9, 0.5, 0.5])
    )
    np.testing.assert_allclose(returns, [4.5, 2, 19])


def test_trace_coefficients_worked_out_by_hand():
    pi, mu = tf.constant([0.9, 0.1, 0.0, 0.5]), tf.constant([0.6, 0.2, 0.3, 0.5])
    np.testing.assert_allclose(q_star_traces(pi, mu, 0.8), [0.8] * 4)
    # 0.9 / 0.6 is cut to 1; 0.1 / 0.2 = 0.5; an action that pi never takes; the same policy.
    np.testing.assert_allclose(retrace_traces(pi, mu, 0.8), [0.8, 0.4, 0.0, 0.8])


sequences = st.lists(
    st.tuples(numbers, numbers, numbers, st.floats(0, 1), st.floats(0.01, 1)),
    min_size=1,
    max_size=17,
)


def columns(steps):
    return [np.array(column) for column in zip(*steps, strict=True)]


@given(sequences, st.floats(0, 1), st.floats(0, 1))
def test_off_policy_returns_equal_the_definition_term_by_term(steps, gamma, decay):
    rewards, q, values, pi, mu = columns(steps)
    for traces in (q_star_traces, retrace_traces):
        c = traces(*float64(pi, mu), decay).numpy()
        found = off_policy_returns(*float64(rewards, np.full(len(q), gamma), q, values, c))
        for t in range(len(steps)):
            expected = by_equation_4(rewards[t:], gamma, q[t:], values[t:], c[t:])
            np.testing.assert_allclose(found[t], expected, rtol=1e-6, atol=1e-6)


@given(sequences, st.floats(0, 1))
def test_with_lambda_0_every_return_is_of_one_step(steps, gamma):
    rewards, q, values, pi, mu = columns(steps)
    for traces in (q_star_traces, retrace_traces):
        c = traces(*float64(pi, mu), 0.0)
        found = off_policy_returns(*float64(rewards, np.full(len(q), gamma), q, values), c)
        expected = n_step_returns(rewards, np.append(0.0, values), gamma, 1)
        np.testing.assert_allclose(found, expected, atol=1e-8)


@given(sequences, st.floats(0, 1), st.floats(0, 1))
def test_on_policy_retrace_is_q_star(steps, gamma, decay):
    rewards, q, values, _, mu = columns(steps)
    found = [
        off_policy_returns(
            *float64(rewards, np.full(len(q), gamma), q, values), traces(*float64(mu, mu), decay)
        )
        for traces in (q_star_traces, retrace_traces)
    ]
    np.testing.assert_array_equal(*found)


@given(sequences, st.floats(0, 1))
def test_with_one_action_and_lambda_1_both_are_the_n_step_return(steps, gamma):
    """With one action `E_pi Q(s, .) = Q(s, a)` and pi = mu = 1: the corrections cancel out."""
    rewards, q, values, _, _ = columns(steps)
    values[:-1] = q[1:]
    ones = np.ones(len(q))
    expected = n_step_returns(rewards, np.append(q, values[-1]), gamma, len(q))
    for traces in (q_star_traces, retrace_traces):
        c = traces(*float64(ones, ones), 1.0)
        found = off_policy_returns(*float64(rewards, gamma * ones, q, values), c)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@given(sequences, st.floats(0, 1))
def test_a_greedy_target_makes_retrace_watkins_q_lambda(steps, gamma):
    """Traces stay whole while the greedy action is taken, and are cut where another one is."""
    rewards, q, values, pi, mu = columns(steps)
    greedy = np.round(pi)
    c = retrace_traces(*float64(greedy, mu), 1.0)
    np.testing.assert_array_equal(c, greedy)
    found = off_policy_returns(*float64(rewards, np.full(len(q), gamma), q, values), c)
    first_other = next((t for t in range(1, len(q)) if not greedy[t]), len(q))
    expected = by_equation_4(
        rewards[:first_other], gamma, q[:first_other], values[:first_other], np.ones(first_other)
    )
    np.testing.assert_allclose(found[0], expected, rtol=1e-6, atol=1e-6)


def test_off_policy_returns_of_a_batch_are_those_of_each_sequence():
    batch = float64(*np.random.default_rng(0).random((5, 3, 4, 6)))
    found = off_policy_returns(*batch)
    alone = off_policy_returns(*(array[2, 1] for array in batch))
    np.testing.assert_array_equal(found[2, 1], alone)
