"""The DQN agent: TF-Agents' own, with Nature DQN's optimizer, loss and exploration."""

from typing import Any

import gin
import numpy as np
import tensorflow as tf
from tf_agents.agents.dqn import dqn_agent
from tf_agents.networks import sequential
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts
from tf_agents.typing import types
from tf_agents.utils import common

from nec_tf.agents.dqn.config import DqnConfig
from nec_tf.agents.exploration import Exploration
from nec_tf.agents.policies import EpsilonGreedyPolicy
from nec_tf.agents.specs import require_num_actions, require_one_observation
from nec_tf.serving.freezing import Frozen
from nec_tf.serving.frozen_policy import FrozenPolicy, FrozenQNetwork


@gin.configurable
class DqnAgent(dqn_agent.DqnAgent):
    """TF-Agents' `DqnAgent` whose exploration is seeded and can be checkpointed.

    >>> import tensorflow as tf
    >>> from tf_agents.specs import BoundedTensorSpec
    >>> from tf_agents.trajectories import time_step as ts
    >>> from nec_tf import DqnAgent, DqnConfig, encoders
    >>> agent = DqnAgent(
    ...     ts.time_step_spec(tf.TensorSpec([4], tf.float32)),
    ...     BoundedTensorSpec([], tf.int64, 0, 1),
    ...     encoders.mlp([4], 16),
    ...     DqnConfig.small(),
    ...     seed=1,
    ... )
    >>> agent.policy.action(ts.restart(tf.zeros([1, 4]), batch_size=1)).action.shape
    TensorShape([1])

    Attributes:
        exploration: Random numbers and epsilon schedule.
    """

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec: types.NestedTensorSpec,
        embedding: tf.keras.Model,
        config: DqnConfig | None = None,
        seed: int | None = None,
        train_step_counter: tf.Variable | None = None,
    ) -> None:
        """Makes an agent with random weights.

        Args:
            time_step_spec: Time step spec of the environment.
            action_spec: One integer action from 0 to A - 1.
            embedding: From observations [B, ...] to the last hidden layer, before its ReLU.
            config: Settings.
            seed: Random seed of exploration and of the last layer's weights; None draws one.
            train_step_counter: Incremented by each `train`.
        """
        time_step_spec = tensor_spec.from_spec(time_step_spec)
        action_spec = tensor_spec.from_spec(action_spec)
        require_one_observation(time_step_spec.observation)
        num_actions = require_num_actions(action_spec)
        config = config or DqnConfig()
        self._evaluation_epsilon = config.evaluation_epsilon
        self.exploration = Exploration(config, seed)
        target = tf.keras.models.clone_model(embedding)
        super().__init__(
            time_step_spec,
            action_spec,
            q_network=_q_network(embedding, num_actions, seed, time_step_spec.observation),
            target_q_network=_q_network(target, num_actions, seed, time_step_spec.observation),
            # Nature DQN divides by a running standard deviation: that is RMSProp, centred.
            optimizer=tf.compat.v1.train.RMSPropOptimizer(
                config.learning_rate,
                config.rmsprop_decay,
                epsilon=config.rmsprop_epsilon,
                centered=True,
            ),
            target_update_period=config.target_period,
            td_errors_loss_fn=common.element_wise_huber_loss,  # "error clipping" of its paper
            gamma=config.discount,
            train_step_counter=train_step_counter,
        )
        self.initialize()

    def trackables(self) -> dict[str, Any]:
        """Returns what `tf.train.Checkpoint` has to save for an exact resume."""
        return {
            "q_network": self._q_network,
            "target_q_network": self._target_q_network,
            "optimizer": self._optimizer,
            "target_updates": self._update_target,
            "train_step_counter": self.train_step_counter,
            **self.exploration.trackables(),
        }

    def post_process_policy(self) -> FrozenPolicy:
        """Returns the greedy policy of the Q-network, of stock operations only."""
        network = FrozenQNetwork(self._q_network)
        return FrozenPolicy(self.time_step_spec, self.action_spec, network)

    def freeze(self, lookup: str, recall: float, states: np.ndarray) -> Frozen:
        """Returns the agent as it leaves training; there is no memory to look up."""
        del lookup, recall, states
        return Frozen(self.post_process_policy(), None, {"lookup": "none"})

    def _setup_policy(self, time_step_spec, action_spec, *settings):
        super()._setup_policy(time_step_spec, action_spec, *settings)  # makes the target's policy
        exploration, spec = self.exploration, (time_step_spec, action_spec, self._q_values)
        policy = EpsilonGreedyPolicy(
            *spec, self._evaluation_epsilon, exploration.evaluation_generator
        )
        collect_policy = EpsilonGreedyPolicy(*spec, exploration, exploration.generator)
        return policy, collect_policy

    def _q_values(self, observation: tf.Tensor) -> tf.Tensor:
        return self._q_network(observation, training=False)[0]


def _q_network(
    embedding: tf.keras.Model, num_actions: int, seed: int | None, observation: tf.TensorSpec
) -> sequential.Sequential:
    """Returns the last layers on an embedding: ReLU, and one linear output for each action."""
    initial = tf.keras.initializers.HeUniform(seed)
    last = tf.keras.layers.Dense(num_actions, kernel_initializer=initial)
    network = sequential.Sequential([embedding, tf.keras.layers.ReLU(), last], name="q_network")
    network.create_variables(_sampled(observation))
    return network


def _sampled(spec: tf.TensorSpec) -> tf.TensorSpec:
    """Returns a spec that TF-Agents can draw an observation from, to create variables.

    It adds 1 to the maximum. With NumPy 2 a scalar of 8 bits overflows; of an array of bounds,
    TF-Agents takes a Python integer.
    """
    if spec.dtype != tf.uint8:
        return spec
    bounded = tensor_spec.BoundedTensorSpec.from_spec(spec)
    low, high = (np.broadcast_to(bound, spec.shape) for bound in (bounded.minimum, bounded.maximum))
    return tensor_spec.BoundedTensorSpec(spec.shape, spec.dtype, low, high, spec.name)
