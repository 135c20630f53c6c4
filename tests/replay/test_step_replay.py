import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from step_games import LAST, MID, Game, add
from tf_agents.trajectories import policy_step, trajectory

from nec_tf.replay.sequence_replay import SequenceReplay
from nec_tf.replay.step_replay import StepReplay


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 60), st.lists(st.integers(1, 9), min_size=1, max_size=3), st.integers(6, 90))
def test_pairs_follow_each_other_in_one_game_and_are_the_newest(capacity, lengths, count):
    replay = StepReplay(capacity, (1,), np.float32)
    games = [Game(1000 * (length + 1) * i, length) for i, length in enumerate(lengths)]
    for _ in range(count):
        add(replay, games)
    assert len(replay) == min(capacity, count * len(games))
    # Numbers of steps that are held, are played and have a successor that is held.
    wanted = set()
    added = [(t, g) for t in range(count) for g in range(len(games))]
    held = set(added[-capacity:])
    for t, g in held:
        between = t % (lengths[g] + 1) == lengths[g]
        if not between and (t + 1, g) in held:
            wanted.add(1000 * (lengths[g] + 1) * g + t)
    if not wanted:
        with pytest.raises(ValueError, match="followed each other"):
            replay.sample(np.random.default_rng(0), 10)
        return
    sample = replay.sample(np.random.default_rng(0), 1000)
    first, second = sample.observation[:, 0, 0], sample.observation[:, 1, 0]
    np.testing.assert_array_equal(second, first + 1)
    assert set(first.astype(int).tolist()) == wanted
    np.testing.assert_array_equal(sample.reward[:, 0], (first + 1) / 2)
    np.testing.assert_array_equal(sample.action[:, 0], (first + 1) % 3)
    np.testing.assert_array_equal(sample.discount[:, 0], sample.next_step_type[:, 0] != LAST)
    assert (sample.step_type[:, 0] != LAST).all()


def test_frames_are_stored_once_and_come_back_as_stacks():
    replay = StepReplay(50, (2, 2, 4), np.uint8)
    frames = np.random.default_rng(0).integers(0, 255, (24, 2, 2), np.uint8)
    stacks = [np.stack(frames[i : i + 4], axis=-1) for i in range(20)]
    for i, stack in enumerate(stacks):
        columns = {"action": i, "reward": i, "discount": 1, "step_type": MID, "next_step_type": MID}
        columns = {name: np.array([value]) for name, value in columns.items()}
        replay.add(trajectory.Trajectory(observation=stack[None], policy_info=(), **columns))
    sample = replay.sample(np.random.default_rng(1), 200)
    for pair, actions in zip(sample.observation, sample.action, strict=True):
        np.testing.assert_array_equal(pair, [stacks[i] for i in actions])
    assert len(replay.state()["frames"]) == 4 + 19


def test_a_restored_replay_samples_and_goes_on_the_same():
    first, second = (StepReplay(20, (1,), np.float32) for _ in range(2))
    game = Game(0, 5)
    for _ in range(30):
        add(first, [game])
    second.restore({name: array.copy() for name, array in first.state().items()})
    for replay in (first, second):
        game.time = 30
        add(replay, [game])
        add(replay, [game])
    samples = [replay.sample(np.random.default_rng(1), 64) for replay in (first, second)]
    np.testing.assert_array_equal(samples[0].observation, samples[1].observation)
    np.testing.assert_array_equal(samples[0].reward, samples[1].reward)


def test_what_comes_after_the_end_of_streams_does_not_follow():
    replay = StepReplay(20, (1,), np.float32)
    game = Game(0, 50)
    for i in range(6):
        if i == 3:
            replay.end_streams()
        add(replay, [game])
    firsts = replay.sample(np.random.default_rng(0), 200).observation[:, 0, 0]
    assert set(firsts.tolist()) == {0, 1, 3, 4}


def test_a_capacity_without_room_for_a_pair_is_refused():
    with pytest.raises(ValueError, match="capacity"):
        StepReplay(1, (1,), np.float32)


@settings(max_examples=60, deadline=None)
@given(st.integers(5, 60), st.lists(st.integers(1, 9), min_size=1, max_size=3), st.integers(1, 90))
def test_sequences_follow_each_other_and_run_over_the_ends_of_episodes(capacity, lengths, count):
    replay = SequenceReplay(capacity, (1,), np.float32, length=5)
    games = [Game(1000 * (length + 1) * i, length) for i, length in enumerate(lengths)]
    for _ in range(count):
        times = np.array([game.time for game in games], np.float32)
        add(replay, games, policy_step.PolicyInfo(log_probability=-times))
    held = {(t, g) for t in range(count) for g in range(len(games))}
    held = set(sorted(held)[-capacity:])
    wanted = {
        1000 * (lengths[g] + 1) * g + t
        for t, g in held
        if (t + 4, g) in held and t % (lengths[g] + 1) != lengths[g]
    }
    if not wanted:
        with pytest.raises(ValueError, match="no 5 steps that followed each other"):
            replay.sample(np.random.default_rng(0), 10)
        return
    sample = replay.sample(np.random.default_rng(0), 1000)
    found = sample.observation[..., 0]
    np.testing.assert_array_equal(found, found[:, :1] + np.arange(5))
    assert set(found[:, 0].astype(int).tolist()) == wanted
    np.testing.assert_array_equal(sample.policy_info.log_probability, -found)
    np.testing.assert_array_equal(sample.reward, (found + 1) / 2)


def test_a_restored_sequence_replay_has_the_probabilities():
    first, second = (SequenceReplay(20, (1,), np.float32, length=5) for _ in range(2))
    game = Game(0, 5)
    for i in range(30):
        add(first, [game], policy_step.PolicyInfo(np.float32([-i])))
    second.restore({name: array.copy() for name, array in first.state().items()})
    samples = [replay.sample(np.random.default_rng(1), 64) for replay in (first, second)]
    np.testing.assert_array_equal(*(s.policy_info.log_probability for s in samples))
    assert samples[0].policy_info.log_probability.min() < -20
