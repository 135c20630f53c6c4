"""The settings of Q*(lambda) and Retrace(lambda), each with its origin."""

import dataclasses

import gin

from nec_tf.agents.dqn.config import DqnConfig
from nec_tf.agents.settings import require, require_at_least_1, require_shares, setting


@gin.configurable
@dataclasses.dataclass(frozen=True)
class QStarLambdaConfig(DqnConfig):
    """Q*(lambda): the network, optimizer, exploration and budget of updates are Nature DQN's.

    [Munos] is appendix F of Munos et al. (2016), seen in a reader's notes only. It compares
    Q*(lambda) and Retrace(lambda) with DQN at equal minibatches: 4 sequences of 16 steps, 64 steps.
    Q*(lambda) learns with lambda up to 0.5 and fails above.
    """

    sequence_length: int = setting(16, "steps of a replayed sequence [Munos]")
    batch_size: int = setting(2, "sequences of a minibatch: 32 steps in all, as in DQN [ours]")
    trace_decay: float = setting(
        0.5, "lambda; 0 makes one-step returns [Munos: the largest with which it learns]"
    )

    def __post_init__(self) -> None:
        """Validates the settings."""
        super().__post_init__()
        require_at_least_1(self, "sequence_length")
        require_shares(self, "trace_decay")
        require(
            self.learning_starts > self.sequence_length,
            f"learning_starts must be above sequence_length ({self.sequence_length})",
            self.learning_starts,
        )


@gin.configurable
@dataclasses.dataclass(frozen=True)
class RetraceLambdaConfig(QStarLambdaConfig):
    """Retrace(lambda): as Q*(lambda), for a target policy with a share of random actions."""

    trace_decay: float = setting(1.0, "lambda; 0 makes one-step returns [Munos]")
    target_epsilon: float = setting(
        0.1, "share of random actions of the target policy pi [ours: the final epsilon of mu]"
    )

    def __post_init__(self) -> None:
        """Validates the settings."""
        super().__post_init__()
        require_shares(self, "target_epsilon")
