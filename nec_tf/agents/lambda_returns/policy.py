"""The policy that plays for training, and reports how probable its actions were."""

from typing import Any

import tensorflow as tf
from tf_agents.trajectories import policy_step
from tf_agents.trajectories import time_step as ts
from tf_agents.typing import types

from nec_tf.agents.policies import EpsilonGreedyPolicy

# TF-Agents' own convention for what a policy reports.
INFO_SPEC = policy_step.PolicyInfo(log_probability=tf.TensorSpec([], tf.float32, "log_probability"))


class BehaviourPolicy(EpsilonGreedyPolicy):
    """Epsilon-greedy; `info.log_probability` is `log mu(a_t | s_t)` of the action taken, [B]."""

    def _action(
        self, time_step: ts.TimeStep, policy_state: types.NestedTensor, seed: Any = None
    ) -> policy_step.PolicyStep:
        del seed
        q = self._q_values(time_step.observation)
        probabilities = self._probabilities(q)  # before the choice, which counts the step
        action = self._choose(q)
        taken = tf.gather(probabilities, action, batch_dims=1)
        info = policy_step.PolicyInfo(log_probability=tf.math.log(taken))
        return policy_step.PolicyStep(action, policy_state, info)

    def _distribution(
        self, time_step: ts.TimeStep, policy_state: types.NestedTensorSpec
    ) -> policy_step.PolicyStep:
        # A probability belongs to an action; TF-Agents' policies report 0 with a distribution too.
        info = policy_step.PolicyInfo(log_probability=tf.constant(0.0))
        return super()._distribution(time_step, policy_state)._replace(info=info)
