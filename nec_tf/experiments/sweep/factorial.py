"""Screens many levers with the runs of one: every run tells something about every lever.

Each game has two runs. In the first, about half of the levers are on; in the second, the others
are. The difference between their figures is the sum of the levers' effects, each with the sign of
its level in the first run, and least squares over the games separate them. Where `n` games decide
about one lever at a time with 2 `n` runs each (with the lever and without), here 2 `n` runs decide
about all of them, each as precisely. What two levers do only together cancels in the difference
(a foldover design: Box, Hunter and Hunter, Statistics for Experimenters, 2005, chapter 6).
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.stats

_DESIGNS = 2_000  # random designs, of which the best is taken


class Effect(NamedTuple):
    """What a lever does to the figure of a run.

    Attributes:
        effect: Figure with the lever less the figure without it.
        error: Standard error of `effect`.
        above_zero: Share of the distribution of `effect` that is above 0 (Student's t).
    """

    effect: float
    error: float
    above_zero: float


def design(games: int, levers: int, seed: int = 0) -> np.ndarray:
    """Returns which levers are on in the first run of each game; in the second the others are.

    Of many random designs, in which each lever is on in half of the games, the one with the largest
    determinant: there the effects are separated best.

    Args:
        games: Number of games.
        levers: Number of levers, fewer than games.
        seed: Seed of the random designs.

    Returns:
        Bool [games, levers].

    Raises:
        ValueError: There are too few games.
    """
    if not 0 < levers < games:
        raise ValueError(f"{levers} levers need at least {levers + 1} games, not {games}")
    rng = np.random.default_rng(seed)
    half = np.arange(games) < games // 2
    designs = [np.stack([rng.permutation(half) for _ in range(levers)], 1) for _ in range(_DESIGNS)]
    return max(designs, key=lambda on: np.linalg.det(_signs(on).T @ _signs(on)))


def effects(on: np.ndarray, first: npt.ArrayLike, second: npt.ArrayLike) -> list[Effect]:
    """Returns the effect of each lever by least squares over the games.

    Args:
        on: Levers of the first run of each game, bool [games, levers], as `design` returns.
        first: Figures of the games' first runs, [games].
        second: Figures of their second runs, [games].

    Raises:
        ValueError: There are too few games to separate the levers.
    """
    signs, differences = _signs(on), np.asarray(first) - np.asarray(second)
    games, levers = signs.shape
    freedom = games - levers
    if freedom < 1 or np.linalg.matrix_rank(signs) < levers:
        raise ValueError(f"{games} games do not separate {levers} levers: finish more pairs")
    inverse = np.linalg.inv(signs.T @ signs)
    found = inverse @ signs.T @ differences
    variance = np.sum((differences - signs @ found) ** 2) / freedom
    errors = np.sqrt(variance * np.diag(inverse))
    shares = scipy.stats.t.cdf(found / np.maximum(errors, np.finfo(float).tiny), freedom)
    return [Effect(*map(float, row)) for row in zip(found, errors, shares, strict=True)]


def _signs(on: np.ndarray) -> np.ndarray:
    """Returns +1 where a lever is on and -1 where it is off."""
    return np.where(on, 1.0, -1.0)
