"""The policy of A3C: actions are drawn from a softmax, when collecting and when evaluating."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow_probability as tfp
from tf_agents.policies import tf_policy
from tf_agents.trajectories import policy_step
from tf_agents.trajectories import time_step as ts
from tf_agents.typing import types

#: Of random numbers: the default of `tf.random.Generator` on every processor.
ALGORITHM = "philox"


class SoftmaxPolicy(tf_policy.TFPolicy):
    """Draws actions from softmax(logits).

    TF-Agents' `ActorPolicy` does the same with random numbers whose state cannot be saved.
    """

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec: types.NestedTensorSpec,
        logits: Callable[[tf.Tensor], tf.Tensor],
        generator: tf.random.Generator,
        name: str = "softmax_policy",
    ) -> None:
        """Makes a policy.

        Args:
            time_step_spec: As in every TF-Agents policy.
            action_spec: One integer from 0 to A - 1.
            logits: From observations [B, ...] to logits [B, A].
            generator: Source of random numbers; the agent owns and checkpoints it.
            name: Name of the policy.
        """
        super().__init__(time_step_spec, action_spec, name=name)
        self._logits = logits
        self._generator = generator

    def _action(
        self, time_step: ts.TimeStep, policy_state: types.NestedTensor, seed: Any = None
    ) -> policy_step.PolicyStep:
        del seed
        actions = sample(self._logits(time_step.observation), self._generator)
        return policy_step.PolicyStep(tf.cast(actions, self.action_spec.dtype), policy_state)

    def _distribution(
        self, time_step: ts.TimeStep, policy_state: types.NestedTensorSpec
    ) -> policy_step.PolicyStep:
        logits = self._logits(time_step.observation)
        distribution = tfp.distributions.Categorical(logits, dtype=self.action_spec.dtype)
        return policy_step.PolicyStep(distribution, policy_state)


def sample(logits: tf.Tensor, generator: tf.random.Generator) -> tf.Tensor:
    """Draws one action for each row of logits [B, A]; returns int64 [B]."""
    seed = generator.make_seeds(1)[:, 0]
    return tf.random.stateless_categorical(logits, 1, seed)[:, 0]
