import dataclasses

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from memories import assert_same_contents, contents
from small_environments import Counting
from tf_agents.trajectories import time_step as ts

from nec_tf.agents.n_step_driver import NStepDriver
from nec_tf.agents.nec.config import NecLearnerConfig
from nec_tf.agents.nec.learner import NecLearner
from nec_tf.environments.gymnasium_env import GymnasiumEnvironment
from nec_tf.memory.state_ids import hash_states
from nec_tf.networks import encoders
from nec_tf.runtime.errors import UserError

CONFIG = NecLearnerConfig(
    key_size=4,
    capacity=200,
    num_neighbours=5,
    horizon=4,
    learning_starts=30,
    batch_size=8,
    replay_capacity=100,
    index="exact",
)


def make_learner(environment, seed=0, config=CONFIG):
    specs = environment.time_step_spec(), environment.action_spec()
    tf.keras.utils.set_random_seed(seed)
    return NecLearner(*specs, encoders.mlp((1,), 4, seed=seed), config, seed)


def make_environment(count=1):
    return GymnasiumEnvironment([Counting(9) for _ in range(count)], seed=0)


def drive(learner, environment, steps, time_step=None):
    return learner.run(environment, steps, time_step)


@pytest.mark.parametrize("count", [1, 3])
def test_one_update_in_four_steps_once_there_is_enough_to_learn_from(count):
    environment = make_environment(count)
    learner = make_learner(environment)
    happened = watch_updates(learner)
    steps, begun, all_begun = 0, 0, 0

    def watch(experience):
        nonlocal steps, begun, all_begun
        before = steps
        steps += int(np.sum(experience.step_type != ts.StepType.LAST))
        due = steps // 4 - before // 4 if len(learner.replay) >= 30 else 0
        begun, all_begun = all_begun, happened.count("draw")
        assert all_begun - begun == due

    observers = [learner.observe, watch]
    NStepDriver(environment, learner.agent.collect_policy, observers).run(200)
    learner.finish_updates()
    assert happened.count("apply") == all_begun >= (steps - 30 - 2 * count * 9) // 4


def test_every_finished_step_reaches_memory_and_replay():
    environment = make_environment()
    learner = make_learner(environment)
    drive(learner, environment, 40)  # four episodes of nine steps, and the steps between
    metrics = learner.metrics()
    assert metrics["replay"] == 36
    assert metrics["memory"] <= 18  # nine states, two actions
    assert metrics["known_states"] == pytest.approx(1 - metrics["memory"] / 36)


@pytest.mark.parametrize("averaging", [0.0, 0.99])
def test_keys_have_the_length_that_is_set_after_training_too(averaging):
    environment = make_environment()
    config = dataclasses.replace(CONFIG, key_length=2.0, averaging=averaging, keys_learning_rate=0)
    learner = make_learner(environment, config=config)
    drive(learner, environment, 100)
    assert learner.metrics()["loss"] > 0
    keys = learner.agent.dnd.tables.keys.numpy()[1 : 1 + int(learner.agent.dnd.sizes.sum())]
    np.testing.assert_allclose(np.linalg.norm(keys, axis=1), 2.0, rtol=1e-5)
    assert len(np.unique(keys.round(3), axis=0)) > 5


class Screens(gymnasium.ObservationWrapper):
    """Counting, seen as a screen of which one pixel is lit; all others never change."""

    def __init__(self, length):
        super().__init__(Counting(length))
        self.observation_space = gymnasium.spaces.Box(0, 255, (6, 6, 1), np.uint8)

    def observation(self, observation):
        return self.screen(int(observation[0]))

    @staticmethod
    def screen(number):
        screen = np.full((6, 6, 1), 128, np.uint8)
        screen.flat[number] = 255
        return screen


