"""Epsilon-greedy exploration: how many actions are random at which step, and for how long."""

import dataclasses
import math
from typing import Any

import numpy as np
import tensorflow as tf

from nec_tf.settings import require, require_at_least_1, require_shares, setting

# Lengths n of repeated random actions have a probability of n^-1.5. Dabney et al. (2021) take
# n^-2; measured on the way to Frostbite's igloo, see docs/algorithm.md.
LENGTH_EXPONENT = 1.5


@dataclasses.dataclass(frozen=True)
class ExplorationConfig:
    """How epsilon falls: level, then in a line or by a power of the step, level again."""

    epsilon_start: float = setting(1.0, "share of random actions at first [reported]")
    epsilon_end: float = setting(0.01, "share of random actions in the end [ours]")
    epsilon_from: int = setting(1_000, "step at which epsilon begins to fall [ours]")
    epsilon_until: int = setting(10_000, "step at which epsilon is down [ours]")
    epsilon_fall: str = setting(
        "linear", "linear, or power: fast at first, a line where both scales are logarithmic"
    )
    evaluation_epsilon: float = setting(0.01, "share of random actions in evaluations [ours]")
    exploration_repeats: int = setting(
        1, "steps that a random action is repeated at most; 1 draws each step anew [paper]"
    )

    def __post_init__(self) -> None:
        """Refuses what cannot be meant."""
        require_at_least_1(self, "exploration_repeats")
        require_shares(self, "epsilon_start", "epsilon_end", "evaluation_epsilon")
        require(
            self.epsilon_from < self.epsilon_until,
            f"epsilon_from must be before epsilon_until ({self.epsilon_until})",
            self.epsilon_from,
        )
        falls = ("linear", "power")
        require(
            self.epsilon_fall in falls,
            f"epsilon_fall must be {' or '.join(falls)}",
            repr(self.epsilon_fall),
        )
        if self.epsilon_fall == "power":
            for name in ("epsilon_start", "epsilon_end", "epsilon_from"):
                value = getattr(self, name)
                require(value > 0, f"{name} must be above 0 where epsilon falls by a power", value)


class Exploration(tf.Module):
    """The chance in an agent's actions.

    Attributes:
        generator: Where it comes from in training.
        evaluation_generator: And in evaluations, so that these leave no trace in training.
        steps: How many the collect policy took.
        repeated: Random actions that last; None where each step's is drawn anew.
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
        repeats = config.exploration_repeats
        self.repeated = RepeatedActions(repeats, self.generator) if repeats > 1 else None

    def epsilon_at(self, step: tf.Tensor) -> tf.Tensor:
        """Returns the share of random actions at a step."""
        config = self._config
        step = tf.cast(step, tf.float32)
        if config.epsilon_fall == "power":
            step = tf.clip_by_value(step, config.epsilon_from, config.epsilon_until)
            share = math.log(config.epsilon_end / config.epsilon_start)
            power = share / math.log(config.epsilon_until / config.epsilon_from)
            return config.epsilon_start * (step / config.epsilon_from) ** power
        done = (step - config.epsilon_from) / (config.epsilon_until - config.epsilon_from)
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
        own = {"generator": self.generator, "steps": self.steps}
        return own if self.repeated is None else {**own, "repeated": self.repeated}


class RepeatedActions(tf.Module):
    """Random actions that last for several steps, so that chance can lead somewhere.

    Temporally extended epsilon-greedy exploration (Dabney et al., 2021). Epsilon stays the share of
    steps whose action is random: the longer random actions last, the less often one begins.

    Attributes:
        action: That is or was repeated last, in each environment, [B].
        left: How many steps it still lasts, [B].
    """

    def __init__(self, longest: int, generator: tf.random.Generator) -> None:
        """None is under way.

        Args:
            longest: Steps that an action lasts at most.
            generator: Source of chance.
        """
        super().__init__(name="repeated_actions")
        lengths = np.arange(1, longest + 1)
        chances = lengths**-LENGTH_EXPONENT / np.sum(lengths**-LENGTH_EXPONENT)
        self._mean = float(np.sum(lengths * chances))
        self._shorter = tf.constant(np.cumsum(chances)[:-1], tf.float32)  # than 2, 3, ..., longest
        self._generator = generator
        self.action = self._variable("action")
        self.left = self._variable("left")

    def __call__(
        self, epsilon: tf.Tensor, batch: tf.Tensor, num_actions: int
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Takes one step in a batch of environments.

        Returns:
            Whether its actions are random, bool [B], and which ones they are then, int32 [B].
        """
        left, action = (_of_size(state.read_value(), batch) for state in (self.left, self.action))
        idle = tf.equal(left, 0)
        begins = idle & (self._generator.uniform([batch]) < self.chance_to_begin(epsilon))
        length = 1 + tf.searchsorted(self._shorter, self._generator.uniform([batch]), "right")
        left = tf.where(begins, length, left)
        other = self._generator.uniform([batch], 0, num_actions, tf.int32)
        action = tf.where(begins, other, action)
        self.left.assign(tf.maximum(left - 1, 0))
        self.action.assign(action)
        return left > 0, action

    def chance_to_begin(self, epsilon: tf.Tensor) -> tf.Tensor:
        """Returns that of a step which is not random yet, for a share epsilon of random steps."""
        return epsilon / (epsilon + self._mean * (1.0 - epsilon))

    def _variable(self, name: str) -> tf.Variable:
        # Not of size 0: TensorFlow folds what is computed from an empty variable to a constant.
        none = tf.zeros([1], tf.int32)
        return tf.Variable(none, trainable=False, name=name, shape=tf.TensorShape([None]))


def _of_size(state: tf.Tensor, batch: tf.Tensor) -> tf.Tensor:
    """Returns the state of each environment; one that was not there before has zero."""
    missing = tf.zeros([tf.maximum(batch - tf.shape(state)[0], 0)], state.dtype)
    return tf.concat([state, missing], axis=0)[:batch]
