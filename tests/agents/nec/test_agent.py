import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts

from nec_tf.agents.episodic_agent import Experience
from nec_tf.agents.n_step_window import NStepTuples
from nec_tf.agents.nec.agent import NecAgent, with_centred_gradient
from nec_tf.agents.nec.config import NecConfig, NecLearnerConfig
from nec_tf.networks import encoders
from nec_tf.runtime.errors import UserError

TIME_STEP_SPEC = ts.time_step_spec(tf.TensorSpec([3], tf.float32))
ACTION_SPEC = tensor_spec.BoundedTensorSpec([], tf.int64, 0, 1)
SMALL = NecConfig(key_size=4, capacity=100, num_neighbours=5, index="exact")


def make_agent(**settings):
    config = dataclasses.replace(SMALL, **settings)
    embedding = encoders.mlp((3,), config.key_size, seed=0)
    counter = tf.Variable(0, dtype=tf.int64)
    return NecAgent(TIME_STEP_SPEC, ACTION_SPEC, embedding, config, 0, counter)


def tuples(agent, count, seed=0):
    rng = np.random.default_rng(seed)
    observations = rng.normal(size=(count, 3)).astype(np.float32)
    return NStepTuples(
        0,
        observations,
        rng.integers(0, 2, count),
        observations.sum(1),
        agent.embedding(observations).numpy(),
    )


def experience(written):
    valid = np.ones(len(written.actions), bool)
    parts = (written.observations, written.actions, written.returns, valid)
    return Experience(*map(tf.constant, parts))


def test_acting_looks_up_every_action():
    agent = make_agent()
    agent.write(tuples(agent, 40))
    observation = np.ones((2, 3), np.float32)
    step = agent.collect_policy.action(ts.restart(tf.constant(observation), 2))
    keys = agent.embedding(observation)
    np.testing.assert_allclose(step.info.key, keys)
    np.testing.assert_allclose(step.info.best_q, tf.reduce_max(agent.dnd(keys), axis=-1))


def test_greedy_returns_report_the_q_of_the_action_taken_and_refuse_trajectories():
    agent = make_agent(greedy_returns=True, epsilon_start=1.0)
    agent.write(tuples(agent, 40))
    observation = np.random.default_rng(2).normal(size=(30, 3)).astype(np.float32)
    step = agent.collect_policy.action(ts.restart(tf.constant(observation), 30))
    q = agent.dnd(agent.embedding(observation), step.action)
    np.testing.assert_allclose(step.info.taken_q, q, rtol=1e-5)
    assert np.any(step.info.taken_q < step.info.best_q)
    spec = agent.collect_data_spec
    sequence = tf.nest.map_structure(lambda s: tf.zeros([2, 3, *s.shape], s.dtype), spec)
    with pytest.raises(ValueError, match="turn greedy_returns off"):
        agent.preprocess_sequence(sequence)


def test_loss_is_the_mean_squared_difference_from_the_returns():
    agent = make_agent()
    written = tuples(agent, 40)
    agent.write(written)
    q = agent.dnd(agent.embedding(written.observations), written.actions)
    loss = agent.loss(experience(written))
    np.testing.assert_allclose(loss.loss, np.mean((q - written.returns) ** 2), rtol=1e-5)
    np.testing.assert_allclose(loss.extra.q, np.mean(q), rtol=1e-5)


def test_training_lowers_the_loss_and_counts_each_step_once():
    agent = make_agent(learning_rate=1e-3, keys_learning_rate=1e-3, values_learning_rate=1e-2)
    agent.write(tuples(agent, 40))
    held = experience(tuples(agent, 64, seed=1))
    train = tf.function(agent.train)
    losses = [float(train(held).loss) for _ in range(150)]
    assert losses[-1] < 0.5 * losses[0]
    assert int(agent.train_step_counter) == 150


def test_a_centred_gradient_has_no_part_that_all_keys_share():
    keys = tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 9.0]])
    pulls = tf.constant([[3.0, -1.0], [0.0, -1.0], [0.0, 5.0]])
    with tf.GradientTape() as tape:
        tape.watch(keys)
        passed = with_centred_gradient(keys)
        loss = tf.reduce_sum(passed * pulls)
    np.testing.assert_array_equal(passed, keys)
    # By hand: the mean pull is (1, 1).
    np.testing.assert_allclose(tape.gradient(loss, keys), [[2, -2], [-1, -2], [-1, 4]])


