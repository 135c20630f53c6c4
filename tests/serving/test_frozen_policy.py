import numpy as np
import pytest
import tensorflow as tf
from memories import fill, make_dnd
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts

from nec_tf.networks.encoders import mlp
from nec_tf.serving.frozen_memory import FrozenNetwork, exact_memory
from nec_tf.serving.frozen_policy import FrozenPolicy, save


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    dnd = make_dnd(dtype="float32")
    fill(dnd, 20)
    policy = FrozenPolicy(
        ts.time_step_spec(tf.TensorSpec([5], tf.float32)),
        tensor_spec.BoundedTensorSpec([], tf.int64, 0, 1),
        FrozenNetwork(mlp((5,), 3, seed=1), exact_memory(dnd)),
    )
    path = str(tmp_path_factory.mktemp("saved") / "1")
    save(policy, path, frames=7)
    return tf.saved_model.load(path)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    ("signature", "answer"), [("serving_default", "q_values"), ("explain", "distances")]
)
def test_an_observation_that_is_not_finite_is_an_error_and_never_an_answer(
    saved, signature, answer, value
):
    serve = saved.signatures[signature]
    assert np.isfinite(serve(observation=tf.ones([2, 5]))[answer]).all()
    observation = np.ones((2, 5), np.float32)
    observation[1, 3] = value
    with pytest.raises(tf.errors.InvalidArgumentError, match="observation"):
        serve(observation=tf.constant(observation))
