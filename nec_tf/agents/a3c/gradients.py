"""From a network and a rollout to the gradients of an update."""

import tensorflow as tf
from tf_agents.agents import tf_agent
from tf_agents.trajectories import trajectory

from nec_tf.agents.a3c.config import A3cConfig
from nec_tf.agents.a3c.loss import a3c_loss


def total_loss(
    network: tf.keras.Model, experience: trajectory.Trajectory, config: A3cConfig
) -> tf_agent.LossInfo:
    """Returns the weighted loss of trajectories [B, T + 1], and as `extra` its parts."""
    rows = tf.shape(experience.observation)[:2]
    flat = tf.reshape(experience.observation, [-1, *network.input_shape[1:]])
    logits, values = network(flat)
    logits = tf.reshape(logits, [*tf.unstack(rows), logits.shape[-1]])
    parts = a3c_loss(experience, logits, tf.reshape(values, rows), config.discount)
    loss = (
        parts.policy_loss
        + config.value_loss_weight * parts.value_loss
        - config.entropy_weight * parts.entropy
    )
    return tf_agent.LossInfo(loss, parts)


def clipped_gradients(
    network: tf.keras.Model, experience: trajectory.Trajectory, config: A3cConfig
) -> tuple[tf_agent.LossInfo, list[tf.Tensor]]:
    """Returns the loss and its gradients by the network's weights, their common norm clipped."""
    with tf.GradientTape() as tape:
        info = total_loss(network, experience, config)
    gradients = tape.gradient(info.loss, network.trainable_variables)
    return info, tf.clip_by_global_norm(gradients, config.max_gradient_norm)[0]
