"""Our runs by themselves: scores of games, aggregates over games, learning curves."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from nec_tf.experiments.report import tables
from nec_tf.experiments.report.records import RunRecord, due_frames
from nec_tf.experiments.report.statistics import AGGREGATES, estimates
from nec_tf.experiments.report.tables import Column, Row, Table

#: Human-normalised scores [runs] as fractions: variant, then game.
Scores = dict[str, dict[str, np.ndarray]]

#: Sets of games that a reader may choose from for each budget, largest first.
MOST_SETS = 6
LABELS = {"iqm": "IQM", "median": "Median", "mean": "Mean", "optimality_gap": "Optimality gap"}


@dataclasses.dataclass(frozen=True)
class View:
    """What aggregates are taken over: variants that have runs of all `games` at `frames`."""

    frames: int
    games: tuple[str, ...]
    variants: tuple[str, ...]


def variants_of(records: Sequence[RunRecord]) -> list[str]:
    """Returns the variants in alphabetical order."""
    return sorted({record.variant for record in records})


def tasks_of(records: Sequence[RunRecord]) -> list[str]:
    """Returns the tasks in alphabetical order."""
    return sorted({record.task for record in records})


def scores_at(records: Sequence[RunRecord], frames: int) -> Scores:
    """Returns the scores of all runs of Atari games that have an evaluation at `frames`."""
    runs: dict[str, dict[str, list[float]]] = {}
    for record in records:
        evaluation = record.at(frames)
        if evaluation is None:
            continue
        normalised = record.normalised(evaluation.score)
        if normalised is not None:
            runs.setdefault(record.variant, {}).setdefault(record.task, []).append(normalised)
    return {
        variant: {game: np.array(scores) for game, scores in games.items()}
        for variant, games in runs.items()
    }


def views(records: Sequence[RunRecord], budgets: Sequence[int]) -> list[View]:
    """Returns the comparisons of a report.

    For each budget, every set of games that some variant has played, and the games that all
    variants have played, each with all variants that have played at least those.
    """
    found = []
    for frames in budgets:
        played = {variant: {*games} for variant, games in scores_at(records, frames).items()}
        if not played:
            continue
        sets = {tuple(sorted(games)) for games in played.values()}
        common = tuple(sorted(set.intersection(*played.values())))
        sets |= {common} if common else set()
        for games in sorted(sets, key=lambda games: (-len(games), games))[:MOST_SETS]:
            having = tuple(sorted(v for v, own in played.items() if own >= {*games}))
            found.append(View(frames, games, having))
    return found


def columns(scores: Mapping[str, np.ndarray], games: Sequence[str]) -> list[np.ndarray]:
    """Returns the columns of `statistics` for some games."""
    return [scores[game] for game in games]


def runs_note(scores: Mapping[str, np.ndarray], games: Sequence[str]) -> str:
    """Returns how many runs of each game there are, for readers."""
    counts = sorted({len(scores[game]) for game in games})
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def summary(records: Sequence[RunRecord], view: View, name: str) -> Table:
    """Returns aggregates over games with intervals, in per cent of human play."""
    scores = scores_at(records, view.frames)
    rows: list[Row] = []
    for variant in view.variants:
        row: dict = {"frames": view.frames, "games": " ".join(view.games), "variant": variant}
        row["runs_per_game"] = runs_note(scores[variant], view.games)
        found = estimates(columns(scores[variant], view.games), AGGREGATES)
        for statistic, estimate in found.items():
            row |= tables.figures(statistic, estimate, 100.0)
        rows.append(row | {"_variants": [variant]})
    return Table(
        name,
        f"Per cent of human play at {view.frames:,} frames over {listed(view.games)}; in brackets"
        " 95% bootstrap intervals over runs",
        [
            tables.text("variant", "Variant"),
            tables.text("runs_per_game", "Runs a game"),
            *(tables.interval(statistic, LABELS[statistic]) for statistic in AGGREGATES),
        ],
        rows,
    )


def listed(games: Sequence[str]) -> str:
    """Returns a set of games for readers: names of a few, a count of many."""
    if len(games) > 4:
        return count(len(games))
    return ", ".join(games)


def count(games: int) -> str:
    """Returns a number of games for readers."""
    return f"{games} game" if games == 1 else f"{games} games"


def game_scores(records: Sequence[RunRecord], frames: int, unit: str, name: str) -> Table:
    """Returns the score of each game at `frames`.

    A cell is the mean over runs, per cent of human play, and the range of several runs.
    """
    data = _game_rows(records, frames)
    cells = {(row["game"], row["variant"]): row for row in data}
    shown = sorted({variant for _, variant in cells})

    def cell(variant: str) -> Column:
        return Column(variant, lambda row: _show(cells.get((row["game"], variant))), variant)

    human = any(row["human_normalised"] is not None for row in data)
    shares = ", per cent of human play," if human else ""
    return Table(
        name,
        f"Scores at {frames:,} {unit}: mean over runs{shares} and the lowest and highest of several"
        " runs",
        [tables.text("game", "Game"), *(cell(variant) for variant in shown)],
        [{"game": game, "_game": game} for game in sorted({game for game, _ in cells})],
        data,
    )


def _game_rows(records: Sequence[RunRecord], frames: int) -> list[Row]:
    rows: list[Row] = []
    for task in tasks_of(records):
        for variant in variants_of(records):
            reached = [
                (record, evaluation)
                for record in records
                if (record.task, record.variant) == (task, variant)
                and (evaluation := record.at(frames)) is not None
            ]
            if not reached:
                continue
            scores = np.array([evaluation.score for _, evaluation in reached])
            human = reached[0][0].normalised(float(scores.mean()))
            rows.append(
                {
                    "frames": frames,
                    "game": task,
                    "variant": variant,
                    "runs": len(reached),
                    "score": float(scores.mean()),
                    "lowest": float(scores.min()),
                    "highest": float(scores.max()),
                    "human_normalised": None if human is None else 100 * human,
                    "seeds": " ".join(record.seed for record, _ in reached),
                    "scores": " ".join(f"{score:.6g}" for score in scores),
                }
            )
    return rows


def _show(row: Row | None) -> str:
    if row is None:
        return "-"
    shown = tables.score(row["score"])
    if row["human_normalised"] is not None:
        shown += f" ({row['human_normalised']:.1f}%)"
    if row["runs"] > 1:
        low, high = tables.score(row["lowest"]), tables.score(row["highest"])
        shown += f" [{low}, {high}]"
    return shown


def curve_table(records: Sequence[RunRecord], unit: str) -> Table:
    """Returns every evaluation of every run."""
    rows: list[Row] = []
    for record in records:
        for evaluation in record.evaluations:
            human = record.normalised(evaluation.score)
            rows.append(
                {
                    "variant": record.variant,
                    "game": record.task,
                    "seed": record.seed,
                    unit: evaluation.frames,
                    "score": evaluation.score,
                    "human_normalised": None if human is None else 100 * human,
                }
            )
    return Table("learning_curves", "Every evaluation of every run", [], rows)


def aggregate_curves(records: Sequence[RunRecord], view: View) -> list[Row]:
    """Returns aggregates at every number of frames at which all games of a view were evaluated."""
    grid = sorted({due_frames(e.frames) for record in records for e in record.evaluations})
    rows: list[Row] = []
    for frames in grid:
        scores = scores_at(records, frames)
        for variant in view.variants:
            if not {*view.games} <= {*scores.get(variant, {})}:
                continue
            found = estimates(columns(scores[variant], view.games), AGGREGATES)
            row: dict = {"games": " ".join(view.games), "variant": variant, "frames": frames}
            row["runs_per_game"] = runs_note(scores[variant], view.games)
            for statistic, estimate in found.items():
                row |= tables.figures(statistic, estimate, 100.0)
            rows.append(row)
    return rows
