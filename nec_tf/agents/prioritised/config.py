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

    [Schaul] are settings of Schaul et al. (2016) as their co-author Quan implements them in
    `prioritized/run_atari.py` of github.com/google-deepmind/dqn_zoo, where frames are counted and 4
    of them are a step. [baselines] is `deepq` of github.com/openai/baselines.
    """

    learning_rate: float = setting(
        2.5e-4 / 4, "learning rate of the network, a quarter of DQN's [Schaul]"
    )
    rmsprop_epsilon: float = setting(
        0.01 / 32**2 / 4**2,
        "inside the root; keeps the largest step of a weight as in DQN [Schaul]",
    )
    target_period: int = setting(
        7_500, "updates between copies to the target, 30,000 steps [Schaul]"
    )
    epsilon_end: float = setting(0.01, "final share of random actions [Schaul]")
    priority_exponent: float = setting(
        0.6, "alpha: 0 draws uniformly, 1 in proportion to the TD error [Schaul]"
    )
    priority_floor: float = setting(
        1e-6, "added to the TD error, so that every step can be drawn [baselines]"
    )
    importance_exponent: float = setting(
        0.4, "initial beta, the share of the correction for drawing by priority [Schaul]"
    )
    importance_until: int = setting(
        50_000_000, "step at which beta reaches 1, the end of 200M frames [Schaul]"
    )

    def __post_init__(self) -> None:
        """Validates the settings."""
        super().__post_init__()
        require_finite_at_least_0(self, "priority_exponent")
        require_finite_above_0(self, "priority_floor")
        require_shares(self, "importance_exponent")
        require_at_least_1(self, "importance_until")
