"""Which environments an agent can act in: specs are checked once, with a message that helps."""

import tensorflow as tf
from tf_agents.typing import types


def require_num_actions(action_spec: types.NestedTensorSpec) -> int:
    """Returns the number of actions A of a spec; refuses all but one integer from 0 to A - 1."""
    supported = "supported is one integer action from 0 to A - 1"
    specs = tf.nest.flatten(action_spec)
    if len(specs) != 1:
        raise ValueError(f"the action_spec has {len(specs)} tensors; {supported}")
    (spec,) = specs
    if not spec.dtype.is_integer:
        raise ValueError(f"the action_spec is continuous ({spec.dtype.name}); {supported}")
    if spec.shape.rank != 0:
        raise ValueError(f"the action_spec has the shape {spec.shape}; {supported}")
    if int(spec.minimum) != 0:
        raise ValueError(f"the action_spec starts at {int(spec.minimum)}; {supported}")
    if spec is not action_spec:
        raise ValueError(f"the action_spec is a nest, {action_spec}; {supported}, not in a nest")
    return int(spec.maximum) + 1


def require_one_observation(observation_spec: types.NestedTensorSpec) -> None:
    """Refuses observations that are not one tensor."""
    if not isinstance(observation_spec, tf.TypeSpec):
        raise ValueError(
            f"the observation must be one tensor, not a nest ({observation_spec});"
            " tf_agents.environments.wrappers.FlattenObservationsWrapper makes one of it"
        )


def require_keys(embedding: tf.keras.Model, observation_spec: tf.TensorSpec, key_size: int) -> None:
    """Builds an embedding and refuses one whose keys [B, key_size] are of another shape."""
    keys = embedding(tf.zeros([1, *observation_spec.shape], observation_spec.dtype))
    if keys.shape != [1, key_size]:
        raise ValueError(
            f"the embedding must give keys of the shape [B, {key_size}] (key_size), but for one"
            f" observation it gives {list(keys.shape)}"
        )