def screens_learner(environment, **settings):
    """A learner of screens of which nothing moves but by their mean."""
    rates = ("learning_rate", "keys_learning_rate", "values_learning_rate")
    config = dataclasses.replace(CONFIG, **dict.fromkeys(rates, 0.0), **settings)
    network = tf.keras.Sequential(
        [
            tf.keras.layers.InputLayer((6, 6, 1), dtype=tf.uint8),
            encoders.CentredPixels(),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(4),
        ]
    )
    specs = environment.time_step_spec(), environment.action_spec()
    return NecLearner(*specs, network, config, 0)


def entries(learner):
    """Keys and values of what the memory holds, by state and action."""
    tables = learner.agent.dnd.tables
    rows = np.arange(1, int(tables.size))
    ids, actions = (tables.read(column, rows) for column in (tables.state_ids, tables.actions))
    keys, values = (tables.read(column, rows) for column in (tables.keys, tables.values))
    return dict(zip(zip(ids, actions, strict=True), zip(keys, values, strict=True), strict=True))


def test_when_learning_starts_every_state_is_written_again_less_the_mean_screen():
    environment = GymnasiumEnvironment([Screens(30)], seed=0)
    learner = screens_learner(environment)
    time_step, before, mean = None, {}, encoders.pixels_of(learner.agent.embedding).mean
    while not learner.agent.screens_centred:
        before = entries(learner)
        np.testing.assert_array_equal(mean, 0.0)
        time_step = drive(learner, environment, 1, time_step)
    after = entries(learner)
    assert len(before) == 30  # an episode: learning starts in the next one
    assert mean.numpy().flat[0] == pytest.approx(128 + 127 / 30)
    assert mean.numpy().flat[35] == 128
    for known, (key, value) in before.items():
        assert after[known][1] == pytest.approx(value)
        assert not np.allclose(after[known][0], key)
    while len(learner.replay) == 30:
        time_step = drive(learner, environment, 1, time_step)  # up to what had waited then
    screens = np.stack([Screens.screen(number) for number in range(30)])
    possible = learner.agent.embedding(screens).numpy()
    keys = np.stack([key for key, _ in entries(learner).values()])
    far = np.linalg.norm(keys[:, None] - possible[None], axis=2).min(axis=1)
    assert far.max() < 1e-4, "a key is not what the network makes of any state now"


def test_a_network_from_elsewhere_keeps_its_mean_screen():
    environment = GymnasiumEnvironment([Screens(9)], seed=0)
    learner = screens_learner(environment)
    learner.agent.embedding_replaced()
    drive(learner, environment, 100)
    np.testing.assert_array_equal(encoders.pixels_of(learner.agent.embedding).mean, 0.0)


def test_metrics_are_means_since_the_last_call_and_named():
    environment = make_environment()
    learner = make_learner(environment)
    drive(learner, environment, 100)
    metrics = {**learner.metrics(), **learner.diagnose(0)}
    assert set(metrics) == set(learner.METRICS)
    assert "loss" not in learner.metrics()


def test_a_restored_learner_goes_on_from_exactly_what_was_saved(tmp_path):
    first, second = (make_learner(make_environment(), seed) for seed in (0, 5))
    drive(first, make_environment(), 100)
    first.metrics()
    first.finish_updates()
    path = tf.train.Checkpoint(**first.trackables()).write(str(tmp_path / "model"))
    np.savez(tmp_path / "arrays.npz", **first.arrays())
    tf.train.Checkpoint(**second.trackables()).read(path).assert_existing_objects_matched()
    with np.load(tmp_path / "arrays.npz") as arrays:
        second.restore_arrays(dict(arrays))
    restarted = make_learner(make_environment())
    for learner in (first, second, restarted):
        learner.window = learner.new_window()  # unfinished episodes are not checkpointed
        drive(learner, make_environment(), 60)
    assert first.metrics() == second.metrics()
    assert first.metrics() != restarted.metrics()


