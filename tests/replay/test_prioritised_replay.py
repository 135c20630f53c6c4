"""Prioritised replay against weights worked out by hand and against what a ring holds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from step_games import Game, add

from nec_tf.replay.prioritised_replay import PrioritisedReplay
from nec_tf.replay.step_replay import StepReplay


def make(capacity=20, exponent=1.0):
    return PrioritisedReplay(capacity, (1,), np.float32, priority_exponent=exponent)


def played(replay, steps, length=50):
    """Plays one game; the number of a step is its observation. Returns the steps to draw from."""
    game = Game(0, length)
    for _ in range(steps):
        add(replay, [game])
    return np.arange(steps - 1)


@given(
    st.integers(2, 40),
    st.lists(st.integers(1, 9), min_size=1, max_size=3),
    st.integers(1, 90),
    st.integers(0, 5),
)
def test_steps_that_can_be_drawn_are_those_of_a_uniform_replay(capacity, lengths, count, seed):
    replay, uniform = make(capacity, 0.6), StepReplay(capacity, (1,), np.float32)
    games = [Game(1000 * (length + 1) * i, length) for i, length in enumerate(lengths)]
    others = [Game(game.time, game.length) for game in games]
    rng = np.random.default_rng(seed)
    for _ in range(count):
        add(replay, games)
        add(uniform, others)
        if replay._tree.total and rng.random() < 0.3:
            drawn = replay.draw(rng, 4)
            replay.set_priorities(drawn, rng.random(4) + 0.01)
    held = np.arange(uniform._first, uniform._next)
    expected = held[uniform._begins_sequence(held)]
    weighted = np.flatnonzero(replay._tree.weights)
    np.testing.assert_array_equal(np.sort(expected % capacity), weighted)
    if not len(expected):
        with pytest.raises(ValueError, match="followed each other"):
            replay.draw(rng, 4)
        return
    drawn = replay.draw(rng, 1000)
    assert set(drawn.tolist()) <= set(expected.tolist())
    pairs = replay.get(drawn).observation[..., 0]
    np.testing.assert_array_equal(pairs[:, 1], pairs[:, 0] + 1)


def test_stacks_whose_frames_were_overwritten_are_not_drawn():
    replay = PrioritisedReplay(8, (2, 2, 4), np.uint8, 0.6)
    rng = np.random.default_rng(0)
    game = Game(0, 3)
    for _ in range(40):  # no two stacks share a frame: the ring of 26 frames holds 6 stacks
        frames = rng.integers(0, 255, (2, 2, 4), np.uint8)
        add(replay, [game], observation=frames[None])
        held = np.arange(replay._first, replay._next)
        weighted = np.flatnonzero(replay._tree.weights)
        assert set(weighted.tolist()) == set((held[replay._begins_sequence(held)] % 8).tolist())
    assert len(replay) == 6


def test_a_new_step_has_the_largest_priority_so_far():
    replay = make()
    steps = played(replay, 5)
    np.testing.assert_array_equal(replay._tree.weights[:5], [1, 1, 1, 1, 0])
    replay.set_priorities(steps, np.array([0.5, 3.0, 0.1, 0.2]))
    replay.set_priorities(steps[1:2], np.array([0.5]))
    add(replay, [Game(5, 50)])
    np.testing.assert_array_equal(replay._tree.weights[:6], [0.5, 0.5, 0.1, 0.2, 3.0, 0])


def test_importance_weights_worked_out_by_hand():
    # alpha = 0.5: p^alpha = 1, 2, 3, 4 of 10, N = 4: N P = 0.4, 0.8, 1.2, 1.6.
    # beta = 1: w = 2.5, 1.25, 0.833, 0.625, divided by 2.5.
    replay = make(exponent=0.5)
    steps = played(replay, 5)
    replay.set_priorities(steps, np.array([1.0, 4.0, 9.0, 16.0]))
    weights = replay.importance_weights(steps, 1.0)
    np.testing.assert_allclose(weights, [1, 1 / 2, 1 / 3, 1 / 4], rtol=1e-6)
    # beta = 0.5: the square roots. Of a minibatch without the first step, the second is largest.
    weights = replay.importance_weights(steps[1:], 0.5)
    np.testing.assert_allclose(weights, [1, (2 / 3) ** 0.5, 0.5**0.5], rtol=1e-6)
    np.testing.assert_array_equal(replay.importance_weights(steps, 0.0), np.ones(4))


def test_draws_are_by_the_power_of_the_priority():
    replay = make(exponent=2.0)
    steps = played(replay, 4)
    replay.set_priorities(steps, np.array([1.0, 2.0, 3.0]))
    drawn = replay.draw(np.random.default_rng(0), 14_000)
    np.testing.assert_allclose(np.bincount(drawn) / 14_000, np.array([1, 4, 9]) / 14, atol=1e-3)


def test_a_minibatch_has_one_step_from_each_equal_share_of_the_sum():
    replay = make()
    played(replay, 11)  # ten steps of equal priority: ten draws are all of them
    for seed in range(5):
        drawn = replay.draw(np.random.default_rng(seed), 10)
        np.testing.assert_array_equal(drawn, np.arange(10))


def test_a_restored_replay_draws_and_goes_on_the_same():
    first, second = make(exponent=0.6), make(exponent=0.6)
    played(first, 30, length=5)
    drawn = first.draw(np.random.default_rng(0), 8)
    first.set_priorities(drawn, np.random.default_rng(1).random(8) * 3)
    second.restore({name: array.copy() for name, array in first.state().items()})
    for replay in (first, second):
        add(replay, [Game(30, 5)])
    samples = [replay.draw(np.random.default_rng(2), 64) for replay in (first, second)]
    np.testing.assert_array_equal(*samples)
    np.testing.assert_array_equal(first._tree._sums, second._tree._sums)


def test_priorities_of_a_larger_replay_are_refused():
    large = make(30)
    played(large, 30)
    with pytest.raises(ValueError, match="does not fit"):
        make(20).restore(large.state())
