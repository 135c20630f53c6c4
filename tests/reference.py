"""Neural Episodic Control's lookup in plain NumPy, written from the paper and from nothing else.

One query and one memory at a time, with the formulas as they stand in sections 3.1 and 4. Gradients
follow from the quotient rule; `finite_differences` judges both.
"""

import numpy as np

DELTA = 1e-3
SIGMA = 1.5

# From a kernel's name to k and to its derivative, both by the squared distance.
KERNELS = {
    "inverse_distance": (
        lambda d2: 1.0 / (d2 + DELTA),
        lambda d2: -1.0 / (d2 + DELTA) ** 2,
    ),
    "gaussian": (
        lambda d2: np.exp(-d2 / (2 * SIGMA**2)),
        lambda d2: -np.exp(-d2 / (2 * SIGMA**2)) / (2 * SIGMA**2),
    ),
    "mean": (np.ones_like, np.zeros_like),
}
CONFIGS = {
    "inverse_distance": {"name": "inverse_distance", "delta": DELTA},
    "gaussian": {"name": "gaussian", "sigma": SIGMA},
    "mean": {"name": "mean"},
}


def squared_distances(query, keys):
    return np.array(
        [sum(np.square(h - h_i) for h, h_i in zip(query, key, strict=True)) for key in keys]
    )


def nearest(query, keys, p):
    """Returns the places of the p nearest keys, nearest first; the lower place in a tie."""
    d2 = squared_distances(query, keys)
    return sorted(range(len(keys)), key=lambda i: (d2[i], i))[:p]


def weights(kernel, query, keys):
    """Equation 2, over all the keys given."""
    k = KERNELS[kernel][0](squared_distances(query, keys))
    return k / k.sum()


def lookup(kernel, query, keys, values, p):
    """Equation 1, over the p nearest neighbours; 0 for an empty memory."""
    if len(keys) == 0:
        return 0.0
    near = nearest(query, keys, p)
    return float(weights(kernel, query, keys[near]) @ values[near])


def lookup_gradients(kernel, query, keys, values, p):
    """Returns the derivatives of `lookup` by the query, by all keys and by all values."""
    d_query, d_keys, d_values = np.zeros_like(query), np.zeros_like(keys), np.zeros_like(values)
    if len(keys) == 0:
        return d_query, d_keys, d_values
    near = nearest(query, keys, p)
    k, slope = KERNELS[kernel]
    d2 = squared_distances(query, keys[near])
    total = k(d2).sum()
    o = k(d2) @ values[near] / total
    for i, k_i, slope_i in zip(near, k(d2), slope(d2), strict=True):
        d_values[i] = k_i / total
        d_k = (values[i] - o) / total
        d_keys[i] = d_k * slope_i * -2 * (query - keys[i])
        d_query += d_k * slope_i * 2 * (query - keys[i])
    return d_query, d_keys, d_values


def rmsprop(x, mean_square, gradient, learning_rate, decay, epsilon):
    """Returns x and the mean square after one step (Tieleman & Hinton, 2012)."""
    mean_square = decay * mean_square + (1 - decay) * gradient**2
    return x - learning_rate * gradient / np.sqrt(mean_square + epsilon), mean_square


def finite_differences(function, x, step=1e-6):
    """Returns the derivative of a function of one array, of the shape of its result and x."""
    columns = []
    for place in np.ndindex(x.shape):
        shift = np.zeros_like(x)
        shift[place] = step
        columns.append((function(x + shift) - function(x - shift)) / (2 * step))
    columns = np.array(columns)
    return np.moveaxis(columns, 0, -1).reshape(*columns.shape[1:], *x.shape)


def by_equation_3(rewards, values, gamma, n):
    """Equation 3 term by term; a sum that reaches the end of the episode stops there."""
    length = len(rewards)
    result = []
    for t in range(length):
        last = min(t + n, length)
        total = sum(gamma**j * rewards[t + j] for j in range(last - t))
        result.append(total + gamma ** (last - t) * values[last])
    return result


def by_equation_4(rewards, discount, q_values, next_values, traces):
    """Equation 4 of Munos et al. (2016) for the first step of a sequence, term by term.

    Args:
        rewards: `r_k`, [T].
        discount: gamma.
        q_values: `Q(s_k, a_k)`, [T].
        next_values: `E_pi Q(s_{k+1}, .)`, [T]; 0 where the episode terminated with action k.
        traces: `c_k`, [T].
    """
    total = q_values[0]
    for k in range(len(rewards)):
        product = 1.0
        for i in range(1, k + 1):
            product *= traces[i]
        error = rewards[k] + discount * next_values[k] - q_values[k]
        total += discount**k * product * error
    return total
