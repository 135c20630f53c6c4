"""Returns: what a state and action turned out to be worth. Pure functions."""

import numpy as np
import tensorflow as tf


def n_step_returns(
    rewards: np.ndarray, bootstrap_values: np.ndarray, discount: float, horizon: int
) -> np.ndarray:
    """Equation 3: `Q^(N)(s_t, a_t)`, N rewards and then the value of the state that follows.

    `sum_{j<N} gamma^j r_{t+j} + gamma^N max_a Q(s_{t+N}, a)`, where a sum that reaches the end of
    the episode stops there.

    Args:
        rewards: `r_t`, what action t brought, [T].
        bootstrap_values: `max_a Q(s_t, a)` for t = 0 to T, [T + 1]. The last one is the value of
            the state after the last reward: 0 where the episode terminated there.
        discount: `gamma`.
        horizon: `N`.

    Returns:
        float64 [T].
    """
    length = len(rewards)
    to_the_end = np.zeros(length + 1)  # all discounted rewards from t on
    for t in reversed(range(length)):
        to_the_end[t] = rewards[t] + discount * to_the_end[t + 1]
    end = np.minimum(np.arange(length) + horizon, length)
    beyond = discount ** (end - np.arange(length))
    return to_the_end[:-1] + beyond * (np.asarray(bootstrap_values, float)[end] - to_the_end[end])


def greedy_returns(
    rewards: np.ndarray,
    bootstrap_values: np.ndarray,
    greedy: np.ndarray,
    discount: float,
    horizon: int,
) -> np.ndarray:
    """N-step returns that end where exploration cost something: those of Watkins' Q(lambda).

    As equation 3, but a sum ends with `max_a Q(s_k, a)` before an action `a_k` that was not greedy,
    if what followed was worth less. Exploration that paid is kept.

    Args:
        rewards: `r_t`, what action t brought, [T].
        bootstrap_values: `max_a Q(s_t, a)` for t = 0 to T, [T + 1], as in `n_step_returns`.
        greedy: Whether action t was the best by Q, bool [T].
        discount: `gamma`.
        horizon: `N`.

    Returns:
        float64 [T].
    """
    length = len(rewards)
    start, values = np.arange(length), np.asarray(bootstrap_values, float)
    end = np.minimum(start + horizon, length)
    returns = values[end]  # of step `end`, then of one step earlier in each turn
    for back in range(1, min(horizon, length) + 1):
        step = end - back
        inside = step >= start
        step = np.maximum(step, 0)
        cut = (back > 1) & ~greedy[np.minimum(step + 1, length - 1)]
        following = np.where(cut, np.maximum(returns, values[step + 1]), returns)
        returns = np.where(inside, rewards[step] + discount * following, returns)
    return returns


def monte_carlo_returns(rewards: np.ndarray, discount: float) -> np.ndarray:
    """All rewards to the end of the episode, as MFEC writes them (Blundell et al., 2016).

    Args:
        rewards: [T].
        discount: `gamma`; 1 in MFEC.

    Returns:
        float64 [T].
    """
    return n_step_returns(rewards, np.zeros(len(rewards) + 1), discount, horizon=len(rewards) or 1)


def first_return(
    rewards: tf.Tensor,
    step_discounts: tf.Tensor,
    ends: tf.Tensor,
    bootstrap_values: tf.Tensor,
    discount: float,
) -> tf.Tensor:
    """Equation 3 for the first step of sequences out of a replay buffer, in TensorFlow.

    A sequence of T steps gives a (T - 1)-step return, which stops where the episode does: with
    nothing more where it terminated, with the value of the last state where it was truncated.

    Args:
        rewards: `r_t`, what action t brought, [..., T].
        step_discounts: 0 where the episode terminated with action t, else 1, [..., T].
        ends: Whether the episode ended with action t, bool [..., T].
        bootstrap_values: `max_a Q(s_t, a)`, [..., T].
        discount: `gamma`.

    Returns:
        [...].
    """
    steps = tf.shape(rewards)[-1] - 1
    powers = discount ** tf.range(tf.cast(steps, rewards.dtype))
    ended = tf.cast(ends[..., :-1], rewards.dtype)
    reached = tf.math.cumprod(1.0 - ended, axis=-1, exclusive=True)
    is_last = tf.one_hot(steps - 1, steps, dtype=rewards.dtype)
    stops = reached * tf.maximum(ended, is_last)  # 1 at the one step after which the sum stops
    values = discount * step_discounts[..., :-1] * bootstrap_values[..., 1:]
    return tf.reduce_sum(powers * (reached * rewards[..., :-1] + stops * values), axis=-1)


def off_policy_returns(
    rewards: tf.Tensor,
    discounts: tf.Tensor,
    q_values: tf.Tensor,
    next_values: tf.Tensor,
    traces: tf.Tensor,
) -> tf.Tensor:
    """Returns of Munos et al. (2016), equation 4, for every step of a sequence.

    `G_t = Q(s_t, a_t) + sum_{k>=t} gamma^(k-t) c_{t+1} ... c_k delta_k` with
    `delta_k = r_k + gamma E_pi Q(s_{k+1}, .) - Q(s_k, a_k)`, where the sum stops with the
    sequence. Computed from the last step backwards by
    `G_t = r_t + gamma (E_pi Q(s_{t+1}, .) + c_{t+1} (G_{t+1} - Q(s_{t+1}, a_{t+1})))`.

    Args:
        rewards: `r_t`, what action t brought, [..., T]; T is known when a graph is traced.
        discounts: gamma, and 0 where the episode terminated with action t, [..., T].
        q_values: `Q(s_t, a_t)`, [..., T]; the first one is not used.
        next_values: `E_pi Q(s_{t+1}, .)`, [..., T].
        traces: `c_t`, [..., T]; 0 cuts the sum before step t. The first one is not used.

    Returns:
        [..., T].
    """
    steps = [tf.unstack(x, axis=-1) for x in (rewards, discounts, q_values, next_values, traces)]
    returns: list[tf.Tensor] = []
    beyond: tf.Tensor | float = 0.0  # c_{t+1} (G_{t+1} - Q(s_{t+1}, a_{t+1})); 0 at the end
    for reward, discount, q, next_value, trace in reversed(list(zip(*steps, strict=True))):
        returns.append(reward + discount * (next_value + beyond))
        beyond = trace * (returns[-1] - q)
    return tf.stack(returns[::-1], axis=-1)


def q_star_traces(target: tf.Tensor, behaviour: tf.Tensor, decay: float) -> tf.Tensor:
    """Trace coefficients of Q*(lambda) (Harutyunyan et al., 2016): `c_t = lambda`.

    Args:
        target: `pi(a_t | s_t)`, [...]; not used, nor is the next.
        behaviour: `mu(a_t | s_t)`, [...].
        decay: lambda.

    Returns:
        [...].
    """
    del behaviour
    return decay * tf.ones_like(target)


def retrace_traces(target: tf.Tensor, behaviour: tf.Tensor, decay: float) -> tf.Tensor:
    """Trace coefficients of Retrace(lambda) (Munos et al., 2016): `lambda min(1, pi / mu)`.

    Args:
        target: `pi(a_t | s_t)`, [...].
        behaviour: `mu(a_t | s_t)`, above 0, [...].
        decay: lambda.

    Returns:
        [...].
    """
    return decay * tf.minimum(1.0, target / behaviour)
