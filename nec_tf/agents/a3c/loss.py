"""The loss of A3C: pure functions of trajectories and of what the network makes of them.

Mnih et al. (2016), section 4 and Algorithm S3. A trajectory [B, T + 1] holds T steps; its last row
contributes only its observation, whose value ends the n-step returns.
"""

from typing import NamedTuple

import tensorflow as tf
from tf_agents.trajectories import time_step as ts
from tf_agents.trajectories import trajectory
from tf_agents.utils import value_ops


class A3cLoss(NamedTuple):
    """Sums over the T steps of a trajectory, means over the batch; scalars.

    Attributes:
        policy_loss: -log pi(a|s) (R - V(s)), V(s) taken as a constant.
        value_loss: (R - V(s))^2.
        entropy: Entropy of pi(.|s), in nats.
        value: V(s).
        steps: Steps added up; less than T after the end of an episode.
    """

    policy_loss: tf.Tensor
    value_loss: tf.Tensor
    entropy: tf.Tensor
    value: tf.Tensor
    steps: tf.Tensor


def n_step_returns(
    experience: trajectory.Trajectory, values: tf.Tensor, discount: float
) -> tf.Tensor:
    """Returns R_t = r_t + gamma r_(t+1) + ... + gamma^k V(s_(t+k)), [B, T].

    A sum ends at the last row, or at the end of an episode: with 0 if the episode terminated there
    (its discount is 0), with the value of its last observation if a time limit cut it off.

    Args:
        experience: [B, T + 1].
        values: V of its observations, [B, T + 1].
        discount: gamma.
    """
    ends = _ends(experience)
    # The row of an episode's last observation restarts the sum, from that observation's value.
    rewards = tf.where(ends, values, experience.reward)
    discounts = tf.where(ends, 0.0, discount * experience.discount)
    return value_ops.discounted_return(
        rewards[:, :-1], discounts[:, :-1], values[:, -1], time_major=False
    )


def a3c_loss(
    experience: trajectory.Trajectory, logits: tf.Tensor, values: tf.Tensor, discount: float
) -> A3cLoss:
    """Returns the parts of the loss.

    Args:
        experience: [B, T + 1]. Rows from one episode's end to the next one's start are skipped.
        logits: Of the policy, [B, T + 1, A].
        values: [B, T + 1].
        discount: gamma.
    """
    returns = tf.stop_gradient(n_step_returns(experience, values, discount))
    steps = tf.cast(~_ends(experience)[:, :-1], tf.float32)
    logits, values, actions = logits[:, :-1], values[:, :-1], experience.action[:, :-1]
    advantages = returns - values
    log_pi = tf.nn.log_softmax(logits)
    log_pi_a = tf.gather(log_pi, actions, batch_dims=2)
    entropy = -tf.reduce_sum(tf.exp(log_pi) * log_pi, axis=-1)

    def total(terms: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(tf.reduce_sum(steps * terms, axis=1))

    return A3cLoss(
        policy_loss=total(-log_pi_a * tf.stop_gradient(advantages)),
        value_loss=total(tf.square(advantages)),
        entropy=total(entropy),
        value=total(values),
        steps=total(tf.ones_like(values)),
    )


def _ends(experience: trajectory.Trajectory) -> tf.Tensor:
    """Returns where a row is the end of an episode, which is no transition, [B, T + 1]."""
    return tf.equal(experience.step_type, ts.StepType.LAST)