@pytest.mark.parametrize("centred", [True, False])
def test_updates_do_not_move_states_that_look_alike_all_together(centred):
    # Two stored keys, and a minibatch of one state many times: all of it wants the same move.
    agent = make_agent(centred_gradients=centred, learning_rate=1e-2, averaging=0.0)
    agent.write(tuples(agent, 40))
    alike = np.tile(np.ones((1, 3), np.float32), (8, 1))
    batch = Experience(alike, np.zeros(8, np.int64), np.full(8, 9.0, np.float32), np.ones(8, bool))
    before = agent.embedding(alike[:1]).numpy()
    for _ in range(5):
        agent.train(tf.nest.map_structure(tf.constant, batch))
    moved = np.linalg.norm(agent.embedding(alike[:1]).numpy() - before)
    if centred:
        assert moved < 1e-5
    else:
        assert moved > 1e-2


@pytest.mark.parametrize("averaging", [0.0, 0.99])
def test_the_mean_screen_reaches_both_networks(averaging):
    specs = ts.time_step_spec(tf.TensorSpec([4, 4, 2], tf.uint8)), ACTION_SPEC
    network = tf.keras.Sequential(
        [
            tf.keras.layers.InputLayer((4, 4, 2), dtype=tf.uint8),
            encoders.CentredPixels(),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(4, use_bias=False),
        ]
    )
    agent = NecAgent(
        *specs, network, dataclasses.replace(SMALL, averaging=averaging, key_length=0.0)
    )
    screens = np.random.default_rng(0).integers(100, 200, (50, 4, 4, 2)).astype(np.uint8)
    assert not agent.screens_centred
    before = agent.embedding(screens).numpy()
    agent.centre_screens(np.array_split(screens, 3))
    assert agent.screens_centred
    # A linear map, as keys of any length are: the key of the mean screen is subtracted.
    for one in (agent.averaged_network, agent.online_network):
        np.testing.assert_allclose(one(screens), before - before.mean(axis=0), rtol=1e-3, atol=1e-4)


def test_where_there_is_no_screen_or_none_is_wanted_centred_nothing_is_to_do():
    assert make_agent().screens_centred
    specs = ts.time_step_spec(tf.TensorSpec([44, 44, 2], tf.uint8)), ACTION_SPEC
    network = encoders.nature_dqn((44, 44, 2), SMALL.key_size, seed=0)
    config = dataclasses.replace(SMALL, centred_screens=False)
    assert NecAgent(*specs, network, config).screens_centred


@pytest.mark.parametrize("moving", ["learning_rate", "keys_learning_rate", "values_learning_rate"])
def test_each_learning_rate_moves_its_own_part(moving):
    rates = dict.fromkeys(("learning_rate", "keys_learning_rate", "values_learning_rate"), 0.0)
    agent = make_agent(**(rates | {moving: 1e-2}))
    agent.write(tuples(agent, 40))
    parts = {
        "learning_rate": agent.embedding.trainable_variables[0],
        "keys_learning_rate": agent.dnd.tables.keys,
        "values_learning_rate": agent.dnd.tables.values,
    }
    before = {name: part.numpy() for name, part in parts.items()}
    agent.train(experience(tuples(agent, 32, seed=1)))
    moved = {name for name, part in parts.items() if (part.numpy() != before[name]).any()}
    assert moved == {moving}


@pytest.mark.parametrize("by_key", [True, False])
def test_a_state_that_comes_again_is_recognised(by_key):
    agent = make_agent(recognise_by_key=by_key, alpha=0.5)
    written = tuples(agent, 10)
    assert agent.write(written) == 0
    assert agent.write(written._replace(returns=written.returns + 2)) == 10
    assert agent.dnd.sizes.sum() == 10
    stored = np.sort(agent.dnd.tables.values.numpy()[1:11])
    np.testing.assert_allclose(stored, np.sort(written.returns + 1), rtol=1e-5)


