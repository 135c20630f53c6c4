"""Settings of epsilon-greedy exploration, and the presets that all agents share."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Self

from nec_tf.agents.settings import (
    require,
    require_at_least_1,
    require_counts,
    require_finite_at_least_0,
    require_shares,
    require_types,
    setting,
)

_EPSILON_FALLS = ("linear", "power")

# Small problems of a few ten thousand steps, such as CartPole; measured, see docs/experiments.md.
_SMALL = {
    "key_size": 16,
    "replay_capacity": 20_000,
    "capacity": 50_000,
    "epsilon_from": 500,
    "epsilon_until": 5_000,
    "epsilon_fall": "linear",
    "exploration_repeats": 1,  # a pole falls within ten steps
    "learning_starts": 500,
    "vae_steps": 500,  # not after epsilon_from
    "values_learning_rate": 0.1,
    "importance_until": 30_000,  # the end of a run of trainers/train_gym.py
}


@dataclasses.dataclass(frozen=True)
class ExplorationConfig:
    """Epsilon is constant, then falls linearly or by a power of the step, then is constant."""

    epsilon_start: float = setting(1.0, "initial share of random actions [reported]")
    epsilon_end: float = setting(0.01, "final share of random actions [ours]")
    epsilon_from: int = setting(1_000, "step at which epsilon begins to fall [ours]")
    epsilon_until: int = setting(10_000, "step at which epsilon reaches its final value [ours]")
    epsilon_fall: str = setting(
        "linear",
        "linear, or power: fast at first, a straight line on logarithmic axes [linear: Nature DQN]",
    )
    evaluation_epsilon: float = setting(0.01, "share of random actions in evaluations [ours]")
    exploration_repeats: int = setting(
        1, "most steps that a random action is repeated; 1 draws a new one each step [paper]"
    )

    @classmethod
    def atari(cls, **overrides: Any) -> Self:
        """Returns the defaults: settings for Atari games, with the given ones replaced."""
        return cls(**overrides)

    @classmethod
    def small(cls, **overrides: Any) -> Self:
        """Returns settings for small problems such as CartPole, with the given ones replaced."""
        return cls.of_preset(_SMALL, overrides)

    @classmethod
    def of_preset(cls, preset: Mapping[str, Any], overrides: Mapping[str, Any]) -> Self:
        """Returns the settings of a preset that this class has, with some of them replaced."""
        names = {field.name for field in dataclasses.fields(cls)}
        own = {name: value for name, value in preset.items() if name in names}
        return cls(**{**own, **overrides})

    def __post_init__(self) -> None:
        """Validates the settings."""
        require_types(self)
        require_counts(self)
        require_at_least_1(self, "exploration_repeats")
        require_finite_at_least_0(self, "epsilon_from")
        require_shares(self, "epsilon_start", "epsilon_end", "evaluation_epsilon")
        require(
            self.epsilon_from < self.epsilon_until,
            f"epsilon_from must be before epsilon_until ({self.epsilon_until})",
            self.epsilon_from,
        )
        require(
            self.epsilon_fall in _EPSILON_FALLS,
            f"epsilon_fall must be {' or '.join(_EPSILON_FALLS)}",
            repr(self.epsilon_fall),
        )
        if self.epsilon_fall == "power":
            for name in ("epsilon_start", "epsilon_end", "epsilon_from"):
                value = getattr(self, name)
                require(value > 0, f"{name} must be above 0 with epsilon_fall='power'", value)
