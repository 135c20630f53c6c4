"""Two variants against each other, on the games that both have played."""

import itertools
from collections.abc import Sequence

import numpy as np

from nec_tf.experiments.report import tables
from nec_tf.experiments.report.analysis import (
    Scores,
    columns,
    listed,
    runs_note,
    scores_at,
)
from nec_tf.experiments.report.records import RunRecord
from nec_tf.experiments.report.statistics import (
    compare,
    log_difference,
    probability_of_improvement,
)
from nec_tf.experiments.report.tables import Column, Table

#: The figure of a run in the learning issue is the mean of its evaluations at these frames.
STEERING_FRAMES = (200_000, 300_000, 400_000)


def improvement(records: Sequence[RunRecord], frames: int, name: str) -> Table:
    """Returns the probability of improvement for every pair of variants that share games."""
    rows = _pairs(scores_at(records, frames), frames)
    for row in rows:
        x, y = row.pop("_columns")
        found = compare(x, y, probability_of_improvement, neutral=0.5)
        row |= tables.figures("probability", found.estimate)
    return Table(
        name,
        f"Probability that a run of X scores more than a run of Y on the same game at {frames:,}"
        " frames, mean over the games that both have; in brackets 95% bootstrap intervals",
        [*_PAIR, tables.interval("probability", "P(X > Y)", 2)],
        rows,
    )


def steering(records: Sequence[RunRecord]) -> Table:
    """Returns differences in the statistic that the learning experiments are steered by.

    Mean over games of log10(max(HNS, -0.05) + 0.1); the figure of a run is the mean of its
    evaluations at 200,000, 300,000 and 400,000 frames, as far as it has them. A run without an
    evaluation at 400,000 frames has no figure.
    """
    rows = _pairs(steering_scores(records), STEERING_FRAMES[-1])
    for row in rows:
        x, y = row.pop("_columns")
        runs = compare(x, y, log_difference, neutral=0.0)
        games = compare(x, y, log_difference, neutral=0.0, games=True)
        row |= tables.figures("difference", games.estimate)
        row |= {"above_0_runs": runs.share_above, "above_0_runs_and_games": games.share_above}
    return Table(
        "steering",
        "Difference X - Y of the mean over games of log10(max(HNS, -0.05) + 0.1), mean of a run's"
        " evaluations at 200,000, 300,000 and 400,000 frames; share of bootstrap resamples above 0",
        [
            *_PAIR,
            tables.interval("difference", "Difference [95%, runs and games resampled]", 3),
            _share("above_0_runs", "Above 0, runs resampled"),
            _share("above_0_runs_and_games", "Above 0, runs and games resampled"),
        ],
        rows,
    )


def steering_scores(records: Sequence[RunRecord]) -> Scores:
    """Returns the figures of runs, variant and game: the mean of late evaluations, normalised."""
    figures: dict[str, dict[str, list[float]]] = {}
    for record in records:
        present = [found for frames in STEERING_FRAMES if (found := record.at(frames))]
        if record.at(STEERING_FRAMES[-1]) is None:
            continue
        figure = record.normalised(float(np.mean([evaluation.score for evaluation in present])))
        if figure is not None:
            figures.setdefault(record.variant, {}).setdefault(record.task, []).append(figure)
    return {
        variant: {game: np.array(runs) for game, runs in games.items()}
        for variant, games in figures.items()
    }


_PAIR = [
    Column("X over Y", lambda row: f"{row['x']} over {row['y']}"),
    Column("Games", lambda row: listed(row["games"].split()), words=True),
    Column("Runs a game, X / Y", lambda row: f"{row['x_runs']} / {row['y_runs']}", words=True),
]


def _share(key: str, label: str) -> Column:
    return Column(label, lambda row: "-" if row[key] is None else f"{100 * row[key]:.1f}%")


def _pairs(scores: Scores, frames: int) -> list[dict]:
    rows: list[dict] = []
    for x, y in itertools.combinations(sorted(scores), 2):
        games = sorted({*scores[x]} & {*scores[y]})
        if not games:
            continue
        rows.append(
            {
                "frames": frames,
                "x": x,
                "y": y,
                "games": " ".join(games),
                "x_runs": runs_note(scores[x], games),
                "y_runs": runs_note(scores[y], games),
                "_variants": [x, y],
                "_columns": (columns(scores[x], games), columns(scores[y], games)),
            }
        )
    return rows
