"""The A3C agent: shared weights, the loss, and updates by anyone who has a copy of the weights."""

from typing import Any

import gin
import numpy as np
import tensorflow as tf
from tf_agents.agents import tf_agent
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts
from tf_agents.trajectories import trajectory
from tf_agents.typing import types

from nec_tf.agents.a3c.config import A3cConfig
from nec_tf.agents.a3c.gradients import clipped_gradients, total_loss
from nec_tf.agents.a3c.policy import SoftmaxPolicy
from nec_tf.agents.a3c.shared_rmsprop import SharedRMSProp
from nec_tf.agents.exploration import new_generator
from nec_tf.agents.specs import require_keys, require_num_actions, require_one_observation
from nec_tf.networks.actor_critic import actor_critic
from nec_tf.serving.freezing import Frozen
from nec_tf.serving.frozen_policy import FrozenActorCritic, FrozenSoftmaxPolicy


@gin.configurable
class A3cAgent(tf_agent.TFAgent):
    """Advantage actor-critic with n-step returns (Mnih et al., 2016).

    `train` takes trajectories [B, T + 1]: T steps and the row after them. TF-Agents has no such
    agent: its `ReinforceAgent` learns from whole episodes and its `PPOAgent` has another loss.

    Attributes:
        config: Settings.
        network: The shared weights: from observations [B, ...] to logits [B, A] and values [B].
        optimizer: Shared statistics.
        steps: Steps trained on, which anneal the learning rate.
        evaluation_generator: Random numbers of `policy`.
    """

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec: types.NestedTensorSpec,
        embedding: tf.keras.Model,
        config: A3cConfig | None = None,
        seed: int | None = None,
        train_step_counter: tf.Variable | None = None,
    ) -> None:
        """Makes an agent with random weights.

        Args:
            time_step_spec: Time step spec of the environment.
            action_spec: One integer action from 0 to A - 1.
            embedding: From observations [B, ...] to the last hidden layer [B, config.key_size],
                before its ReLU.
            config: Settings.
            seed: Random seed of actions and of the last layers' weights; None draws one.
            train_step_counter: Incremented by each update.
        """
        time_step_spec = tensor_spec.from_spec(time_step_spec)
        action_spec = tensor_spec.from_spec(action_spec)
        require_one_observation(time_step_spec.observation)
        self.config = config or A3cConfig()
        require_keys(embedding, time_step_spec.observation, self.config.key_size)
        self.network = actor_critic(embedding, require_num_actions(action_spec), seed)
        self.optimizer = SharedRMSProp(
            self.network.trainable_variables, self.config.rmsprop_decay, self.config.rmsprop_epsilon
        )
        self._generator = new_generator(seed)
        self.evaluation_generator = self._generator.split(1)[0]
        self.steps = tf.Variable(0, trainable=False, dtype=tf.int64, name="steps")
        if train_step_counter is None:
            train_step_counter = tf.Variable(0, trainable=False, dtype=tf.int64, name="updates")
        specs = (time_step_spec, action_spec, lambda observation: self.network(observation)[0])
        super().__init__(
            time_step_spec,
            action_spec,
            policy=SoftmaxPolicy(*specs, self.evaluation_generator),
            collect_policy=SoftmaxPolicy(*specs, self._generator, "softmax_collect_policy"),
            train_sequence_length=None,
            train_step_counter=train_step_counter,
        )

    def learning_rate(self) -> tf.Tensor:
        """Returns the learning rate of the next update: it falls linearly to 0."""
        left = 1.0 - tf.cast(self.steps, tf.float32) / self.config.annealing_steps
        return self.config.learning_rate * tf.maximum(left, 0.0)

    def update(
        self, network: tf.keras.Model, experience: trajectory.Trajectory
    ) -> tf_agent.LossInfo:
        """Computes gradients with a copy of the weights and applies them to the shared weights.

        Args:
            network: The weights that acted, or the shared ones.
            experience: [B, T + 1].

        Returns:
            The loss, and as `extra` its parts, an `A3cLoss`.
        """
        info, gradients = clipped_gradients(network, experience, self.config)
        self.optimizer.apply(gradients, self.learning_rate())
        batch = tf.shape(experience.reward)[0]
        taken = tf.round(info.extra.steps * tf.cast(batch, tf.float32))  # the mean over the batch
        self.steps.assign_add(tf.cast(taken, tf.int64))
        self.train_step_counter.assign_add(1)
        return info

    def trackables(self) -> dict[str, Any]:
        """Returns what `tf.train.Checkpoint` has to save for an exact resume."""
        return {
            "network": self.network,
            "optimizer": self.optimizer,
            "generator": self._generator,
            "steps": self.steps,
            "train_step_counter": self.train_step_counter,
        }

    def split_generator(self, count: int) -> list[tf.random.Generator]:
        """Returns independent sources of random numbers, one for each worker."""
        return self._generator.split(count)

    def post_process_policy(self) -> FrozenSoftmaxPolicy:
        """Returns the most probable action of each state, by stock operations only."""
        network = FrozenActorCritic(self.network)
        return FrozenSoftmaxPolicy(self.time_step_spec, self.action_spec, network)

    def freeze(self, lookup: str, recall: float, states: np.ndarray) -> Frozen:
        """Returns the agent as it leaves training; there is no memory to look up."""
        del lookup, recall, states
        return Frozen(self.post_process_policy(), None, {"lookup": "none"})

    def _loss(
        self,
        experience: trajectory.Trajectory,
        weights: types.Tensor | None = None,
        training: bool = False,
    ) -> tf_agent.LossInfo:
        del weights, training
        return total_loss(self.network, experience, self.config)

    def _train(
        self, experience: trajectory.Trajectory, weights: types.Tensor | None = None
    ) -> tf_agent.LossInfo:
        del weights
        return self.update(self.network, experience)
