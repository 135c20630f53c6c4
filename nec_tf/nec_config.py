"""The settings of NEC, each with its origin."""

import dataclasses
from typing import Any

import gin

from nec_tf import dnd, replay
from nec_tf.row_rmsprop import DECAY, EPSILON


def _setting(default: Any, explanation: str) -> Any:
    return dataclasses.field(default=default, metadata={"help": explanation})


@gin.configurable
@dataclasses.dataclass(frozen=True)
class NecConfig:
    """Settings of the agent, each with its origin; "ours" are argued in docs/algorithm.md."""

    # Paper, section 4.
    discount: float = _setting(0.99, "gamma, for a step [paper]")
    horizon: int = _setting(100, "N of the N-step returns, in steps [paper]")
    capacity: int = _setting(dnd.CAPACITY, "entries of each action's memory [paper]")
    num_neighbours: int = _setting(dnd.NUM_NEIGHBOURS, "p, neighbours of a lookup [paper]")
    replay_capacity: int = _setting(replay.CAPACITY, "states in the replay memory [paper]")
    batch_size: int = _setting(32, "states of an update [paper]")
    update_period: int = _setting(4, "steps from one update to the next: 16 frames [paper]")

    # Tuned in the paper but not given there.
    key_size: int = _setting(64, "length of a key [ours]")
    alpha: float = _setting(dnd.ALPHA, "step of the update of a known state's value [reported]")
    learning_rate: float = _setting(1e-4, "of the embedding network [ours]")
    keys_learning_rate: float = _setting(1e-4, "of stored keys; 0 leaves them as written [ours]")
    values_learning_rate: float = _setting(1e-2, "of stored values; 0 likewise [ours]")
    epsilon_start: float = _setting(1.0, "share of random actions at first [reported]")
    epsilon_end: float = _setting(0.01, "share of random actions in the end [ours]")
    epsilon_from: int = _setting(1_000, "step at which epsilon begins to fall [ours]")
    epsilon_until: int = _setting(10_000, "step at which epsilon is down [ours]")

    # Left open by the paper.
    learning_starts: int = _setting(2_000, "states in the replay before the first update [ours]")
    rmsprop_decay: float = _setting(DECAY, "of the mean square [reported]")
    rmsprop_epsilon: float = _setting(EPSILON, "inside the root [reported]")
    evaluation_epsilon: float = _setting(0.001, "share of random actions in evaluations [ours]")
    recognise_by_key: bool = _setting(
        False, "a state is known by its exact key [paper], not by its observation [ours]"
    )
    index: str = _setting("scann", "who finds neighbours: scann or exact")

    def __post_init__(self) -> None:
        """Refuses what cannot be meant."""
        for name in ("horizon", "capacity", "num_neighbours", "replay_capacity", "batch_size"):
            _require(getattr(self, name) >= 1, f"{name} must be at least 1", getattr(self, name))
        for name in ("update_period", "key_size", "learning_starts"):
            _require(getattr(self, name) >= 1, f"{name} must be at least 1", getattr(self, name))
        for name in ("discount", "epsilon_start", "epsilon_end", "evaluation_epsilon"):
            value = getattr(self, name)
            _require(0.0 <= value <= 1.0, f"{name} must be between 0 and 1", value)
        for name in ("learning_rate", "keys_learning_rate", "values_learning_rate"):
            _require(getattr(self, name) >= 0, f"{name} must not be negative", getattr(self, name))
        _require(0.0 < self.alpha <= 1.0, "alpha must be above 0 and at most 1", self.alpha)
        _require(
            self.capacity >= self.num_neighbours,
            f"capacity must be at least num_neighbours ({self.num_neighbours})",
            self.capacity,
        )
        _require(
            self.epsilon_from < self.epsilon_until,
            f"epsilon_from must be before epsilon_until ({self.epsilon_until})",
            self.epsilon_from,
        )


def _require(right: bool, rule: str, value: Any) -> None:
    if not right:
        raise ValueError(f"{rule}, not {value}")
