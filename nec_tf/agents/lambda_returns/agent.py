"""DQN that learns returns of several steps, corrected for actions that its policy avoids."""

from collections.abc import Callable

import gin
import tensorflow as tf
from tf_agents.agents import tf_agent
from tf_agents.agents.dqn import dqn_agent
from tf_agents.trajectories import time_step as ts
from tf_agents.trajectories import trajectory
from tf_agents.typing import types
from tf_agents.utils import common

from nec_tf.agents.dqn.agent import DqnAgent
from nec_tf.agents.lambda_returns.config import QStarLambdaConfig
from nec_tf.agents.lambda_returns.policy import INFO_SPEC, BehaviourPolicy
from nec_tf.agents.returns import off_policy_returns, q_star_traces

# From pi(a_t | s_t) and mu(a_t | s_t), [...] each, and lambda to c_t, [...].
Traces = Callable[[tf.Tensor, tf.Tensor, float], tf.Tensor]


@gin.configurable
class LambdaAgent(DqnAgent):
    """`DqnAgent` whose targets are `off_policy_returns` of sequences out of a replay.

    Every step of a sequence is trained, each on its return up to the end of the sequence. All
    Q-values in the returns are the target network's, and so is the target policy pi.
    """

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec: types.NestedTensorSpec,
        embedding: tf.keras.Model,
        config: QStarLambdaConfig | None = None,
        seed: int | None = None,
        train_step_counter: tf.Variable | None = None,
        *,
        traces: Traces = q_star_traces,
        target_epsilon: float = 0.0,
    ) -> None:
        """Makes an agent with random weights.

        Args:
            time_step_spec: As in `DqnAgent`.
            action_spec: As in `DqnAgent`.
            embedding: As in `DqnAgent`.
            config: Settings.
            seed: As in `DqnAgent`.
            train_step_counter: As in `DqnAgent`.
            traces: The trace coefficients; by default those of Q*(lambda).
            target_epsilon: Share of random actions of pi; 0 is the greedy policy.
        """
        config = config or QStarLambdaConfig()
        self._traces = traces
        self._trace_decay = config.trace_decay
        self._target_epsilon = target_epsilon
        super().__init__(time_step_spec, action_spec, embedding, config, seed, train_step_counter)
        self._train_sequence_length = config.sequence_length + 1

    def _setup_policy(self, time_step_spec, action_spec, *settings):
        policy, _ = super()._setup_policy(time_step_spec, action_spec, *settings)
        spec = time_step_spec, action_spec, self._q_values
        exploration = self.exploration
        return policy, BehaviourPolicy(*spec, exploration, exploration.generator, INFO_SPEC)

    def _loss(
        self,
        experience: trajectory.Trajectory,
        td_errors_loss_fn: types.LossFn | None = None,
        gamma: float | None = None,
        reward_scale_factor: float = 1.0,
        weights: tf.Tensor | None = None,
        training: bool = False,
    ) -> tf_agent.LossInfo:
        """Returns the loss of sequences [B, T + 1, ...]; arguments as in TF-Agents' `DqnAgent`."""
        del td_errors_loss_fn, gamma, reward_scale_factor  # those of the agent
        returns = tf.stop_gradient(self.returns(experience))
        steps = tf.nest.map_structure(lambda tensor: tensor[:, :-1], experience)
        q = _in_time(lambda x: self._q_network(x, training=training)[0], steps.observation)
        predicted = tf.gather(q, steps.action, batch_dims=2)
        played = tf.cast(~steps.is_boundary(), tf.float32)
        td_error = played * (returns - predicted)
        td_loss = played * self._td_errors_loss_fn(returns, predicted)
        total = common.aggregate_losses(
            per_example_loss=td_loss,
            sample_weight=weights,
            regularization_loss=self._q_network.losses,
        ).total_loss
        return tf_agent.LossInfo(total, dqn_agent.DqnLossInfo(td_loss=td_loss, td_error=td_error))

    def returns(self, experience: trajectory.Trajectory) -> tf.Tensor:
        """Returns `G_t` of all but the last step of sequences [B, T + 1, ...], [B, T].

        The step between two episodes has no trace, so that no sum runs over it; its own return has
        no meaning.
        """
        q = _in_time(lambda x: self._target_q_network(x, training=False)[0], experience.observation)
        pi = self._target_probabilities(q)
        values = tf.reduce_sum(pi * q, axis=-1)
        taken = tf.gather(q, experience.action, batch_dims=2)
        target = tf.gather(pi, experience.action, batch_dims=2)
        behaviour = tf.exp(experience.policy_info.log_probability)
        played = tf.cast(~experience.is_boundary(), tf.float32)
        traces = played * self._traces(target, behaviour, self._trace_decay)
        return off_policy_returns(
            experience.reward[:, :-1],
            self._gamma * experience.discount[:, :-1],
            taken[:, :-1],
            values[:, 1:],
            traces[:, :-1],
        )

    def _target_probabilities(self, q: tf.Tensor) -> tf.Tensor:
        """Returns `pi(. | s)` for Q-values, [..., A]."""
        greedy = tf.one_hot(tf.argmax(q, axis=-1), self._num_actions)
        random = self._target_epsilon
        return random / self._num_actions + (1.0 - random) * greedy


def _in_time(network: Callable[[tf.Tensor], tf.Tensor], observation: tf.Tensor) -> tf.Tensor:
    """Applies a network from [n, ...] to [n, A] to observations [B, T, ...]; returns [B, T, A]."""
    outer = tf.shape(observation)[:2]
    flat = network(tf.reshape(observation, tf.concat([[-1], tf.shape(observation)[2:]], 0)))
    return tf.reshape(flat, tf.concat([outer, [flat.shape[-1]]], 0))
