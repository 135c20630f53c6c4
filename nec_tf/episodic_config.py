"""Settings that every agent with an episodic memory has."""

import dataclasses
from typing import Any

from nec_tf import dnd


def setting(default: Any, explanation: str) -> Any:
    """A field of a configuration; the explanation says what it is and where it is from."""
    return dataclasses.field(default=default, metadata={"help": explanation})


@dataclasses.dataclass(frozen=True)
class EpisodicConfig:
    """How an agent acts, what it writes, and how it looks up."""

    discount: float = setting(0.99, "gamma, for a step [paper]")
    horizon: int = setting(100, "N of the N-step returns, in steps [paper]")
    capacity: int = setting(dnd.CAPACITY, "entries of each action's memory [paper]")
    num_neighbours: int = setting(dnd.NUM_NEIGHBOURS, "p, neighbours of a lookup [paper]")
    key_size: int = setting(64, "length of a key [ours]")
    epsilon_start: float = setting(1.0, "share of random actions at first [reported]")
    epsilon_end: float = setting(0.01, "share of random actions in the end [ours]")
    epsilon_from: int = setting(1_000, "step at which epsilon begins to fall [ours]")
    epsilon_until: int = setting(10_000, "step at which epsilon is down [ours]")
    evaluation_epsilon: float = setting(0.001, "share of random actions in evaluations [ours]")
    recognise_by_key: bool = setting(
        False, "a state is known by its exact key [paper], not by its observation [ours]"
    )
    index: str = setting("scann", "who finds neighbours: scann or exact")

    def __post_init__(self) -> None:
        """Refuses what cannot be meant."""
        self.require_at_least_1("horizon", "capacity", "num_neighbours", "key_size")
        for name in ("discount", "epsilon_start", "epsilon_end", "evaluation_epsilon"):
            value = getattr(self, name)
            require(0.0 <= value <= 1.0, f"{name} must be between 0 and 1", value)
        require(
            self.capacity >= self.num_neighbours,
            f"capacity must be at least num_neighbours ({self.num_neighbours})",
            self.capacity,
        )
        require(
            self.epsilon_from < self.epsilon_until,
            f"epsilon_from must be before epsilon_until ({self.epsilon_until})",
            self.epsilon_from,
        )

    def require_at_least_1(self, *names: str) -> None:
        """Refuses settings below 1."""
        for name in names:
            require(getattr(self, name) >= 1, f"{name} must be at least 1", getattr(self, name))


def require(right: bool, rule: str, value: Any) -> None:
    """Refuses a value that breaks a rule, by name."""
    if not right:
        raise ValueError(f"{rule}, not {value}")
