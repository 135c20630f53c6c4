"""Double DQN (van Hasselt et al., 2016): the network chooses the next action, its copy rates it."""

from typing import Any

import gin
import tensorflow as tf
from tf_agents.trajectories import time_step as ts
from tf_agents.utils import common

from nec_tf.agents.dqn.agent import DqnAgent


@gin.configurable
class DoubleDqnAgent(DqnAgent):
    """`DqnAgent` with the target of Double DQN.

    TF-Agents' own `DdqnAgent` asks the agent's `policy` for the next action. Here that policy is
    the one of evaluations, with a share of random actions, so the greedy action is taken directly.
    """

    def _compute_next_q_values(self, next_time_steps: ts.TimeStep, info: Any) -> tf.Tensor:
        """Returns `Q_target(s', argmax_a Q(s', a))`, [B]."""
        del info
        best = tf.argmax(self._q_values(next_time_steps.observation), axis=-1)
        target = self._target_q_network(next_time_steps.observation, training=False)[0]
        return common.index_with_actions(target, best)
