"""Epsilon-greedy exploration: how many actions are random at which step, and by which chance."""

import dataclasses
from typing import Any

import tensorflow as tf

from nec_tf.settings import require, require_shares, setting


@dataclasses.dataclass(frozen=True)
class ExplorationConfig:
    """How epsilon falls: level, in a line, level."""

    epsilon_start: float = setting(1.0, "share of random actions at first [reported]")
    epsilon_end: float = setting(0.01, "share of random actions in the end [ours]")
    epsilon_from: int = setting(1_000, "step at which epsilon begins to fall [ours]")
    epsilon_until: int = setting(10_000, "step at which epsilon is down [ours]")
    evaluation_epsilon: float = setting(0.01, "share of random actions in evaluations [ours]")

    def __post_init__(self) -> None:
        """Refuses what cannot be meant."""
        require_shares(self, "epsilon_start", "epsilon_end", "evaluation_epsilon")
        require(
            self.epsilon_from < self.epsilon_until,
            f"epsilon_from must be before epsilon_until ({self.epsilon_until})",
            self.epsilon_from,
        )


class Exploration(tf.Module):
    """The chance in an agent's actions.

    Attributes:
        generator: Where it comes from in training.
        evaluation_generator: And in evaluations, so that these leave no trace in training.
        steps: How many the collect policy took.
    """

    def __init__(self, config: ExplorationConfig, seed: int | None) -> None:
        """At the first step; without a seed, chance differs every time."""
        super().__init__(name="exploration")
        self._config = config
        self.generator = (
            tf.random.Generator.from_non_deterministic_state()
            if seed is None
            else tf.random.Generator.from_seed(seed)
        )
        self.evaluation_generator = self.generator.split(1)[0]
        self.steps = tf.Variable(0, trainable=False, dtype=tf.int64, name="steps")

    def epsilon_at(self, step: tf.Tensor) -> tf.Tensor:
        """Returns the share of random actions at a step."""
        config = self._config
        length = config.epsilon_until - config.epsilon_from
        done = (tf.cast(step, tf.float32) - config.epsilon_from) / length
        fall = config.epsilon_start - config.epsilon_end
        return config.epsilon_start - fall * tf.clip_by_value(done, 0.0, 1.0)

    def next_epsilon(self, batch: tf.Tensor) -> tf.Tensor:
        """Counts the steps of a batch of environments and returns epsilon for them."""
        return self.epsilon_at(self.steps.assign_add(tf.cast(batch, tf.int64)))

    def end(self) -> None:
        """Acts with the last epsilon from now on."""
        self.steps.assign(max(int(self.steps), self._config.epsilon_until))

    def begin_evaluation(self, seed: int) -> None:
        """Makes the chance in evaluations start from a seed."""
        self.evaluation_generator.reset_from_seed(seed)

    def trackables(self) -> dict[str, Any]:
        """What `tf.train.Checkpoint` saves."""
        return {"generator": self.generator, "steps": self.steps}
