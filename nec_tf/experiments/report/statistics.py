"""Aggregates over games with stratified bootstrap intervals, by rliable's definitions.

Agarwal et al., Deep Reinforcement Learning at the Edge of the Statistical Precipice, 2021.

A *column* is a float array [runs] of one game, human-normalised as fractions. Games may have
different numbers of runs. rliable takes a rectangular array [runs, games], so runs are repeated up
to the least common multiple of the numbers of runs: every game weighs the same, every run of a game
weighs the same, no run is dropped, and equal numbers of runs give exactly rliable's figures. The
bootstrap draws as many runs of a game as the game has, before they are repeated. rliable's own
cannot; it also takes 210 us a resample for the four aggregates of 26 games x 2 runs where this one
takes 4. Tests compare the two.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import scipy.stats
from rliable import metrics

#: From scores [runs, games, ...] to [...]; the trailing axis holds resamples.
Statistic = Callable[[np.ndarray], np.ndarray]
Columns = Sequence[np.ndarray]

RESAMPLES = 2000
_CONFIDENCE = 0.95
_SEED = 0  # the same results give the same report
_CHUNK = 2_000_000  # numbers in one array of resamples: 16 MB

# The learning issue's statistic: log10(max(HNS, floor) + offset).
_LOG_FLOOR, _LOG_OFFSET = -0.05, 0.1


class Estimate(NamedTuple):
    """A figure and its 95% interval; None where a single run of each game leaves none."""

    point: float
    low: float | None
    high: float | None


def mean(scores: np.ndarray) -> np.ndarray:
    """Returns the mean over games of the mean over runs."""
    return metrics.aggregate_mean(scores)


def median(scores: np.ndarray) -> np.ndarray:
    """Returns the median over games of the mean over runs."""
    return metrics.aggregate_median(scores)


def iqm(scores: np.ndarray) -> np.ndarray:
    """Returns the interquartile mean over runs and games (rliable's flattens resamples too)."""
    pooled = scores.reshape(scores.shape[0] * scores.shape[1], *scores.shape[2:])
    return scipy.stats.trim_mean(pooled, proportiontocut=0.25, axis=0)


def optimality_gap(scores: np.ndarray) -> np.ndarray:
    """Returns by how much runs miss human play on average; play above it counts as human."""
    return 1.0 - np.minimum(scores, 1.0).mean(axis=(0, 1))


def log_statistic(scores: np.ndarray) -> np.ndarray:
    """Returns the mean over games of log10(max(HNS, -0.05) + 0.1), the statistic to steer by.

    HNS of a game is the mean over its runs. A factor in any game counts the same, and no single
    game decides, as it does in a mean.
    """
    games = scores.mean(axis=0)
    return np.log10(np.maximum(games, _LOG_FLOOR) + _LOG_OFFSET).mean(axis=0)


AGGREGATES: dict[str, Statistic] = {
    "iqm": iqm,
    "median": median,
    "mean": mean,
    "optimality_gap": optimality_gap,
}


def profile(scores: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Returns the share of runs above each threshold: [thresholds, ...]."""
    return np.stack([(scores > threshold).mean(axis=(0, 1)) for threshold in thresholds])


def rectangular(columns: Columns) -> np.ndarray:
    """Returns columns [runs of the game, ...] as one array [multiple of all runs, games, ...]."""
    rows = math.lcm(*(len(column) for column in columns))
    return np.stack([np.repeat(column, rows // len(column), axis=0) for column in columns], axis=1)


def estimates(
    columns: Columns, statistics: Mapping[str, Statistic], games: bool = False
) -> dict[str, Estimate]:
    """Returns figures with intervals by name.

    Args:
        columns: Scores of each game.
        statistics: What is computed, all from the same resamples.
        games: Whether games are resampled too (rliable's `task_bootstrap`).
    """
    drawn: dict[str, list[np.ndarray]] = {name: [] for name in statistics}
    for [resampled] in _resamples([columns], games):
        for name, statistic in statistics.items():
            drawn[name].append(statistic(resampled))
    whole = rectangular(columns)
    spread = _spread_is_known(columns, games)
    return {
        name: _estimate(float(statistic(whole)), np.concatenate(drawn[name]), spread)
        for name, statistic in statistics.items()
    }


def profile_estimates(
    columns: Columns, thresholds: np.ndarray
) -> tuple[np.ndarray, np.ndarray | None]:
    """Returns a performance profile [thresholds] and its 95% band [2, thresholds] or None."""
    point = profile(rectangular(columns), thresholds)
    if not _spread_is_known(columns, games=False):
        return point, None
    drawn = [profile(resampled, thresholds) for [resampled] in _resamples([columns], games=False)]
    return point, np.quantile(np.concatenate(drawn, axis=1), _tails(), axis=1)


def probability_of_improvement(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Returns the mean over games of P(a run of x > a run of y); a tie counts one half.

    Args:
        x: Scores [runs of x, games, ...].
        y: Scores [runs of y, games, ...].
    """
    better = [(row > y).mean(axis=0) + 0.5 * (row == y).mean(axis=0) for row in x]
    return np.mean(better, axis=(0, 1))


def log_difference(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Returns by how much x is above y in the statistic to steer by."""
    return log_statistic(x) - log_statistic(y)


class Difference(NamedTuple):
    """Two variants against each other.

    Attributes:
        estimate: The figure and its interval.
        share_above: Share of resamples above `neutral`, ties half; None as for the interval.
    """

    estimate: Estimate
    share_above: float | None


def compare(
    x: Columns,
    y: Columns,
    statistic: Callable[[np.ndarray, np.ndarray], np.ndarray],
    neutral: float,
    games: bool = False,
) -> Difference:
    """Compares two variants on the same games; runs of the two are drawn independently.

    Args:
        x: Scores of each game.
        y: Scores of the same games in the same order.
        statistic: Of two arrays [runs, games, ...].
        neutral: What it is if both are equal.
        games: Whether games are resampled too, the same ones for both.
    """
    drawn = np.concatenate([statistic(a, b) for a, b in _resamples([x, y], games)])
    point = float(statistic(rectangular(x), rectangular(y)))
    spread = _spread_is_known(x, games) or _spread_is_known(y, games)
    share = float(np.mean(drawn > neutral) + 0.5 * np.mean(drawn == neutral))
    return Difference(_estimate(point, drawn, spread), share if spread else None)


def _spread_is_known(columns: Columns, games: bool) -> bool:
    """Whether resamples can differ: resampling a single run or a single game gives just that."""
    return any(len(column) > 1 for column in columns) or (games and len(columns) > 1)


def _estimate(point: float, drawn: np.ndarray, spread_is_known: bool) -> Estimate:
    if not spread_is_known:
        return Estimate(point, None, None)
    low, high = np.quantile(drawn, _tails())
    return Estimate(point, float(low), float(high))


def _tails() -> tuple[float, float]:
    return (1 - _CONFIDENCE) / 2, (1 + _CONFIDENCE) / 2


def _resamples(arms: Sequence[Columns], games: bool) -> Iterator[list[np.ndarray]]:
    """Yields resamples of each arm, [multiple of all runs, games, resamples of this chunk]."""
    rng = np.random.default_rng(_SEED)
    count = len(arms[0])
    size = sum(math.lcm(*map(len, columns)) for columns in arms) * count
    chunk = max(1, min(RESAMPLES, _CHUNK // size))
    for start in range(0, RESAMPLES, chunk):
        shape = (count, min(chunk, RESAMPLES - start))
        if games:
            picked = rng.integers(count, size=shape)
        else:
            picked = np.broadcast_to(np.arange(count)[:, None], shape)
        yield [_draw(columns, picked, rng) for columns in arms]


def _draw(columns: Columns, picked: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Returns resampled runs of the picked games [games, resamples], repeated to one length."""
    lengths = np.array([len(column) for column in columns])
    padded = np.full((lengths.max(), len(columns)), np.nan)
    for game, column in enumerate(columns):
        padded[: len(column), game] = column
    rows = math.lcm(*map(int, lengths))
    drawn = np.empty((rows, *picked.shape))
    for length in np.unique(lengths):
        runs = rng.integers(length, size=(length, *picked.shape))
        values = np.repeat(padded[runs, picked], rows // length, axis=0)
        np.copyto(drawn, values, where=lengths[picked] == length)
    return drawn
