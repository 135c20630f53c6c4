"""The settings of Prioritised Replay, each with its origin."""

import dataclasses

import gin

from nec_tf.agents.dqn.config import DqnConfig
from nec_tf.agents.settings import (
    require_at_least_1,
    require_finite_above_0,
    require_finite_at_least_0,
    require_shares,
    setting,
)


@gin.configurable
@dataclasses.dataclass(frozen=True)
class PrioritisedConfig(DqnConfig):
    """The proportional variant on tuned Double DQN; all else is as in Nature DQN.

    Tuned Double DQN is that of van Hasselt et al. (2016), on which Schaul et al. (2016) build.
    """

    learning_rate: float = setting(
        2.5e-4 / 4, "learning rate of the network [Schaul et al.: a quarter of Nature DQN's]"
    )
    target_period: int = setting(
        30_000, "updates between copies to the target [van Hasselt et al., tuned]"
    )
    epsilon_end: float = setting(0.01, "final share of random actions [van Hasselt et al., tuned]")
    priority_exponent: float = setting(
        0.6, "alpha: 0 draws uniformly, 1 in proportion to the TD error [Schaul et al.]"
    )
    priority_floor: float = setting(
        1e-6, "added to the TD error, so that every step can be drawn [ours]"
    )
    importance_exponent: float = setting(
        0.4, "initial beta, the share of the correction for drawing by priority [Schaul et al.]"
    )
    importance_until: int = setting(
        50_000_000, "step at which beta reaches 1 [Schaul et al.: the end, 200M frames]"
    )

    def __post_init__(self) -> None:
        """Validates the settings."""
        super().__post_init__()
        require_finite_at_least_0(self, "priority_exponent")
        require_finite_above_0(self, "priority_floor")
        require_shares(self, "importance_exponent")
        require_at_least_1(self, "importance_until")
