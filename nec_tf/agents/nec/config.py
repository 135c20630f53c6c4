"""The settings of NEC, each with its origin: [paper], [reported] by others, or [ours].

docs/algorithm.md gives the evidence for those marked [ours].
"""

import dataclasses
from typing import Any, Self

import gin

from nec_tf.agents.episodic_config import EpisodicConfig
from nec_tf.agents.settings import (
    require,
    require_at_least_1,
    require_finite_above_0,
    require_finite_at_least_0,
    setting,
)
from nec_tf.memory.constants import ALPHA, RMSPROP_DECAY, RMSPROP_EPSILON
from nec_tf.runtime.processor import has_fast_bfloat16

_PRECISIONS = ("auto", "float32", "bfloat16")

# Where the paper, or details reported from one of its authors, differ from the defaults.
_PAPER = {
    "exploration_repeats": 1,  # [paper] section 3.2: each random action is drawn anew
    "recognise_by_key": True,  # [paper] sections 3.1 and 3.3: the exact same key
    "key_length": 0.0,  # [paper] has no limit of keys
    "centred_screens": False,  # [paper] takes whole screens
    "averaging": 0.0,  # [paper] has one network
    "key_size": 128,  # [reported]
    "learning_rate": 7.92e-6,  # [reported], of the network, keys and values
    "keys_learning_rate": 7.92e-6,
    "values_learning_rate": 7.92e-6,
    "epsilon_end": 0.001,  # [reported], as the three that follow
    "epsilon_from": 5_000,
    "epsilon_until": 25_000,
    "epsilon_fall": "linear",
    "learning_starts": 50_000,  # [reported]
}


@gin.configurable
@dataclasses.dataclass(frozen=True)
class NecConfig(EpisodicConfig):
    """Settings of `NecAgent`. The defaults are for Atari; `NecConfig.small()` is for CartPole.

    >>> NecConfig.small(horizon=50).horizon
    50
    """

    # Tuned in the paper, but the values are not given there.
    alpha: float = setting(ALPHA, "step size of a known state's value [reported]")
    learning_rate: float = setting(3e-4, "learning rate of the network [ours]")
    averaging: float = setting(
        0.99, "decay of the averaged network, which makes keys; 0 turns averaging off [ours]"
    )
    key_length: float = setting(
        3.0, "length of all keys, which keeps them bounded; 0 turns it off [ours]"
    )
    centred_screens: bool = setting(
        True, "subtract the mean of the first screens from all screens [ours]"
    )
    centred_gradients: bool = setting(
        False, "remove the gradient that all keys of a minibatch share [ours]"
    )
    scaled_returns: bool = setting(
        False, "take the loss and stored values in units of the returns' deviation [ours]"
    )
    keys_learning_rate: float = setting(1e-4, "learning rate of stored keys; 0 freezes them [ours]")
    values_learning_rate: float = setting(
        1.0,
        "learning rate of stored values, in points, or in deviations with scaled_returns; 0 freezes"
        " them [ours]",
    )

    # Left open by the paper.
    epsilon_until: int = setting(250_000, "step at which epsilon reaches its final value [ours]")
    epsilon_fall: str = setting(
        "power", "linear, or power: fast at first, a straight line on logarithmic axes [ours]"
    )
    exploration_repeats: int = setting(
        100, "most steps that a random action is repeated; 1 draws a new one each step [ours]"
    )
    rmsprop_decay: float = setting(RMSPROP_DECAY, "decay of RMSProp's mean square [reported]")
    rmsprop_epsilon: float = setting(
        RMSPROP_EPSILON, "RMSProp's epsilon for stored keys and values, inside the root [reported]"
    )
    network_epsilon: float = setting(
        RMSPROP_EPSILON, "RMSProp's epsilon for the network, inside the root [reported]"
    )
    precision: str = setting(
        "float32",
        "arithmetic of the network in updates: float32, bfloat16, or auto, which is bfloat16 on"
        " processors that have it; keys, weights and exports are float32 [ours]",
    )

    @classmethod
    def paper(cls, **overrides: Any) -> Self:
        """Returns the settings of the paper and its authors, with the given ones replaced."""
        return cls.of_preset(_PAPER, overrides)

    def __post_init__(self) -> None:
        """Validates the settings."""
        super().__post_init__()
        self._choose_precision()
        rates = ("learning_rate", "keys_learning_rate", "values_learning_rate")
        require_finite_at_least_0(self, *rates, "key_length")
        require_finite_above_0(self, "rmsprop_epsilon", "network_epsilon")
        require(
            0.0 <= self.averaging < 1.0, "averaging must be at least 0, below 1", self.averaging
        )
        require(0.0 < self.alpha <= 1.0, "alpha must be above 0 and at most 1", self.alpha)
        require(
            0.0 <= self.rmsprop_decay < 1.0,
            "rmsprop_decay must be at least 0, below 1",
            self.rmsprop_decay,
        )

    def _choose_precision(self) -> None:
        """Replaces "auto" by the precision of this processor, so that a run records it."""
        require(
            self.precision in _PRECISIONS,
            f"precision must be {', '.join(_PRECISIONS[:-1])} or {_PRECISIONS[-1]}",
            repr(self.precision),
        )
        if self.precision == "auto":
            fast = has_fast_bfloat16() and self.averaging > 0.0
            object.__setattr__(self, "precision", "bfloat16" if fast else "float32")
        require(
            self.averaging > 0.0 or self.precision == "float32",
            "precision must be float32 with averaging=0, where one network is trained and acts",
            self.precision,
        )


@gin.configurable
@dataclasses.dataclass(frozen=True)
class NecLearnerConfig(NecConfig):
    """Settings of `NecLearner`: those of the agent, and when and on what it trains."""

    replay_capacity: int = setting(100_000, "states in the replay memory [paper]")
    batch_size: int = setting(32, "states of a minibatch [paper]")
    update_period: int = setting(4, "steps between updates: 16 frames [paper]")
    learning_starts: int = setting(2_000, "states in the replay before the first update [ours]")
    left_out_steps: int = setting(
        0, "an update does not look up entries fewer than so many steps from its state [ours]"
    )
    random_shifts: int = setting(
        0, "most pixels by which updates shift screens at random, with centred_screens [ours]"
    )

    def __post_init__(self) -> None:
        """Validates the settings."""
        super().__post_init__()
        require_at_least_1(
            self, "replay_capacity", "batch_size", "update_period", "learning_starts"
        )
        require_finite_at_least_0(self, "left_out_steps", "random_shifts")
        require(
            not (self.left_out_steps and self.recognise_by_key),
            "left_out_steps needs states that are recognised by their observations: it must be 0"
            " with recognise_by_key",
            self.left_out_steps,
        )
        require(
            self.centred_screens or not self.random_shifts,
            "random_shifts moves what differs from the mean screen: it must be 0 without"
            " centred_screens",
            self.random_shifts,
        )
        require(
            self.batch_size <= self.replay_capacity,
            f"batch_size must be at most replay_capacity ({self.replay_capacity})",
            self.batch_size,
        )
        require(
            self.learning_starts <= self.replay_capacity,
            f"learning_starts must be at most replay_capacity ({self.replay_capacity}), or learning"
            " never starts",
            self.learning_starts,
        )
