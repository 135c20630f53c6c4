"""Recorded learning curves side by side: `results/<agent>/<game>/<seed>.csv` as table and plots."""

import csv
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib
import matplotlib.pyplot as plt

from nec_tf.runtime.errors import UserError

matplotlib.use("Agg")  # no screen is asked for
# An evaluation comes a few steps after it was due.
_LATE = 1.005


class Point(NamedTuple):
    """An evaluation: at which frame, its mean score, and per cent of human where that is known."""

    frames: int
    score: float
    human_normalised: float | None


class Curve(NamedTuple):
    """The evaluations of one run."""

    agent: str
    task: str
    seed: str
    points: list[Point]

    def at(self, frames: int) -> Point | None:
        """Returns the evaluation at so many frames; None where it did not come so far."""
        due = [point for point in self.points if frames / _LATE <= point.frames <= frames * _LATE]
        return due[-1] if due else None


def load_curves(results_dir: Path) -> list[Curve]:
    """Returns all curves of a folder, in the order of agents, games and seeds.

    Raises:
        UserError: There are none.
    """
    paths = sorted(results_dir.glob("*/*/*.csv"))
    if not paths:
        raise UserError(
            f"{results_dir} holds no results (<agent>/<game>/<seed>.csv):"
            " trainers/record_result.py writes one of a run"
        )
    return [_load(path) for path in paths]


def _load(path: Path) -> Curve:
    with path.open() as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    points = [
        Point(int(row["frames"]), float(row["eval_mean"]), float(row["human_normalised"] or "nan"))
        for row in rows
    ]
    return Curve(path.parts[-3], path.parts[-2], path.stem, points)


def table(curves: Sequence[Curve], frames: int) -> str:
    """Returns scores and per cent of human at so many frames, agents side by side, as Markdown.

    Several seeds of a game are one figure, their mean; the last row is the median over the games
    that every agent of the table has.
    """
    agents = sorted({curve.agent for curve in curves})
    tasks = sorted({curve.task for curve in curves})
    lines = [
        f"| {frames:,} frames | {' | '.join(agents)} |",
        "| --- |" + " --- |" * len(agents),
    ]
    cells = {
        (agent, task): _mean_at(curves, agent, task, frames) for agent in agents for task in tasks
    }
    for task in tasks:
        shown = [_show(cells[agent, task]) for agent in agents]
        lines.append(f"| {task} | {' | '.join(shown)} |")
    common = [task for task in tasks if all(cells[agent, task] for agent in agents)]
    if common:
        medians = [
            statistics.median(cell[1] for task in common if (cell := cells[agent, task]))
            for agent in agents
        ]
        shown = [f"{median:.1f}%" for median in medians]
        lines.append(f"| median of {', '.join(common)} | {' | '.join(shown)} |")
    return "\n".join(lines)


def _mean_at(
    curves: Sequence[Curve], agent: str, task: str, frames: int
) -> tuple[float, float, int] | None:
    """Returns score, per cent of human and how many seeds; None where no run came so far."""
    points = [c.at(frames) for c in curves if (c.agent, c.task) == (agent, task)]
    reached = [point for point in points if point]
    if not reached:
        return None
    return (
        statistics.mean(point.score for point in reached),
        statistics.mean(point.human_normalised or 0.0 for point in reached),
        len(reached),
    )


def _show(cell: tuple[float, float, int] | None) -> str:
    if cell is None:
        return "-"
    score, human, seeds = cell
    return f"{score:,.5g} ({human:.1f}%)" + (f", {seeds} seeds" if seeds > 1 else "")


def plot(curves: Sequence[Curve], folder: Path) -> list[Path]:
    """Draws one figure for each game, all agents and seeds in it; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    agents = sorted({curve.agent for curve in curves})
    return [
        _plot_task(
            [curve for curve in curves if curve.task == task], agents, folder / f"{task}.svg"
        )
        for task in sorted({curve.task for curve in curves})
    ]


def _plot_task(curves: Sequence[Curve], agents: Sequence[str], path: Path) -> Path:
    figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
    for curve in curves:
        colour = f"C{agents.index(curve.agent)}"
        frames = [point.frames / 1e6 for point in curve.points]
        scores = [point.score for point in curve.points]
        axes.plot(frames, scores, colour, marker=".", label=f"{curve.agent}, seed {curve.seed}")
    axes.set(title=curves[0].task, xlabel="million frames", ylabel="mean score of an evaluation")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    with matplotlib.rc_context({"svg.hashsalt": "nec_tf"}):  # the same curves give the same file
        figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    return path
