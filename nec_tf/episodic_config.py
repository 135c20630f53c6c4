"""Settings that every agent with an episodic memory has."""

import dataclasses

from nec_tf import dnd
from nec_tf.exploration import ExplorationConfig
from nec_tf.settings import require, require_at_least_1, require_shares, setting


@dataclasses.dataclass(frozen=True)
class EpisodicConfig(ExplorationConfig):
    """How an agent acts, what it writes, and how it looks up."""

    discount: float = setting(0.99, "gamma, for a step [paper]")
    horizon: int = setting(100, "N of the N-step returns, in steps [paper]")
    capacity: int = setting(dnd.CAPACITY, "entries of each action's memory [paper]")
    num_neighbours: int = setting(dnd.NUM_NEIGHBOURS, "p, neighbours of a lookup [paper]")
    key_size: int = setting(64, "length of a key [ours]")
    recognise_by_key: bool = setting(
        False, "a state is known by its exact key [paper], not by its observation [ours]"
    )
    index: str = setting("scann", "who finds neighbours: scann or exact")

    def __post_init__(self) -> None:
        """Refuses what cannot be meant."""
        super().__post_init__()
        require_at_least_1(self, "horizon", "capacity", "num_neighbours", "key_size")
        require_shares(self, "discount")
        require(
            self.capacity >= self.num_neighbours,
            f"capacity must be at least num_neighbours ({self.num_neighbours})",
            self.capacity,
        )
