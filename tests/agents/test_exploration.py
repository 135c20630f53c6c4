import numpy as np
import pytest
import tensorflow as tf

from nec_tf.agents.exploration import (
    LENGTH_EXPONENT,
    Exploration,
    ExplorationConfig,
    RepeatedActions,
)


def play(repeated, epsilon, steps, environments=50, num_actions=4):
    """Returns whether actions were random, and which: both [steps, environments]."""

    @tf.function
    def step():
        return repeated(tf.constant(epsilon), tf.constant(environments), num_actions)

    played = [step() for _ in range(steps)]
    return np.array([r.numpy() for r, _ in played]), np.array([a.numpy() for _, a in played])


def make(longest=20, seed=0):
    return RepeatedActions(longest, tf.random.Generator.from_seed(seed))


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.6, 1.0])
def test_epsilon_is_the_share_of_random_steps_however_long_they_last(epsilon):
    random, _ = play(make(), epsilon, 2000)
    assert np.mean(random[100:]) == pytest.approx(epsilon, abs=0.02)


def test_lengths_have_the_probabilities_of_their_power_law():
    random, _ = play(make(longest=5), 0.02, 20_000)
    edges = np.diff(np.pad(random.T, ((0, 0), (1, 1))).astype(int))
    lengths = np.nonzero(edges == -1)[1] - np.nonzero(edges == 1)[1]
    weights = np.arange(1, 6) ** -LENGTH_EXPONENT
    # At this epsilon hardly any begins where another has just ended.
    seen = np.bincount(lengths, minlength=6)[1:6] / len(lengths)
    np.testing.assert_allclose(seen, weights / weights.sum(), atol=0.03)
    assert lengths.min() == 1
    assert len(lengths) > 5000


def test_an_action_stays_the_same_while_it_lasts():
    random, actions = play(make(longest=8), 0.1, 3000)
    changed = (actions[1:] != actions[:-1]) & random[1:] & random[:-1]
    lasting = random[1:] & random[:-1]
    # What changes is one that begins right after another: in 10% of steps of greedy length 0.
    assert 0 < np.sum(changed) < 0.1 * np.sum(lasting)
    assert np.abs(np.bincount(actions[random], minlength=4) / random.sum() - 0.25).max() < 0.03


def test_environments_may_become_more_or_fewer():
    repeated = make()
    for environments in (1, 5, 2):
        random, actions = play(repeated, 1.0, 1, environments)
        assert random.shape == actions.shape == (1, environments)
        assert random.all()


def test_the_rest_of_a_repeated_action_survives_a_checkpoint(tmp_path):
    config = ExplorationConfig(exploration_repeats=50)
    first, second = Exploration(config, seed=1), Exploration(config, seed=2)
    play(first.repeated, 0.9, 10)
    path = tf.train.Checkpoint(**first.trackables()).write(str(tmp_path / "checkpoint"))
    tf.train.Checkpoint(**second.trackables()).read(path).assert_consumed()
    for a, b in zip(play(first.repeated, 0.9, 20), play(second.repeated, 0.9, 20), strict=True):
        np.testing.assert_array_equal(a, b)


def test_at_most_one_step_is_plain_epsilon_greedy():
    assert Exploration(ExplorationConfig(), seed=0).repeated is None


def test_refuses_less_than_one_step():
    with pytest.raises(ValueError, match="exploration_repeats must be at least 1, not 0"):
        ExplorationConfig(exploration_repeats=0)


def test_epsilon_falls_by_a_power_of_the_step():
    config = ExplorationConfig(epsilon_fall="power", epsilon_from=10, epsilon_until=1000)
    epsilon = Exploration(config, seed=0).epsilon_at
    # From 1 at step 10 to 0.01 at step 1,000: a hundredth in a hundred times as many steps.
    for step, expected in [(0, 1), (10, 1), (20, 0.5), (100, 0.1), (1000, 0.01), (9999, 0.01)]:
        assert float(epsilon(step)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epsilon_fall": "cubic"}, "epsilon_fall must be linear or power, not 'cubic'"),
        ({"epsilon_fall": "power", "epsilon_end": 0.0}, "epsilon_end must be above 0"),
        ({"epsilon_fall": "power", "epsilon_from": 0}, "epsilon_from must be above 0"),
    ],
)
def test_refuses_falls_that_cannot_be(settings, message):
    with pytest.raises(ValueError, match=message):
        ExplorationConfig(**settings)


def test_without_a_seed_numbers_differ_also_after_a_run_made_operations_deterministic():
    tf.config.experimental.enable_op_determinism()
    first, second = (Exploration(ExplorationConfig(), None).generator for _ in range(2))
    assert (first.uniform([8]).numpy() != second.uniform([8]).numpy()).any()
