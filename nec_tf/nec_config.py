"""The settings of NEC, each with its origin."""

import dataclasses

import gin

from nec_tf import dnd, replay
from nec_tf.episodic_config import EpisodicConfig
from nec_tf.row_rmsprop import DECAY, EPSILON
from nec_tf.settings import require, require_at_least_1, setting


@gin.configurable
@dataclasses.dataclass(frozen=True)
class NecConfig(EpisodicConfig):
    """Settings of the agent, each with its origin; "ours" are argued in docs/algorithm.md."""

    # Paper, section 4.
    replay_capacity: int = setting(replay.CAPACITY, "states in the replay memory [paper]")
    batch_size: int = setting(32, "states of an update [paper]")
    update_period: int = setting(4, "steps from one update to the next: 16 frames [paper]")

    # Tuned in the paper but not given there.
    alpha: float = setting(dnd.ALPHA, "step of the update of a known state's value [reported]")
    learning_rate: float = setting(3e-4, "of the embedding network [ours]")
    averaging: float = setting(
        0.99, "decay of the mean of the network's weights that makes keys; 0 for the newest [ours]"
    )
    key_length: float = setting(
        3.0, "length of all keys, which keeps them from running away; 0 for any [ours]"
    )
    centred_screens: bool = setting(
        True, "the mean of the first screens is taken off all, when learning starts [ours]"
    )
    centred_gradients: bool = setting(
        False, "updates never move all keys of a minibatch together [ours]"
    )
    keys_learning_rate: float = setting(1e-4, "of stored keys; 0 leaves them as written [ours]")
    values_learning_rate: float = setting(1.0, "of stored values; 0 likewise [ours]")

    # Left open by the paper.
    epsilon_until: int = setting(250_000, "step at which epsilon is down [ours]")
    epsilon_fall: str = setting(
        "power", "linear, or power: fast at first, a line where both scales are logarithmic [ours]"
    )
    exploration_repeats: int = setting(
        100, "steps that a random action is repeated at most; 1 draws each step anew [ours]"
    )
    learning_starts: int = setting(2_000, "states in the replay before the first update [ours]")
    rmsprop_decay: float = setting(DECAY, "of the mean square [reported]")
    rmsprop_epsilon: float = setting(
        EPSILON, "inside the root, for stored keys and values [reported]"
    )
    network_epsilon: float = setting(EPSILON, "inside the root, for the network [reported]")

    def __post_init__(self) -> None:
        """Refuses what cannot be meant."""
        super().__post_init__()
        require_at_least_1(
            self, "replay_capacity", "batch_size", "update_period", "learning_starts"
        )
        for name in ("learning_rate", "key_length", "keys_learning_rate", "values_learning_rate"):
            require(getattr(self, name) >= 0, f"{name} must not be negative", getattr(self, name))
        for name in ("rmsprop_epsilon", "network_epsilon"):
            require(getattr(self, name) > 0, f"{name} must be above 0", getattr(self, name))
        require(0.0 <= self.averaging < 1.0, "averaging must be 0 or below 1", self.averaging)
        require(0.0 < self.alpha <= 1.0, "alpha must be above 0 and at most 1", self.alpha)
