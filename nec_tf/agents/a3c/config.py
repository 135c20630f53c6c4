"""The settings of A3C, each with its origin.

[A3C] is Mnih et al. (2016), feed-forward agent on Atari, as quoted in the review of
github.com/chainer/chainerrl/pull/433 and coded there (`examples/atari/reproduction/a3c`). [Mnih]
are answers of its first author by mail, published in
github.com/miyosuda/async_deep_reinforce/issues/1 and, as github.com/muupan/async-rl/issues/28
quotes it, in the wiki of that project. [ChainerRL] is that reproduction. [ours] was chosen here.
"""

import dataclasses
from typing import Any, Self

import gin

from nec_tf.agents.settings import (
    require_at_least_1,
    require_counts,
    require_finite_above_0,
    require_finite_at_least_0,
    require_shares,
    require_types,
    setting,
)


@gin.configurable
@dataclasses.dataclass(frozen=True)
class A3cConfig:
    """Settings of A3C; steps are agent steps of all workers together."""

    discount: float = setting(0.99, "gamma, for a step [A3C]")
    key_size: int = setting(256, "units of the layer before policy and value [A3C]")
    t_max: int = setting(5, "steps of a worker between its updates [A3C]")
    entropy_weight: float = setting(0.01, "beta, weight of the policy's entropy [A3C]")
    value_loss_weight: float = setting(0.5, "weight of (R - V)^2 in the loss [Mnih]")
    learning_rate: float = setting(
        7e-4, "learning rate at step 0 [Mnih; A3C draws it between 1e-4 and 1e-2]"
    )
    annealing_steps: int = setting(
        80_000_000, "steps over which the learning rate falls linearly to 0 [ChainerRL]"
    )
    rmsprop_decay: float = setting(0.99, "decay of the mean square, shared by the workers [A3C]")
    rmsprop_epsilon: float = setting(0.1, "inside the root [Mnih]")
    max_gradient_norm: float = setting(40.0, "largest norm of an update's gradient [Mnih]")
    deterministic: bool = setting(
        False, "workers take turns in one process: the same seed gives the same run [ours]"
    )

    @classmethod
    def atari(cls, **overrides: Any) -> Self:
        """Returns the defaults: settings for Atari games, with the given ones replaced."""
        return cls(**overrides)

    @classmethod
    def small(cls, **overrides: Any) -> Self:
        """Returns settings for small problems such as CartPole, with the given ones replaced."""
        return cls(**{**_SMALL, **overrides})

    def learning_rate_at(self, step: float) -> float:
        """Returns the learning rate after `step` steps."""
        return self.learning_rate * max(0.0, 1.0 - step / self.annealing_steps)

    def __post_init__(self) -> None:
        """Validates the settings."""
        require_types(self)
        require_counts(self)
        require_at_least_1(self, "key_size", "t_max", "annealing_steps")
        require_shares(self, "discount", "rmsprop_decay")
        require_finite_at_least_0(self, "learning_rate", "entropy_weight", "value_loss_weight")
        require_finite_above_0(self, "rmsprop_epsilon", "max_gradient_norm")


# Small problems of a few ten thousand steps, such as CartPole; measured, see docs/algorithm.md.
_SMALL: dict[str, Any] = {"key_size": 16, "learning_rate": 3e-3, "annealing_steps": 200_000}