def watch_updates(learner):
    """Notes what happens to the network and the memory, in its order."""
    happened = []

    def note(name, function):
        def noted(*arguments):
            happened.append(name)
            return function(*arguments)

        return noted

    learner._updates.finish_oldest = note("apply", learner._updates.finish_oldest)
    learner.replay.draw = note("draw", learner.replay.draw)
    learner.agent.write = note("write", learner.agent.write)
    return happened


@pytest.mark.parametrize(("count", "together"), [(1, 3), (8, 8), (12, 12)])
def test_updates_are_finished_when_others_are_due_and_before_a_write(count, together):
    environment = make_environment(count)
    learner = make_learner(environment)
    happened = watch_updates(learner)
    drive(learner, environment, 120)
    under_way = most = 0
    for event in happened:
        under_way += {"draw": 1, "apply": -1, "write": 0}[event]
        most = max(most, under_way)  # the newest are drawn first
        assert event != "write" or under_way == 0
    assert most == together
    assert happened.count("apply") > 15


def test_diagnosing_the_memory_leaves_no_trace():
    runs = []
    for looks in (False, True):
        environment = make_environment()
        learner = make_learner(environment)
        time_step = drive(learner, environment, 60)
        learner.metrics()
        if looks:
            diagnostics = learner.diagnose(3)
            assert diagnostics["recall"] == 1.0
            assert diagnostics["key_drift"] > 0.0
        drive(learner, environment, 40, time_step)
        runs.append([variable.numpy() for variable in learner.agent.embedding.variables])
    for one, other in zip(*runs, strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_empty_memory_has_no_diagnostics():
    assert make_learner(make_environment()).diagnose(3) == {}


def test_beginning_an_evaluation_only_seeds_it(monkeypatch):
    learner = make_learner(make_environment())
    drive(learner, make_environment(), 60)
    monkeypatch.setattr(learner.agent.dnd, "neighbours", None)  # a lookup would raise
    learner.begin_evaluation(3)
    assert "recall" not in learner.metrics()


@pytest.mark.parametrize("count", [1, 3])
def test_running_and_observing_behind_a_driver_are_the_same(count):
    tables = []
    for run in (True, False):
        environment = make_environment(count)
        learner = make_learner(environment)
        if run:
            learner.run(environment, 120)
        else:
            NStepDriver(environment, learner.agent.collect_policy, [learner.observe]).run(120)
        learner.finish_updates()
        tables.append(contents(learner.agent.dnd))
        assert learner.metrics()["loss"] > 0
    assert_same_contents(*tables)


def test_what_is_saved_does_not_apply_updates():
    environment = make_environment()
    learner = make_learner(environment)
    happened = watch_updates(learner)
    time_step, pending = drive(learner, environment, 60), 0
    while not pending:  # a write at the end of an episode has finished all before
        time_step = drive(learner, environment, 1, time_step)
        pending = happened.count("draw") - happened.count("apply")
    learner.arrays()
    assert happened.count("draw") - happened.count("apply") == pending
    learner.finish_updates()
    assert happened.count("draw") == happened.count("apply")


class Paid(gymnasium.RewardWrapper):
    """Another scale of rewards."""

    def __init__(self, environment, factor):
        super().__init__(environment)
        self._factor = factor

    def reward(self, reward):
        return self._factor * float(reward)


def played(factor, steps=300, **settings):
    """Weights, keys, values and actions of a run whose rewards are multiplied by `factor`."""
    environment = GymnasiumEnvironment([Paid(Counting(9), factor)], seed=0)
    learner = make_learner(environment, config=dataclasses.replace(CONFIG, **settings))
    actions = []
    observe = [lambda step: actions.append(int(step.action[0]))]
    learner.run(environment, steps, observers=observe)
    learner.finish_updates()
    tables = learner.agent.dnd.tables
    size = int(tables.size)
    weights = np.concatenate([w.ravel() for w in learner.agent.online_network.get_weights()])
    return weights, tables.keys.numpy()[:size], tables.values.numpy()[:size], actions


def test_with_scaled_returns_all_rewards_times_128_leave_the_course_of_learning_unchanged():
    """128 is a power of 2, so not even the rounding may differ."""
    weights, keys, values, actions = played(1.0, scaled_returns=True)
    same_weights, same_keys, larger_values, same_actions = played(128.0, scaled_returns=True)
    np.testing.assert_array_equal(weights, same_weights)
    np.testing.assert_array_equal(keys, same_keys)
    np.testing.assert_array_equal(128.0 * values, larger_values)
    assert actions == same_actions


def test_with_scaled_returns_all_rewards_times_100_change_no_more_than_rounding_does():
    weights, keys, values, actions = played(1.0, scaled_returns=True)
    others = played(100.0, scaled_returns=True)
    np.testing.assert_allclose(others[0], weights, atol=1e-4)
    np.testing.assert_allclose(others[1], keys, atol=1e-4)
    np.testing.assert_allclose(others[2], 100.0 * values, rtol=1e-4, atol=0.1)
    assert others[3] == actions


def test_without_scaled_returns_the_scale_of_rewards_matters():
    assert np.abs(played(1.0)[0] - played(128.0)[0]).max() > 1e-3


def seen_by_updates(learner, environment, steps):
    """Pairs of state ids: those of each update's minibatch, and what it left out."""
    minibatch, seen = learner._minibatch, []

    def watched(states, shifts):
        result = minibatch(states, shifts)
        seen.append((hash_states(result.experience.observation), result.left_out))
        return result

    learner._minibatch = watched
    drive(learner, environment, steps)
    learner.finish_updates()
    return seen


@pytest.mark.parametrize("reach", [1, 3])
def test_an_update_leaves_out_its_own_states_and_those_around_them(reach):
    environment = make_environment()
    learner = make_learner(environment, config=dataclasses.replace(CONFIG, left_out_steps=reach))
    seen = seen_by_updates(learner, environment, 120)
    number_of = {hash_states(np.full((1, 1), t, np.float32)).item(): t for t in range(10)}
    assert len(seen) > 10
    for own, left_out in seen:
        assert left_out.shape == (8, 2 * reach - 1)
        np.testing.assert_array_equal(left_out[:, reach - 1], own)
        for state, ids in zip(own, left_out, strict=True):
            near = {(number_of[state.item()] + d) % 9 for d in range(1 - reach, reach)}
            newest = {number_of[i.item()] for i in ids}
            assert newest <= near  # episodes of nine states follow each other in the replay


def test_a_resumed_learner_leaves_out_the_same_states():
    environment = make_environment()
    config = dataclasses.replace(CONFIG, left_out_steps=2)
    saved, restored = (make_learner(environment, config=config) for _ in range(2))
    drive(saved, environment, 90)
    saved.finish_updates()
    restored.restore_arrays(saved.arrays())
    states = np.arange(70, 75)
    np.testing.assert_array_equal(restored._ids.around(states, 2), saved._ids.around(states, 2))


def test_updates_get_shifted_screens_and_the_memory_those_that_were_seen():
    environment = GymnasiumEnvironment([Screens(9)], seed=0)
    learner = screens_learner(environment, random_shifts=2)
    drive(learner, environment, 80)
    learner.finish_updates()
    states = np.arange(40)
    plain = learner._minibatch(states, None).experience.observation
    moved = learner._minibatch(states, np.full((40, 2), 1)).experience.observation
    mean = learner.agent.mean_screen()
    np.testing.assert_array_equal(moved[:, 0], np.broadcast_to(np.rint(mean[0]), moved[:, 0].shape))
    assert (plain != moved).any()
    seen = hash_states(np.stack([Screens.screen(number) for number in range(10)]))
    assert {state for state, _ in entries(learner)} <= set(seen)


def test_shifts_of_observations_that_are_no_screens_are_refused():
    with pytest.raises(UserError, match="screens"):
        make_learner(make_environment(), config=dataclasses.replace(CONFIG, random_shifts=2))
