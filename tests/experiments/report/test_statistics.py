import itertools

import numpy as np
import pytest
from rliable import library, metrics

from nec_tf.experiments.report import statistics


def columns(*runs):
    return [np.array(game, float) for game in runs]


def random_columns(lengths, seed=1):
    rng = np.random.default_rng(seed)
    return [rng.gamma(1.0, 0.5, size=length) - 0.1 for length in lengths]


def slow_iqm(runs_by_game):
    """Each run counts as often as makes all games equal; a quarter is cut off at both ends."""
    times = np.lcm.reduce([len(runs) for runs in runs_by_game])
    pooled = sorted(run for runs in runs_by_game for run in runs for _ in range(times // len(runs)))
    cut = len(pooled) // 4
    return np.mean(pooled[cut : len(pooled) - cut])


def test_aggregates_of_four_games_by_hand():
    scores = statistics.rectangular(columns([0.0, 0.2], [0.4, 0.4], [1.0, 2.0], [0.3, 0.5]))
    # Means of games: 0.1, 0.4, 1.5, 0.4. Sorted runs: 0 0.2 | 0.3 0.4 0.4 0.5 | 1 2.
    assert statistics.mean(scores) == pytest.approx(0.6)
    assert statistics.median(scores) == pytest.approx(0.4)
    assert statistics.iqm(scores) == pytest.approx(0.4)
    # Missing to 1: 1, 0.8, 0.6, 0.6, 0, 0, 0.7, 0.5.
    assert statistics.optimality_gap(scores) == pytest.approx(4.2 / 8)


def test_games_of_unequal_numbers_of_runs_weigh_the_same_and_no_run_is_dropped():
    ragged = columns([1.0, 2.0, 6.0], [5.0], [0.0, 2.0])
    scores = statistics.rectangular(ragged)
    assert scores.shape == (6, 3)
    assert sorted(scores[:, 0]) == [1, 1, 2, 2, 6, 6]
    assert statistics.mean(scores) == pytest.approx((3 + 5 + 1) / 3)
    assert statistics.median(scores) == pytest.approx(3)
    assert statistics.iqm(scores) == pytest.approx(slow_iqm([[1, 2, 6], [5], [0, 2]]))


@pytest.mark.parametrize("lengths", [(5, 5, 5, 5), (3,) * 26, (1, 1, 1), (2, 3, 1, 4)])
def test_the_slow_version_gives_the_same_interquartile_mean(lengths):
    runs = random_columns(lengths)
    assert statistics.iqm(statistics.rectangular(runs)) == pytest.approx(slow_iqm(runs))


def test_equal_numbers_of_runs_give_rliables_figures():
    scores = statistics.rectangular(random_columns((5,) * 7))
    assert statistics.iqm(scores) == pytest.approx(metrics.aggregate_iqm(scores))
    assert statistics.median(scores) == pytest.approx(metrics.aggregate_median(scores))
    assert statistics.mean(scores) == pytest.approx(metrics.aggregate_mean(scores))
    gap = metrics.aggregate_optimality_gap(scores)
    assert statistics.optimality_gap(scores) == pytest.approx(gap)
    thresholds = np.linspace(0, 2, 9)
    np.testing.assert_allclose(
        statistics.profile(scores, thresholds), library.score_distributions(scores, thresholds)
    )


@pytest.mark.parametrize("games", [False, True])
def test_intervals_are_those_of_rliables_bootstrap(games):
    runs = random_columns((6,) * 8)
    ours = statistics.estimates(runs, statistics.AGGREGATES, games)
    np.random.seed(3)  # rliable draws from NumPy's global generator
    scores = np.stack(runs, axis=1)
    _, theirs = library.get_interval_estimates(
        {"x": scores},
        lambda x: np.array([metrics.aggregate_iqm(x), metrics.aggregate_mean(x)]),
        reps=2000,
        task_bootstrap=games,
    )
    # 2,000 resamples each: bounds differ by about a twentieth of the interval.
    for place, name in enumerate(("iqm", "mean")):
        low, high = theirs["x"][:, place]
        assert ours[name].low == pytest.approx(low, abs=0.08 * (high - low))
        assert ours[name].high == pytest.approx(high, abs=0.08 * (high - low))


def test_the_interval_of_two_games_of_two_runs_is_that_of_all_resamples():
    runs = columns([0.0, 1.0], [0.0, 10.0])
    every = [
        np.mean([np.mean(a), np.mean(b)])
        for a in itertools.product(runs[0], repeat=2)
        for b in itertools.product(runs[1], repeat=2)
    ]
    found = statistics.estimates(runs, {"mean": statistics.mean})["mean"]
    assert found == (2.75, min(every), max(every))


def test_a_single_run_of_each_game_has_no_interval():
    found = statistics.estimates(columns([0.1], [0.5]), statistics.AGGREGATES)
    assert found["mean"] == (pytest.approx(0.3), None, None)
    _, band = statistics.profile_estimates(columns([0.1], [0.5]), np.array([0.2]))
    assert band is None


def test_resampled_games_of_single_runs_have_an_interval():
    found = statistics.estimates(columns([0.1], [0.5]), {"mean": statistics.mean}, games=True)
    assert found["mean"] == (pytest.approx(0.3), pytest.approx(0.1), pytest.approx(0.5))


def test_the_same_scores_give_the_same_interval():
    runs = random_columns((2, 3, 4))
    first, second = (statistics.estimates(runs, statistics.AGGREGATES) for _ in range(2))
    assert first == second


def test_a_band_of_a_profile_lies_around_it_and_follows_runs_by_hand():
    point, band = statistics.profile_estimates(
        columns([0.1, 0.3], [0.2, 0.4]), np.array([0.0, 0.25, 0.5])
    )
    np.testing.assert_allclose(point, [1.0, 0.5, 0.0])
    np.testing.assert_allclose(band, [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]])


def test_probability_of_improvement_by_hand_with_a_tie():
    x, y = columns([1.0, 3.0], [0.0]), columns([2.0], [0.0])
    # First game: one of two runs is better. Second: a tie.
    point = statistics.probability_of_improvement(
        statistics.rectangular(x), statistics.rectangular(y)
    )
    assert point == pytest.approx((0.5 + 0.5) / 2)


def test_probability_of_improvement_is_rliables():
    x = statistics.rectangular(random_columns((4,) * 6, seed=1))
    y = statistics.rectangular(random_columns((3,) * 6, seed=2))
    ours = statistics.probability_of_improvement(x, y)
    assert ours == pytest.approx(metrics.probability_of_improvement(x, y))
    assert statistics.probability_of_improvement(y, x) == pytest.approx(1 - ours)


def test_the_steering_statistic_by_hand():
    # log10 of 0.05 (the floor of -0.05 and 0.1), 0.1 and 1.
    scores = statistics.rectangular(columns([-5.0], [0.0], [0.9]))
    expected = (np.log10(0.05) + np.log10(0.1) + np.log10(1.0)) / 3
    assert statistics.log_statistic(scores) == pytest.approx(expected)
    # The logarithm is that of a game's mean over runs.
    two = statistics.rectangular(columns([0.0, 1.8], [-0.2, 0.2]))
    assert statistics.log_statistic(two) == pytest.approx((0.0 - 1.0) / 2)


def test_the_share_above_0_of_single_runs_comes_from_games_by_hand():
    x, y = columns([0.9], [0.9], [0.0]), columns([0.0], [0.0], [0.9])
    runs_only = statistics.compare(x, y, statistics.log_difference, 0.0)
    assert runs_only == ((pytest.approx(1 / 3), None, None), None)
    # Two games of three are better by 1, one worse by 1: above 0 if at most one of three drawn is
    # the worse one, 8/27 + 3 * 4/27 = 20/27.
    with_games = statistics.compare(x, y, statistics.log_difference, 0.0, games=True)
    assert with_games.share_above == pytest.approx(20 / 27, abs=0.03)


def test_both_arms_of_a_comparison_get_the_same_games():
    x = columns([0.9], [90.0], [0.05])
    with_games = statistics.compare(x, x, statistics.log_difference, 0.0, games=True)
    assert with_games.estimate == (0.0, 0.0, 0.0)
    assert with_games.share_above == 0.5
