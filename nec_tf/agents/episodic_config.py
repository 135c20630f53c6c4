"""Settings that all agents with an episodic memory share."""

import dataclasses

from nec_tf.agents.exploration_config import ExplorationConfig
from nec_tf.agents.settings import require, require_at_least_1, require_shares, setting
from nec_tf.memory import constants


@dataclasses.dataclass(frozen=True)
class EpisodicConfig(ExplorationConfig):
    """How an agent acts, what it writes, and how it looks up."""

    discount: float = setting(0.99, "gamma, for a step [paper]")
    horizon: int = setting(100, "N of the N-step returns, in steps [paper]")
    greedy_returns: bool = setting(
        False, "end a return before a non-greedy action that earned less than the best Q [ours]"
    )
    capacity: int = setting(constants.CAPACITY, "entries of each action's memory [paper]")
    num_neighbours: int = setting(constants.NUM_NEIGHBOURS, "p, neighbours of a lookup [paper]")
    key_size: int = setting(64, "length of a key [ours]")
    recognise_by_key: bool = setting(
        False, "recognise a state by its exact key [paper], not by its observation [ours]"
    )
    index: str = setting("scann", "neighbour index: scann or exact [ours; the paper has a kd-tree]")

    def __post_init__(self) -> None:
        """Validates the settings."""
        super().__post_init__()
        require_at_least_1(self, "horizon", "capacity", "num_neighbours", "key_size")
        require_shares(self, "discount")
        require(
            self.capacity >= self.num_neighbours,
            f"capacity must be at least num_neighbours ({self.num_neighbours})",
            self.capacity,
        )
