"""The settings of DQN, each with its origin."""

import dataclasses

import gin

from nec_tf.agents.exploration_config import ExplorationConfig
from nec_tf.agents.settings import (
    require,
    require_at_least_1,
    require_finite_above_0,
    require_finite_at_least_0,
    require_shares,
    setting,
)


@gin.configurable
@dataclasses.dataclass(frozen=True)
class DqnConfig(ExplorationConfig):
    """Settings of Nature DQN, Extended Data Table 1; what it calls a frame is a step here.

    Compared with the authors' Lua code (github.com/kuz/DeepMind-Atari-Deep-Q-Learner, `run_gpu`)
    and with DQN Zoo (github.com/google-deepmind/dqn_zoo, `dqn/run_atari.py`). Both count the period
    of the target in steps where the table says updates. In DQN Zoo epsilon begins to fall with the
    first update, 50,000 steps later than here.

    >>> DqnConfig().batch_size
    32
    """

    discount: float = setting(0.99, "gamma, for a step [Nature DQN]")
    key_size: int = setting(512, "units of the layer before the Q-values [Nature DQN]")
    replay_capacity: int = setting(1_000_000, "steps in the replay memory [Nature DQN]")
    batch_size: int = setting(32, "steps of a minibatch [Nature DQN]")
    update_period: int = setting(4, "steps between updates [Nature DQN]")
    target_period: int = setting(
        2_500, "updates between copies to the target [10,000 steps: DQN's code, Dopamine, DQN Zoo]"
    )
    learning_rate: float = setting(2.5e-4, "learning rate of the network [Nature DQN]")
    learning_starts: int = setting(50_000, "steps before the first update [Nature DQN]")
    rmsprop_decay: float = setting(0.95, "decay of mean and mean square [Nature DQN]")
    rmsprop_epsilon: float = setting(
        0.01 / 32**2,
        "inside the root [Nature DQN's 0.01, whose loss is the sum of 32, not the mean]",
    )
    epsilon_end: float = setting(0.1, "final share of random actions [Nature DQN]")
    epsilon_from: int = setting(0, "step at which epsilon begins to fall [Nature DQN]")
    epsilon_until: int = setting(
        1_000_000, "step at which epsilon reaches its final value [Nature DQN]"
    )

    def __post_init__(self) -> None:
        """Validates the settings."""
        super().__post_init__()
        require_at_least_1(
            self, "key_size", "batch_size", "update_period", "target_period", "learning_starts"
        )
        require_shares(self, "discount", "rmsprop_decay")
        require_finite_at_least_0(self, "learning_rate")
        require_finite_above_0(self, "rmsprop_epsilon")
        require(
            self.batch_size <= self.replay_capacity,
            f"batch_size must be at most replay_capacity ({self.replay_capacity})",
            self.batch_size,
        )
        require(
            self.replay_capacity >= max(2, self.learning_starts),
            f"replay_capacity must be at least learning_starts ({self.learning_starts})",
            self.replay_capacity,
        )
