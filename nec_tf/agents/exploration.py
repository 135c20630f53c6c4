"""Epsilon-greedy exploration: the share of random actions at each step, and how long they last."""

import math
import secrets
from typing import Any

import numpy as np
import tensorflow as tf

from nec_tf.agents.exploration_config import ExplorationConfig

# A random action lasts n steps with a probability proportional to n^-1.5. Dabney et al. (2021) use
# n^-2; measured on the way to Frostbite's igloo, see docs/algorithm.md.
LENGTH_EXPONENT = 1.5


def new_generator(seed: int | None) -> tf.random.Generator:
    """Returns random numbers from a seed; None draws one.

    TensorFlow itself refuses to draw a seed once a run has made its operations deterministic.
    """
    return tf.random.Generator.from_seed(secrets.randbits(63) if seed is None else seed)


class Exploration(tf.Module):
    """The random numbers behind an agent's actions, and the epsilon schedule.

    Attributes:
        generator: Random numbers for training.
        evaluation_generator: Random numbers for evaluations, which leave no trace in training.
        steps: Steps that the collect policy took.
        repeated: Repeated random actions; None if each step draws a new one.
    """

    def __init__(self, config: ExplorationConfig, seed: int | None) -> None:
        """Starts at step 0; without a seed, every instance draws different numbers."""
        super().__init__(name="exploration")
        self._config = config
        self.generator = new_generator(seed)
        self.evaluation_generator = self.generator.split(1)[0]
        self.steps = tf.Variable(0, trainable=False, dtype=tf.int64, name="steps")
        repeats = config.exploration_repeats
        self.repeated = RepeatedActions(repeats, self.generator) if repeats > 1 else None

    def epsilon_at(self, step: tf.Tensor) -> tf.Tensor:
        """Returns epsilon at a step."""
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

    def epsilon_after(self, batch: tf.Tensor) -> tf.Tensor:
        """Returns epsilon for the next step of a batch of environments; counts nothing."""
        return self.epsilon_at(self.steps + tf.cast(batch, tf.int64))

    def next_epsilon(self, batch: tf.Tensor) -> tf.Tensor:
        """Counts one step of a batch of environments and returns epsilon for it."""
        return self.epsilon_at(self.steps.assign_add(tf.cast(batch, tf.int64)))

    def end(self) -> None:
        """Uses the final epsilon from now on."""
        self.steps.assign(max(int(self.steps), self._config.epsilon_until))

    def begin_evaluation(self, seed: int) -> None:
        """Seeds the random numbers of evaluations."""
        self.evaluation_generator.reset_from_seed(seed)

    def trackables(self) -> dict[str, Any]:
        """Returns what `tf.train.Checkpoint` saves."""
        own = {"generator": self.generator, "steps": self.steps}
        return own if self.repeated is None else {**own, "repeated": self.repeated}


class RepeatedActions(tf.Module):
    """Random actions that last several steps, so that exploration leads somewhere.

    Temporally extended epsilon-greedy exploration (Dabney et al., 2021). Epsilon stays the share of
    steps whose action is random: the longer random actions last, the less often one begins.

    Attributes:
        action: The random action repeated last, in each environment, [B].
        left: Steps that it still lasts, [B].
    """

    def __init__(self, longest: int, generator: tf.random.Generator) -> None:
        """Starts without a repeated action.

        Args:
            longest: Most steps that an action lasts.
            generator: Source of random numbers.
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
            True where the action is random, bool [B], and the random actions, int32 [B].
        """
        left, action = self._state(batch)
        idle = tf.equal(left, 0)
        begins = idle & (self._generator.uniform([batch]) < self.chance_to_begin(epsilon))
        length = 1 + tf.searchsorted(self._shorter, self._generator.uniform([batch]), "right")
        left = tf.where(begins, length, left)
        other = self._generator.uniform([batch], 0, num_actions, tf.int32)
        action = tf.where(begins, other, action)
        self.left.assign(tf.maximum(left - 1, 0))
        self.action.assign(action)
        return left > 0, action

    def probabilities(self, epsilon: tf.Tensor, greedy: tf.Tensor) -> tf.Tensor:
        """Returns the distribution from which the next call draws; changes nothing.

        Args:
            epsilon: Share of random steps.
            greedy: One-hot greedy actions, [B, A].

        Returns:
            [B, A].
        """
        left, action = self._state(tf.shape(greedy)[0])
        begins = self.chance_to_begin(epsilon)
        fresh = begins / tf.cast(tf.shape(greedy)[1], greedy.dtype) + (1.0 - begins) * greedy
        repeated = tf.one_hot(action, tf.shape(greedy)[1], dtype=greedy.dtype)
        return tf.where(left[:, None] > 0, repeated, fresh)

    def chance_to_begin(self, epsilon: tf.Tensor) -> tf.Tensor:
        """Returns the chance that an idle step begins a random action, for a share epsilon."""
        return epsilon / (epsilon + self._mean * (1.0 - epsilon))

    def _state(self, batch: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns steps left and actions, [B] each; zero for environments not seen before."""
        return _of_size(self.left.read_value(), batch), _of_size(self.action.read_value(), batch)

    def _variable(self, name: str) -> tf.Variable:
        # Not of size 0: TensorFlow folds what is computed from an empty variable to a constant.
        none = tf.zeros([1], tf.int32)
        return tf.Variable(none, trainable=False, name=name, shape=tf.TensorShape([None]))


def _of_size(state: tf.Tensor, batch: tf.Tensor) -> tf.Tensor:
    """Returns the first `batch` numbers of a state, padded with zeros."""
    missing = tf.zeros([tf.maximum(batch - tf.shape(state)[0], 0)], state.dtype)
    return tf.concat([state, missing], axis=0)[:batch]
