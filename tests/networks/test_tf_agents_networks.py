"""TF-Agents' own networks make the keys of our agents."""

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.networks import encoding_network, lstm_encoding_network, sequential
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts

from nec_tf import MfecAgent, MfecConfig, NecAgent, NecConfig
from nec_tf.agents.episodic_agent import Experience
from nec_tf.networks import encoders
from nec_tf.networks.tf_agents_networks import as_keras_model
from nec_tf.runtime.errors import UserError

KEY_SIZE = 3
OBSERVATION = tf.TensorSpec([4], tf.float32)
SPECS = ts.time_step_spec(OBSERVATION), tensor_spec.BoundedTensorSpec([], tf.int64, 0, 1)


def make_sequential():
    layers = [tf.keras.layers.Dense(8, "relu"), tf.keras.layers.Dense(KEY_SIZE)]
    return sequential.Sequential(layers)


def make_encoding():
    # Not its default, relu, also after the last layer: a key of zeros has no direction.
    return encoding_network.EncodingNetwork(
        OBSERVATION, fc_layer_params=(8, KEY_SIZE), activation_fn=tf.keras.activations.tanh
    )


both_networks = pytest.mark.parametrize("make", [make_sequential, make_encoding])


def states(count, seed=0):
    return np.random.default_rng(seed).normal(size=(count, 4)).astype(np.float32)


def filled_agent(network, **settings):
    """An agent with 20 entries."""
    config = NecConfig.small(key_size=KEY_SIZE, index="exact", learning_rate=0.01, **settings)
    agent = NecAgent(*SPECS, network, config, seed=1)
    keys = agent.embedding(states(20))
    ids = None if config.recognise_by_key else np.arange(20)
    agent.dnd.write(np.arange(20) % 2, keys, states(20)[:, 0], ids)
    return agent


def train(agent, steps=5):
    for seed in range(steps):
        batch = states(16, seed)
        valid = np.ones(16, bool)
        agent.train(Experience(batch, np.arange(16) % 2, 3.0 * batch[:, 0], valid))


@both_networks
def test_a_network_of_tf_agents_trains_with_averaging_and_has_keys_of_key_length(make):
    agent = filled_agent(make(), averaging=0.5, key_length=2.0)
    before = [weights.copy() for weights in agent.online_network.get_weights()]
    averaged = [weights.copy() for weights in agent.averaged_network.get_weights()]
    np.testing.assert_array_equal(before[0], averaged[0])
    train(agent)
    after = agent.online_network.get_weights()
    for old, new in zip(before, after, strict=True):
        assert (old != new).any()
    for old, new, online in zip(averaged, agent.averaged_network.get_weights(), after, strict=True):
        assert (old != new).any()
        assert (new != online).any()
    step = ts.restart(tf.constant(states(2)), 2)
    assert agent.policy.action(step).action.shape == [2]
    lengths = np.linalg.norm(agent.embedding(states(9)), axis=1)
    np.testing.assert_allclose(lengths, 2.0, rtol=1e-5)


@both_networks
def test_without_averaging_the_network_itself_is_trained(make):
    network = make()
    agent = filled_agent(network, averaging=0.0, key_length=0.0)
    before = network.get_weights()[0].copy()
    train(agent, steps=1)
    assert (network.get_weights()[0] != before).any()


@both_networks
def test_a_copy_starts_with_the_same_weights_in_other_variables(make):
    model = encoders.of_length(as_keras_model(make()), 1.0)
    keys = model(states(3))
    copy = tf.keras.models.clone_model(model)
    copy(states(3))
    copy.set_weights(model.get_weights())
    np.testing.assert_allclose(copy(states(3)), keys)
    copy.set_weights([weights + 1 for weights in copy.get_weights()])
    np.testing.assert_allclose(model(states(3)), keys)


@both_networks
def test_mfec_takes_a_network_of_tf_agents(make):
    agent = MfecAgent(*SPECS, make(), MfecConfig(key_size=KEY_SIZE, index="exact"), seed=1)
    assert agent.embedding(states(2)).shape == [2, KEY_SIZE]


def test_a_keras_model_is_returned_as_it_is():
    model = encoders.mlp((4,), KEY_SIZE)
    assert as_keras_model(model) is model


def test_a_recurrent_network_is_refused_with_a_reason():
    network = lstm_encoding_network.LSTMEncodingNetwork(OBSERVATION, lstm_size=(4,))
    with pytest.raises(UserError, match="is recurrent"):
        as_keras_model(network)
