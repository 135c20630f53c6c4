"""Policies over the memory's Q-values: greedy, and epsilon-greedy for collecting."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from tf_agents.policies import tf_policy
from tf_agents.trajectories import policy_step
from tf_agents.trajectories import time_step as ts
from tf_agents.typing import types

from nec_tf.exploration import RepeatedActions
from nec_tf.graphs import Graph, to_numpy


class NecInfo(NamedTuple):
    """What acting computed, so that nothing is computed twice.

    Attributes:
        key: `h`, [B, key_size].
        best_q: `max_a Q(s, a)`, [B].
    """

    key: Any
    best_q: Any


class QFunction(Protocol):
    """From observations [B, ...] to keys [B, key_size] and Q-values [B, A]; in one, or in parts."""

    def __call__(self, observation: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns keys and Q-values, in a graph or eagerly."""

    def keys(self, observation: tf.Tensor) -> tf.Tensor:
        """Returns the keys."""

    def candidates(self, keys: tf.Tensor) -> np.ndarray:
        """Returns who may be near to keys; never part of a graph."""

    def q_values(self, keys: tf.Tensor, candidates: tf.Tensor) -> tf.Tensor:
        """Returns the Q-values of keys."""


class EpsilonGreedyPolicy(tf_policy.TFPolicy):
    """With probability epsilon any action, otherwise one of the highest Q-value (the first)."""

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec: types.NestedTensorSpec,
        q_values: Callable[[tf.Tensor], tf.Tensor],
        epsilon: Callable[[tf.Tensor], tf.Tensor] | float,
        generator: tf.random.Generator,
        info_spec: NecInfo | tuple = (),
        name: str = "epsilon_greedy_policy",
        repeated: RepeatedActions | None = None,
    ) -> None:
        """A policy.

        Args:
            time_step_spec: As in every TF-Agents policy.
            action_spec: One integer from 0 to A - 1.
            q_values: From observations [B, ...] to Q-values [B, A].
            epsilon: A number, or what the number of states in the batch makes of it; called once
                for each batch, so that it can count steps.
            generator: Source of chance; it belongs to the agent and is checkpointed with it.
            info_spec: Of what is reported beside the action.
            name: Of the policy.
            repeated: Makes random actions last; without it each step's is drawn anew.
        """
        super().__init__(time_step_spec, action_spec, info_spec=info_spec, name=name)
        self._q_values = q_values
        self._epsilon = epsilon
        self._generator = generator
        self._repeated = repeated
        self._num_actions = int(self.action_spec.maximum) + 1

    def _q_and_info(self, observation: tf.Tensor) -> tuple[tf.Tensor, Any]:
        """Returns Q-values [B, A] and what to report."""
        return self._q_values(observation), ()

    def _action(
        self, time_step: ts.TimeStep, policy_state: types.NestedTensor, seed: Any = None
    ) -> policy_step.PolicyStep:
        del seed
        q, info = self._q_and_info(time_step.observation)
        return policy_step.PolicyStep(self._choose(q), policy_state, info)

    def _distribution(
        self, time_step: ts.TimeStep, policy_state: types.NestedTensorSpec
    ) -> policy_step.PolicyStep:
        q, info = self._q_and_info(time_step.observation)
        epsilon = self._epsilon_for(tf.shape(q)[0])
        greedy = tf.one_hot(tf.argmax(q, axis=-1), self._num_actions)
        probs = epsilon / self._num_actions + (1.0 - epsilon) * greedy
        distribution = tfp.distributions.Categorical(probs=probs, dtype=self.action_spec.dtype)
        return policy_step.PolicyStep(distribution, policy_state, info)

    def _choose(self, q: tf.Tensor) -> tf.Tensor:
        """Returns actions [B] by the Q-values [B, A]."""
        batch = tf.shape(q)[0]
        greedy = tf.argmax(q, axis=-1, output_type=self.action_spec.dtype)
        random, other = self._random_actions(batch)
        return tf.where(random, other, greedy)

    def _random_actions(self, batch: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns whether actions are random, [B], and which ones they are then, [B]."""
        if self._repeated is not None:
            random, other = self._repeated(self._epsilon_for(batch), batch, self._num_actions)
            return random, tf.cast(other, self.action_spec.dtype)
        chance = self._generator.uniform([batch])
        other = self._generator.uniform([batch], 0, self._num_actions, self.action_spec.dtype)
        return chance < self._epsilon_for(batch), other

    def _epsilon_for(self, batch: tf.Tensor) -> tf.Tensor:
        return tf.convert_to_tensor(
            self._epsilon(batch) if callable(self._epsilon) else self._epsilon, tf.float32
        )


class EpisodicPolicy(EpsilonGreedyPolicy):
    """Epsilon-greedy by a memory; reports keys and best Q-values where `info_spec` has them."""

    _q_values: QFunction

    def _q_and_info(self, observation: tf.Tensor) -> tuple[tf.Tensor, Any]:
        keys, q = self._q_values(observation)
        return q, self._info(keys, q)

    def _info(self, keys: tf.Tensor, q: tf.Tensor) -> NecInfo | tuple:
        return NecInfo(keys, tf.reduce_max(q, axis=-1)) if self.info_spec else ()

    def numpy_action(self) -> Callable[[ts.TimeStep, Any], policy_step.PolicyStep]:
        """Returns `action` from NumPy arrays to NumPy arrays, without Python inside of a graph.

        It does the same in two graphs, with the neighbour search between them: 0.7 ms a step less.
        """
        embed = Graph(self._q_values.keys)
        decide = Graph(self._decide)

        def action(time_step: ts.TimeStep, policy_state: Any = ()) -> policy_step.PolicyStep:
            keys = embed(time_step.observation)
            step = to_numpy(decide(keys, self._q_values.candidates(keys)))
            return step._replace(state=policy_state)

        return action

    def _decide(self, keys: tf.Tensor, candidates: tf.Tensor) -> policy_step.PolicyStep:
        q = self._q_values.q_values(keys, candidates)
        return policy_step.PolicyStep(self._choose(q), (), self._info(keys, q))