def test_the_observation_still_recognises_a_state_whose_key_drifted():
    agent = make_agent()
    written = tuples(agent, 10)
    agent.write(written)
    assert agent.write(written._replace(keys=written.keys + 1)) == 10
    np.testing.assert_allclose(agent.dnd.tables.keys.numpy()[1:11], written.keys + 1)


def test_epsilon_falls_from_start_to_end_as_the_agent_acts():
    line = {"epsilon_from": 10, "epsilon_until": 20, "epsilon_fall": "linear"}
    agent = make_agent(epsilon_start=1.0, epsilon_end=0.2, **line)
    assert [round(float(agent.exploration.epsilon_at(s)), 3) for s in (0, 10, 15, 20, 99)] == [
        *(1, 1, 0.6, 0.2, 0.2)
    ]
    agent.collect_policy.action(ts.restart(tf.zeros([6, 3]), 6))
    assert int(agent.exploration.steps) == 6
    agent.policy.action(ts.restart(tf.zeros([6, 3]), 6))
    assert int(agent.exploration.steps) == 6


def test_evaluation_leaves_no_trace_in_the_memory_or_in_the_chance_of_training():
    agent = make_agent()
    agent.write(tuples(agent, 40))
    stamps, state = agent.dnd.tables.stamps.numpy(), agent.exploration.generator.state.numpy()
    agent.policy.action(ts.restart(tf.zeros([6, 3]), 6))
    np.testing.assert_array_equal(agent.dnd.tables.stamps.numpy(), stamps)
    np.testing.assert_array_equal(agent.exploration.generator.state.numpy(), state)


def test_checkpoint_holds_everything_that_training_needs(tmp_path):
    first, second = make_agent(), make_agent()
    first.write(tuples(first, 40))
    held = experience(tuples(first, 32, seed=1))
    first.train(held)
    path = tf.train.Checkpoint(**first.trackables()).write(str(tmp_path / "model"))
    tf.train.Checkpoint(**second.trackables()).read(path).assert_existing_objects_matched()
    for _ in range(3):
        assert float(first.train(held).loss) == float(second.train(held).loss)
    actions = [a.collect_policy.action(ts.restart(tf.zeros([50, 3]), 50)) for a in (first, second)]
    np.testing.assert_array_equal(actions[0].action, actions[1].action)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("horizon", 0),
        ("capacity", 3),
        ("num_neighbours", 0),
        ("alpha", 0.0),
        ("discount", 1.5),
        ("learning_rate", -1.0),
        ("epsilon_end", 2.0),
        ("epsilon_from", 10**9),
        ("network_epsilon", 0.0),
        ("network_epsilon", float("inf")),
        ("learning_rate", float("nan")),
        ("learning_rate", "fast"),
        ("horizon", 10.5),
        ("horizon", True),
        ("horizon", None),
        ("recognise_by_key", 1),
        ("precision", "float16"),
    ],
)
def test_impossible_settings_are_refused_by_name(setting, value):
    with pytest.raises(ValueError, match=setting):
        dataclasses.replace(SMALL, **{setting: value})


def test_the_paper_s_settings_are_the_defaults():
    config = NecLearnerConfig()
    assert (config.discount, config.horizon, config.capacity) == (0.99, 100, 500_000)
    assert (config.num_neighbours, config.replay_capacity) == (50, 100_000)
    assert (config.batch_size, config.update_period) == (32, 4)


@pytest.mark.parametrize(
    "setting", ["replay_capacity", "batch_size", "update_period", "learning_starts"]
)
def test_settings_of_the_learner_are_no_settings_of_the_agent(setting):
    """The agent cannot honour them, so its configuration does not take them."""
    with pytest.raises(TypeError, match=setting):
        NecConfig(**{setting: 10})
    with pytest.raises(ValueError, match=setting):
        NecLearnerConfig(**{setting: 0})


def test_numbers_of_numpy_become_those_of_python():
    config = NecConfig(horizon=np.int64(7), learning_rate=np.float32(0.5), alpha=1)
    assert (type(config.horizon), type(config.learning_rate)) == (int, float)
    assert (config.horizon, config.learning_rate, config.alpha) == (7, 0.5, 1)


def test_a_minibatch_larger_than_the_replay_is_refused():
    with pytest.raises(ValueError, match="batch_size must be at most replay_capacity"):
        NecLearnerConfig(batch_size=10**12)


