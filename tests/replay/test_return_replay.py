import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nec_tf.replay.return_replay import Replay


def episode(length, stack=4, start=0, size=3):
    """Stacked observations of an episode whose frame t is filled with start + t."""
    frames = [np.full((size, size), start, np.uint8)] * (stack - 1)
    frames += [np.full((size, size), start + t, np.uint8) for t in range(length)]
    return np.stack([np.stack(frames[t : t + stack], axis=-1) for t in range(length)])


def contents(replay, draws=2000):
    """Everything that sampling finds, as a set of (state bytes, action, return)."""
    sample = replay.sample(np.random.default_rng(0), draws)
    return {
        (state.tobytes(), int(action), float(value))
        for state, action, value in zip(*sample, strict=True)
    }


def expected(observations, actions, returns):
    return {
        (state.tobytes(), int(action), float(np.float32(value)))
        for state, action, value in zip(observations, actions, returns, strict=True)
    }


def test_samples_are_what_was_added():
    replay = Replay(50, (3, 3, 4), np.uint8)
    observations = episode(20)
    replay.add(0, observations, np.arange(20) % 3, np.arange(20) / 7)
    assert len(replay) == 20
    assert contents(replay) == expected(observations, np.arange(20) % 3, np.arange(20) / 7)


def test_each_frame_is_stored_once():
    replay = Replay(1000, (3, 3, 4), np.uint8)
    for start in range(3):  # in three pieces, as the N-step window hands them on
        replay.add(0, episode(90)[30 * start : 30 * start + 30], np.zeros(30), np.zeros(30))
    assert len(replay.state()["frames"]) == 4 + 89


def test_paper_scale_fits_into_a_gigabyte():
    replay = Replay(100_000, (84, 84, 4), np.uint8)
    assert replay.nbytes < 1e9


def test_only_the_newest_states_are_kept():
    replay = Replay(10, (3, 3, 4), np.uint8)
    observations = episode(25)
    replay.add(0, observations, np.zeros(25), np.arange(25))
    assert contents(replay) == expected(observations[15:], np.zeros(10), np.arange(15, 25))


def test_all_states_come_in_batches_the_oldest_first():
    replay = Replay(10, (3, 3, 4), np.uint8)
    observations = episode(25)
    replay.add(0, observations, np.arange(25) % 3, np.arange(25))
    batches = list(replay.in_batches(4))
    assert [len(batch.actions) for batch in batches] == [4, 4, 2]
    for column, added in enumerate((observations, np.arange(25) % 3, np.arange(25))):
        held = np.concatenate([batch[column] for batch in batches])
        np.testing.assert_array_equal(held, added[15:])


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 12),
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9)), min_size=1, max_size=12),
)
def test_streams_and_short_episodes_never_mix_up_states(capacity, pieces):
    replay = Replay(capacity, (2, 2, 4), np.uint8)
    added = []
    for number, (stream, length) in enumerate(pieces):
        observations = episode(length, start=17 * number % 240, size=2)
        returns = 100.0 * number + np.arange(length)
        replay.add(stream, observations, np.zeros(length), returns)
        added += [(s.tobytes(), 0, float(r)) for s, r in zip(observations, returns, strict=True)]
        found = contents(replay, 500)
        assert found == set(added[-len(replay) :])
        assert 1 <= len(replay) <= capacity


def test_vector_observations_are_stored_whole():
    replay = Replay(5, (4,), np.float32)
    observations = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
    replay.add(0, observations, np.arange(8), np.arange(8))
    assert contents(replay) == expected(observations[3:], np.arange(3, 8), np.arange(3, 8))


def test_restored_replay_samples_and_continues_the_same():
    first, second = (Replay(30, (3, 3, 4), np.uint8) for _ in range(2))
    first.add(0, episode(40), np.zeros(40), np.arange(40))
    second.restore({name: array.copy() for name, array in first.state().items()})
    more = episode(50)[40:]
    for replay in (first, second):
        replay.add(0, more, np.zeros(10), np.arange(10))
    samples = [replay.sample(np.random.default_rng(1), 64) for replay in (first, second)]
    for one, other in zip(*samples, strict=True):
        np.testing.assert_array_equal(one, other)
    assert first.state()["counters"].tolist() == second.state()["counters"].tolist()


def test_a_saved_replay_of_another_shape_is_refused():
    saved = Replay(5, (4,), np.float32)
    saved.add(0, np.zeros((2, 4)), np.zeros(2), np.zeros(2))
    with pytest.raises(ValueError, match="frames"):
        Replay(5, (3,), np.float32).restore(saved.state())


def test_capacity_below_one_is_refused():
    with pytest.raises(ValueError, match="capacity"):
        Replay(0, (4,), np.float32)


def test_sampling_is_uniform():
    replay = Replay(10, (1,), np.float32)
    replay.add(0, np.arange(10.0)[:, None], np.arange(10), np.arange(10))
    actions = replay.sample(np.random.default_rng(0), 20_000).actions
    assert np.abs(np.bincount(actions, minlength=10) - 2000).max() < 200


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int16, np.float32, np.int64])
@pytest.mark.parametrize("stack", [2, 3, 512, 513])
def test_stacks_of_every_kind_of_number_come_back_as_they_were(dtype, stack):
    rng = np.random.default_rng(stack)
    frames = rng.integers(-(2**40), 2**40, (stack + 4, 2, 3)).astype(dtype)
    observations = np.stack([np.stack(frames[t : t + stack], axis=-1) for t in range(5)])
    replay = Replay(8, observations.shape[1:], dtype)
    replay.add(0, observations, np.arange(5), np.arange(5))
    states = np.array([4, 0, 2, 2])
    got = replay.get(states)
    assert got.observations.dtype == dtype
    assert got.observations.flags.c_contiguous
    np.testing.assert_array_equal(got.observations, observations[states])
    np.testing.assert_array_equal(got.actions, states)
