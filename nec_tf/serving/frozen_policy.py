"""A frozen policy as a SavedModel that TF Serving runs and TF-Agents loads.

Signatures:
  serving_default   observation [B, ...] -> action [B], and what it was chosen by: q_values [B, A],
                    or logits [B, A] and value [B] of an actor-critic
  action            as TF-Agents' `PolicySaver` names it: a time step -> action
  explain           observation [B, ...] -> rows, weights, values, distances, all [B, A, p];
                    only for agents with a memory
"""

from typing import Any, Protocol

import tensorflow as tf
from absl import logging
from tf_agents.networks import network
from tf_agents.policies import policy_saver, tf_policy
from tf_agents.trajectories import policy_step
from tf_agents.trajectories import time_step as ts
from tf_agents.typing import types


class QFunction(Protocol):
    """A network from observations [B, ...] to Q-values [B, A], of stock operations only."""

    def q_values(self, observation: tf.Tensor) -> tf.Tensor:
        """Returns Q-values [B, A] of observations [B, ...]."""


class FrozenQNetwork(tf.Module):
    """The Q-network of an agent without a memory."""

    def __init__(self, network: network.Network) -> None:
        """Wraps a TF-Agents network; it is not copied."""
        super().__init__(name="frozen_q_network")
        self.network = network

    def q_values(self, observation: tf.Tensor) -> tf.Tensor:
        """Returns Q-values [B, A] of observations [B, ...]."""
        return self.network(observation, training=False)[0]


class FrozenActorCritic(tf.Module):
    """The network of an actor-critic agent."""

    def __init__(self, network: tf.keras.Model) -> None:
        """Wraps a network from observations to logits and values; it is not copied."""
        super().__init__(name="frozen_actor_critic")
        self.network = network

    def logits_and_value(self, observation: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the policy's logits [B, A] and values [B] of observations [B, ...]."""
        return self.network(observation, training=False)


class FrozenPolicy(tf_policy.TFPolicy):
    """The greedy policy of a frozen network; deterministic and without Python operations."""

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec: types.NestedTensorSpec,
        network: QFunction | FrozenActorCritic,
        name: str = "frozen_policy",
    ) -> None:
        """Makes a policy for time steps of the given spec."""
        super().__init__(time_step_spec, action_spec, name=name)
        self.network = network

    def _action(
        self, time_step: ts.TimeStep, policy_state: types.NestedTensor, seed: Any = None
    ) -> policy_step.PolicyStep:
        del seed
        action, _ = self.decide(time_step.observation)
        return policy_step.PolicyStep(action, policy_state)

    def _distribution(
        self, time_step: ts.TimeStep, policy_state: types.NestedTensorSpec
    ) -> policy_step.PolicyStep:
        # A SavedModel with a distribution could only be loaded with tensorflow_probability.
        raise NotImplementedError("a frozen policy is deterministic and has no distribution")

    def decide(self, observation: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns actions [B] and Q-values [B, A]; of equal Q-values the first wins.

        An observation that is not finite is an error: its Q-values would be NaN, and action 0
        would look like a decision.
        """
        q = self.network.q_values(_finite(observation))
        return self._first_of_highest(q), q

    def answer(self, observation: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the outputs of `serving_default` by name."""
        action, q = self.decide(observation)
        return {"action": action, "q_values": q}

    def _first_of_highest(self, scores: tf.Tensor) -> tf.Tensor:
        """Returns the action of the highest score in each row of [B, A]."""
        return tf.cast(tf.argmax(scores, axis=-1), self.action_spec.dtype)


class FrozenSoftmaxPolicy(FrozenPolicy):
    """The most probable action of a softmax policy; the logits are there to draw others."""

    network: FrozenActorCritic

    def decide(self, observation: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns actions [B] and logits [B, A]; of equal logits the first wins."""
        logits, _ = self.network.logits_and_value(_finite(observation))
        return self._first_of_highest(logits), logits

    def answer(self, observation: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the outputs of `serving_default` by name."""
        logits, value = self.network.logits_and_value(_finite(observation))
        return {"action": self._first_of_highest(logits), "logits": logits, "value": value}


def _finite(observation: tf.Tensor) -> tf.Tensor:
    """Returns an observation; one with NaN or infinity is an error."""
    if observation.dtype.is_floating:
        return tf.debugging.check_numerics(observation, "observation")
    return observation


def save(policy: FrozenPolicy, path: str, frames: int) -> None:
    """Writes a SavedModel into a new folder.

    Args:
        policy: The policy to save.
        path: The folder.
        frames: Frames that it was trained for, returned by `get_train_step`.
    """
    observation = policy.time_step_spec.observation
    spec = tf.TensorSpec([None, *observation.shape], observation.dtype, name="observation")

    @tf.function(input_signature=[spec])
    def serve(observation: tf.Tensor) -> dict[str, tf.Tensor]:
        return policy.answer(observation)

    verbosity = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)  # PolicySaver warns that there is no distribution
    train_step = tf.Variable(frames, trainable=False, dtype=tf.int64)
    saver = policy_saver.PolicySaver(policy, batch_size=None, train_step=train_step)
    saver.policy.network, saver.policy.serve = policy.network, serve
    saver.signatures["serving_default"] = serve
    neighbours = getattr(policy.network, "explain", None)  # of a network with a memory
    if neighbours is not None:
        explain = tf.function(
            lambda observation: neighbours(_finite(observation))._asdict(), [spec]
        )
        saver.policy.explain = saver.signatures["explain"] = explain
    saver.save(path)
    logging.set_verbosity(verbosity)