def test_a_replay_too_small_to_start_learning_is_refused():
    with pytest.raises(ValueError, match="learning_starts must be at most replay_capacity"):
        NecLearnerConfig(replay_capacity=100, learning_starts=101)


@pytest.mark.parametrize("length", [0.5, 3.0])
def test_keys_of_the_agent_have_the_length_of_its_configuration(length):
    agent = make_agent(key_length=length, keys_learning_rate=0.0)
    agent.write(tuples(agent, 40))
    for seed in range(3):
        agent.train(experience(tuples(agent, 16, seed)))
    observation = np.random.default_rng(0).normal(size=(9, 3)).astype(np.float32)
    info = agent.collect_policy.action(ts.restart(observation, 9)).info
    for keys in (info.key, agent.dnd.entries().keys, agent.online_network(observation)):
        np.testing.assert_allclose(np.linalg.norm(keys, axis=1), length, rtol=1e-5)


def test_presets_differ_where_atari_and_small_problems_do():
    atari, small = NecLearnerConfig.atari(), NecLearnerConfig.small(horizon=50)
    assert atari == NecLearnerConfig()
    assert (atari.exploration_repeats, small.exploration_repeats) == (100, 1)
    assert (atari.epsilon_fall, small.epsilon_fall) == ("power", "linear")
    assert (small.epsilon_until, small.replay_capacity, small.horizon) == (5_000, 20_000, 50)
    assert NecConfig.small().key_size == 16


def screens_agent(**settings):
    specs = ts.time_step_spec(tf.TensorSpec([44, 44, 2], tf.uint8)), ACTION_SPEC
    network = encoders.nature_dqn((44, 44, 2), SMALL.key_size, seed=0)
    return NecAgent(*specs, network, dataclasses.replace(SMALL, **settings))


@pytest.mark.parametrize("in_graph", [False, True])
def test_training_on_screens_that_were_never_centred_warns_once(in_graph, caplog):
    agent = screens_agent()
    screens = np.random.default_rng(0).integers(0, 256, (4, 44, 44, 2)).astype(np.uint8)
    batch = Experience(screens, np.zeros(4, np.int64), np.ones(4, np.float32), np.ones(4, bool))
    train = tf.function(agent.train) if in_graph else agent.train
    for _ in range(2):
        train(tf.nest.map_structure(tf.constant, batch))
    assert caplog.text.count("centre_screens") == 1
    caplog.clear()
    agent = screens_agent()
    agent.centre_screens([screens])
    agent.train(tf.nest.map_structure(tf.constant, batch))
    screens_agent(centred_screens=False).train(tf.nest.map_structure(tf.constant, batch))
    assert "centre_screens" not in caplog.text


def test_keys_are_made_by_the_running_mean_of_what_is_trained():
    agent = make_agent(averaging=0.9, learning_rate=1e-2)
    agent.write(tuples(agent, 40))
    means = agent.embedding.get_weights()
    for seed in range(3):
        agent.train(experience(tuples(agent, 16, seed)))
        newest = agent.online_network.get_weights()
        means = [0.9 * mean + 0.1 * new for mean, new in zip(means, newest, strict=True)]
    for mean, own in zip(means, agent.embedding.get_weights(), strict=True):
        np.testing.assert_allclose(own, mean, atol=1e-6)
    assert any((a != b).any() for a, b in zip(newest, agent.embedding.get_weights(), strict=True))
    observation = np.ones((2, 3), np.float32)
    acted = agent.collect_policy.action(ts.restart(tf.constant(observation), 2))
    np.testing.assert_allclose(acted.info.key, agent.embedding(observation))


def test_gradients_are_those_of_the_newest_weights():
    agent = make_agent(averaging=0.9)
    agent.write(tuples(agent, 40))
    for weight in agent.online_network.trainable_variables:
        weight.assign_add(0.1 * tf.ones_like(weight))
    held = experience(tuples(agent, 16, seed=1))
    info, _ = agent.gradients(held)
    q = agent.dnd(agent.online_network(held.observation), held.action)
    assert float(info.loss) == pytest.approx(float(tf.reduce_mean((q - held.returns) ** 2)), 1e-5)


