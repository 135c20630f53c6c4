"""Kernels `k(h, h_i)`: the weight of a neighbour by its distance (paper, sections 3.1 and 4).

Each kernel is a function of the squared distance `d2 = ||h - h_i||^2`. Lookup uses its logarithm:
normalised weights are then a softmax, which stays finite however far away the neighbours are.
"""

import math
from dataclasses import asdict, dataclass
from typing import Protocol

import tensorflow as tf

DELTA = 1e-3  # paper, section 4
_MATCH_LOG_WEIGHT = 80.0  # exp(80) outweighs any number of 1s and is finite in float32


class Kernel(Protocol):
    """A positive, decreasing function of the squared distance."""

    def __call__(self, d2: tf.Tensor) -> tf.Tensor:
        """Returns `k`, of the shape of `d2`."""

    def log(self, d2: tf.Tensor) -> tf.Tensor:
        """Returns `log k`, of the shape of `d2`."""

    def log_slope(self, d2: tf.Tensor) -> tf.Tensor:
        """Returns the derivative of `log k` by `d2`, of the shape of `d2`."""


@dataclass(frozen=True)
class InverseDistance:
    """`k = 1 / (d^2 + delta)`: heavy tails; the mean if all are near (paper, section 4)."""

    delta: float = DELTA

    def __post_init__(self) -> None:
        """Validates `delta`: with 0, a query equal to a key would divide by zero."""
        _require_positive("delta", self.delta)

    def __call__(self, d2: tf.Tensor) -> tf.Tensor:
        """See `Kernel`."""
        return 1.0 / (d2 + self.delta)

    def log(self, d2: tf.Tensor) -> tf.Tensor:
        """See `Kernel`."""
        return -tf.math.log(d2 + self.delta)

    def log_slope(self, d2: tf.Tensor) -> tf.Tensor:
        """See `Kernel`."""
        return -1.0 / (d2 + self.delta)


@dataclass(frozen=True)
class Gaussian:
    """`k = exp(-d^2 / (2 sigma^2))`: suppresses all but the nearest (paper, section 4)."""

    sigma: float = 1.0

    def __post_init__(self) -> None:
        """Validates `sigma`."""
        _require_positive("sigma", self.sigma)

    def __call__(self, d2: tf.Tensor) -> tf.Tensor:
        """See `Kernel`."""
        return tf.exp(self.log(d2))

    def log(self, d2: tf.Tensor) -> tf.Tensor:
        """See `Kernel`."""
        return -d2 / (2.0 * self.sigma**2)

    def log_slope(self, d2: tf.Tensor) -> tf.Tensor:
        """See `Kernel`."""
        return tf.fill(tf.shape(d2), tf.constant(-0.5 / self.sigma**2, d2.dtype))


@dataclass(frozen=True)
class Mean:
    """`k = 1`: all neighbours weigh the same, as in MFEC (Blundell et al., 2016)."""

    def __call__(self, d2: tf.Tensor) -> tf.Tensor:
        """See `Kernel`."""
        return tf.ones_like(d2)

    def log(self, d2: tf.Tensor) -> tf.Tensor:
        """See `Kernel`."""
        return tf.zeros_like(d2)

    def log_slope(self, d2: tf.Tensor) -> tf.Tensor:
        """See `Kernel`."""
        return tf.zeros_like(d2)


@dataclass(frozen=True)
class MeanOrMatch:
    """The value of an exact match, else the mean of all neighbours: the lookup of MFEC.

    If the squared distance is at most `within`, `k` is so large that other neighbours have no
    weight. The tolerance is needed because networks round differently in batches of different
    sizes, so that the last digits of a state's key vary. Several matches are averaged.
    """

    within: float = 1e-6

    def __post_init__(self) -> None:
        """Validates `within`."""
        _require_positive("within", self.within)

    def __call__(self, d2: tf.Tensor) -> tf.Tensor:
        """See `Kernel`."""
        return tf.exp(self.log(d2))

    def log(self, d2: tf.Tensor) -> tf.Tensor:
        """See `Kernel`."""
        return tf.where(d2 <= self.within, tf.constant(_MATCH_LOG_WEIGHT, d2.dtype), 0.0)

    def log_slope(self, d2: tf.Tensor) -> tf.Tensor:
        """See `Kernel`."""
        return tf.zeros_like(d2)


KERNELS = {
    "inverse_distance": InverseDistance,
    "gaussian": Gaussian,
    "mean": Mean,
    "mean_or_match": MeanOrMatch,
}


def serialise(kernel: Kernel) -> dict:
    """Returns the configuration of a kernel: its name in `KERNELS` and its parameters."""
    name = next(name for name, kind in KERNELS.items() if isinstance(kernel, kind))
    return {"name": name, **asdict(kernel)}  # type: ignore[call-overload]


def get(identifier: Kernel | str | dict) -> Kernel:
    """Returns a kernel, given a kernel, its name or its configuration, as Keras' `get` does."""
    if isinstance(identifier, InverseDistance | Gaussian | Mean | MeanOrMatch):
        return identifier
    parameters = dict(identifier) if isinstance(identifier, dict) else {"name": identifier}
    name = parameters.pop("name", None)
    if name not in KERNELS:
        raise ValueError(f"kernel must be one of {', '.join(KERNELS)}, not {name!r}")
    return KERNELS[name](**parameters)


def normalised_weights(kernel: Kernel, d2: tf.Tensor, present: tf.Tensor) -> tf.Tensor:
    """Equation 2: `w_i = k(h, h_i) / sum_j k(h, h_j)`, over the neighbours that are present.

    Args:
        kernel: The kernel `k`.
        d2: Squared distances, [..., p].
        present: False for places without a neighbour, bool [..., p].

    Returns:
        Weights [..., p]; 0 for places without a neighbour.
    """
    lowest = d2.dtype.min
    log_k = tf.where(present, tf.maximum(kernel.log(d2), lowest), lowest)
    shifted = log_k - tf.reduce_max(log_k, axis=-1, keepdims=True)
    k = tf.where(present, tf.exp(shifted), 0.0)
    return tf.math.divide_no_nan(k, tf.reduce_sum(k, axis=-1, keepdims=True))


def _require_positive(name: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise ValueError(f"{name} must be positive and finite, not {value}")
