import pytest
import tensorflow as tf
from tf_agents.specs import tensor_spec

from nec_tf.agents.specs import require_keys, require_num_actions, require_one_observation
from nec_tf.networks.encoders import mlp


def actions(low, high, dtype=tf.int64, shape=()):
    return tensor_spec.BoundedTensorSpec(shape, dtype, low, high)


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
def test_the_number_of_actions(dtype):
    assert require_num_actions(actions(0, 17, dtype)) == 18


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        (actions(-1, 1, tf.float32), "continuous"),
        ((actions(0, 1), actions(0, 1)), "2 tensors"),
        (actions(1, 4), "starts at 1"),
        (actions(0, 4, shape=(2,)), r"shape \(2,\)"),
        ([actions(0, 4)], "nest"),
    ],
)
def test_other_actions_are_refused_with_what_is_supported(spec, fault):
    with pytest.raises(ValueError, match=f"{fault}.*one integer action from 0 to A - 1"):
        require_num_actions(spec)


def test_a_nest_of_observations_is_refused():
    require_one_observation(tf.TensorSpec([3]))
    with pytest.raises(ValueError, match="one tensor"):
        require_one_observation({"a": tf.TensorSpec([3])})


def test_an_embedding_of_another_key_size_is_refused():
    require_keys(mlp((3,), 8), tf.TensorSpec([3]), 8)
    with pytest.raises(ValueError, match=r"\[B, 16\].*gives \[1, 8\]"):
        require_keys(mlp((3,), 8), tf.TensorSpec([3]), 16)