def test_without_averaging_there_is_one_network():
    agent = make_agent(averaging=0.0)
    assert agent.online_network is agent.embedding


def test_weights_from_elsewhere_are_trained_on():
    agent = make_agent(averaging=0.9)
    agent.embedding.set_weights([weight + 1 for weight in agent.embedding.get_weights()])
    agent.embedding_replaced()
    networks = agent.online_network.get_weights(), agent.averaged_network.get_weights()
    for one, other in zip(*networks, strict=True):
        np.testing.assert_array_equal(one, other)


class Subclassed(tf.keras.Model):
    """Keras cannot make a second one."""

    def __init__(self, dense):
        super().__init__()
        self.dense = dense

    def call(self, inputs):
        return self.dense(inputs)


def test_a_network_that_cannot_be_averaged_is_refused_with_what_to_do():
    with pytest.raises(ValueError, match="averaging=0"):
        NecAgent(TIME_STEP_SPEC, ACTION_SPEC, Subclassed(tf.keras.layers.Dense(4)), SMALL, 0)
    config = dataclasses.replace(SMALL, averaging=0.0)
    NecAgent(TIME_STEP_SPEC, ACTION_SPEC, Subclassed(tf.keras.layers.Dense(4)), config, 0)


def test_averaging_of_one_would_never_learn():
    with pytest.raises(ValueError, match="averaging"):
        dataclasses.replace(SMALL, averaging=1.0)


def test_the_networks_epsilon_is_its_own():
    """Where gradients are far above the root of epsilon a step is the learning rate, below less."""
    moved = {}
    for epsilon in (1e-12, 1e6):
        agent = make_agent(learning_rate=1e-3, network_epsilon=epsilon, averaging=0.0)
        agent.write(tuples(agent, 40))
        before = [weight.copy() for weight in agent.embedding.get_weights()]
        agent.train(experience(tuples(agent, 64, seed=1)))
        after = agent.embedding.get_weights()
        moved[epsilon] = max(
            np.abs(new - old).max() for new, old in zip(after, before, strict=True)
        )
        assert agent._row_optimizer._epsilon == agent.config.rmsprop_epsilon
    # By hand: the mean square of a first gradient g is 1 + 0.05 (g^2 - 1), as v1 RMSProp starts at
    # one; with nothing added to it the step is the rate times g / sqrt(0.95 + 0.05 g^2).
    assert 1e-4 < moved[1e-12] < 1e-3 / np.sqrt(0.05)
    assert moved[1e6] < 1e-4


def test_auto_takes_the_precision_of_the_processor_and_records_it(monkeypatch):
    for fast, precision in ((True, "bfloat16"), (False, "float32")):
        monkeypatch.setattr("nec_tf.agents.nec.config.has_fast_bfloat16", lambda fast=fast: fast)
        assert NecConfig(precision="auto").precision == precision
        assert NecConfig(precision="float32").precision == "float32"
        assert NecConfig(precision="bfloat16").precision == "bfloat16"
        assert NecConfig(precision="auto", averaging=0.0).precision == "float32"


def test_one_network_that_is_trained_and_acts_is_float32():
    with pytest.raises(UserError, match="precision must be float32 with averaging=0"):
        make_agent(precision="bfloat16", averaging=0.0)


def test_bfloat16_changes_updates_by_rounding_only_and_everything_kept_is_float32():
    agents = [make_agent(precision=precision) for precision in ("float32", "bfloat16")]
    for agent in agents:
        agent.write(tuples(agent, 40))
        for _ in range(20):
            loss = agent.train(
                experience(tuples(agent, 40, seed=1))
            )  # states that it does not know
        assert {v.dtype for v in agent.online_network.variables} == {tf.float32}
        assert {v.dtype for v in agent.averaged_network.variables} == {tf.float32}
        assert agent.averaged_network.compute_dtype == "float32"
        assert np.isfinite(loss.loss)
    full, half = ([v.numpy() for v in agent.online_network.variables] for agent in agents)
    start = make_agent().online_network.get_weights()
    for a, b, before in zip(full, half, start, strict=True):
        assert not np.array_equal(a, b)
        # Updates go the same way: they differ by much less than they moved.
        assert np.linalg.norm(a - b) < 0.25 * np.linalg.norm(a - before)
