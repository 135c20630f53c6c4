"""Figures of the page, as Plotly describes them.

A trace names its variant in `meta`; the page gives it the variant's colour, for light and dark, and
hides it with the variant. Traces without a variant are published agents, drawn in greys.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nec_tf.environments.games import GAMES
from nec_tf.experiments.report.analysis import LABELS, View, columns, scores_at
from nec_tf.experiments.report.records import RunRecord, due_frames
from nec_tf.experiments.report.statistics import AGGREGATES, profile_estimates
from nec_tf.experiments.report.tables import Row

Figure = dict[str, Any]

#: Thresholds of performance profiles, in per cent of human play.
THRESHOLDS = np.linspace(0, 200, 101)


def summary(rows: Sequence[Row]) -> Figure:
    """Returns aggregates with intervals, a group of points for each statistic."""
    traces = []
    for row in rows:
        known = [s for s in AGGREGATES if row[f"{s}_low"] is not None]
        trace = {
            "type": "scatter",
            "mode": "markers",
            "orientation": "h",
            "name": row["variant"],
            "meta": {"variant": row["variant"]},
            "x": [row[statistic] for statistic in AGGREGATES],
            "y": [LABELS[statistic] for statistic in AGGREGATES],
            "marker": {"size": 9},
            "hovertemplate": "%{y} %{x:.1f}%",
        }
        if known:
            trace["error_x"] = {
                "type": "data",
                "symmetric": False,
                "array": [row[f"{s}_high"] - row[s] for s in AGGREGATES],
                "arrayminus": [row[s] - row[f"{s}_low"] for s in AGGREGATES],
                "thickness": 2,
                "width": 4,
            }
        traces.append(trace)
    layout = {
        "scattermode": "group",
        "xaxis": {"title": {"text": "per cent of human play"}, "zeroline": True},
        "yaxis": {"autorange": "reversed", "ticksuffix": " "},
        "height": 190 + 45 * len(rows),
    }
    return {"data": traces, "layout": layout}


def task_curves(records: Sequence[RunRecord], task: str, unit: str) -> Figure:
    """Returns the learning curves of one task: mean over runs, and each run where several are."""
    traces = []
    for variant in sorted({record.variant for record in records if record.task == task}):
        runs = [r for r in records if (r.task, r.variant) == (task, variant) and r.evaluations]
        if not runs:
            continue
        if len(runs) > 1:
            traces += [_run_trace(record) for record in runs]
        traces.append(_mean_trace(runs, task))
    layout = {
        "title": {"text": task},
        "xaxis": {"title": {"text": unit}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": "mean score"}},
        "height": 300,
        "showlegend": False,
    }
    return {"data": traces, "layout": layout}


def _run_trace(record: RunRecord) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": f"{record.variant}, seed {record.seed}",
        "meta": {"variant": record.variant, "faint": True},
        "x": [e.frames for e in record.evaluations],
        "y": [e.score for e in record.evaluations],
        "line": {"width": 1},
        "hovertemplate": "%{y:,.5~g}",
    }


def _mean_trace(runs: Sequence[RunRecord], task: str) -> dict[str, Any]:
    grid = sorted({due_frames(e.frames) for record in runs for e in record.evaluations})
    reached = {f: [e.score for r in runs if (e := r.at(f))] for f in grid}
    means = {frames: float(np.mean(scores)) for frames, scores in reached.items() if scores}
    game = GAMES.get(task)
    notes = [
        f"{len(reached[frames])} run{'s' if len(reached[frames]) > 1 else ''}"
        + (f", {game.human_normalised(score):.1f}% of human play" if game else "")
        for frames, score in means.items()
    ]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": runs[0].variant,
        "meta": {"variant": runs[0].variant},
        "x": list(means),
        "y": list(means.values()),
        "text": notes,
        "line": {"width": 2.5},
        "marker": {"size": 5},
        "hovertemplate": "%{y:,.5~g} (%{text})",
    }


def aggregate_curves(rows: Sequence[Row], statistic: str) -> Figure:
    """Returns an aggregate over games by frames, with its interval as a band."""
    traces: list[dict[str, Any]] = []
    for variant in sorted({row["variant"] for row in rows}):
        own = [row for row in rows if row["variant"] == variant]
        frames = [row["frames"] for row in own]
        banded = [row for row in own if row[f"{statistic}_low"] is not None]
        if banded:
            traces.append(
                _band(
                    variant,
                    [row["frames"] for row in banded],
                    [row[f"{statistic}_low"] for row in banded],
                    [row[f"{statistic}_high"] for row in banded],
                )
            )
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": variant,
                "meta": {"variant": variant},
                "x": frames,
                "y": [row[statistic] for row in own],
                "line": {"width": 2.5},
                "marker": {"size": 5},
                "hovertemplate": "%{y:.1f}%",
            }
        )
    layout = {
        "title": {"text": LABELS[statistic]},
        "xaxis": {"title": {"text": "frames"}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": "per cent of human play"}},
        "height": 320,
        "showlegend": False,
    }
    return {"data": traces, "layout": layout}


def profiles(records: Sequence[RunRecord], view: View) -> tuple[Figure, list[Row]]:
    """Returns performance profiles of a view, and their points as rows."""
    scores = scores_at(records, view.frames)
    traces: list[dict[str, Any]] = []
    rows: list[Row] = []
    for variant in view.variants:
        point, band = profile_estimates(columns(scores[variant], view.games), THRESHOLDS / 100)
        if band is not None:
            low, high = (_steps(bound) for bound in 100 * band)
            traces.append(_band(variant, _steps(THRESHOLDS, ahead=True), low, high))
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": variant,
                "meta": {"variant": variant},
                "x": THRESHOLDS.tolist(),
                "y": (100 * point).tolist(),
                "line": {"width": 2.5, "shape": "hv"},
                "hovertemplate": "%{y:.0f}% of runs",
            }
        )
        for place, threshold in enumerate(THRESHOLDS):
            rows.append(
                {
                    "frames": view.frames,
                    "games": " ".join(view.games),
                    "variant": variant,
                    "threshold": float(threshold),
                    "share": float(point[place]),
                    "share_low": None if band is None else float(band[0, place]),
                    "share_high": None if band is None else float(band[1, place]),
                }
            )
    layout = {
        "xaxis": {
            "title": {"text": "per cent of human play (threshold)"},
            "range": [
                0,
                min(200, max([row["threshold"] for row in rows if row["share"]], default=0) + 10),
            ],
        },
        "yaxis": {"title": {"text": "per cent of runs above it"}, "range": [-2, 102]},
        "height": 380,
        "hovermode": "x unified",
    }
    return {"data": traces, "layout": layout}, rows


def improvement(rows: Sequence[Row]) -> Figure:
    """Returns probabilities of improvement with intervals, one line for each pair."""
    traces = []
    for row in rows:
        trace = {
            "type": "scatter",
            "mode": "markers",
            "meta": {"variant": row["x"], "also": row["y"]},
            "x": [row["probability"]],
            "y": [f"{row['x']} over {row['y']}"],
            "marker": {"size": 9},
            "hovertemplate": "%{y}: %{x:.2f}<extra></extra>",
        }
        if row["probability_low"] is not None:
            trace["error_x"] = {
                "type": "data",
                "symmetric": False,
                "array": [row["probability_high"] - row["probability"]],
                "arrayminus": [row["probability"] - row["probability_low"]],
                "thickness": 2,
                "width": 4,
            }
        traces.append(trace)
    layout = {
        "xaxis": {"title": {"text": "P(X > Y)"}, "range": [-0.03, 1.03]},
        "yaxis": {"autorange": "reversed", "ticksuffix": " ", "automargin": True},
        "shapes": [{"type": "line", "x0": 0.5, "x1": 0.5, "y0": 0, "y1": 1, "yref": "paper"}],
        "height": 110 + 30 * len(rows),
        "showlegend": False,
    }
    return {"data": traces, "layout": layout}


def deciles(points: Sequence[Row]) -> Figure:
    """Returns the paper's figure: games ranked for each agent by itself, quantiles upwards."""
    traces = []
    published = list(dict.fromkeys(p["agent"] for p in points if p["variant"] is None))
    for agent in dict.fromkeys(point["agent"] for point in points):
        own = [point for point in points if point["agent"] == agent]
        variant = own[0]["variant"]
        trace = {
            "type": "scatter",
            "mode": "lines+markers" if variant else "lines",
            "name": agent,
            "meta": {"variant": variant} if variant else {"grey": published.index(agent)},
            "x": [point["human_normalised"] for point in own],
            "y": [point["quantile"] for point in own],
            "text": [point["game"] for point in own],
            "line": {"width": 2},
            "marker": {"size": 7},
            "hovertemplate": "%{text}: %{x:.1f}% of human play",
        }
        traces.append(trace)
    layout = {
        # Eleven of the paper's 171 figures are beyond 250%; zooming out shows them.
        "xaxis": {"title": {"text": "per cent of human play"}, "range": [-25, 250]},
        "yaxis": {
            "title": {"text": "games, ranked"},
            "tickvals": list(range(0, 101, 10)),
            "ticksuffix": "%",
            "range": [0, 100],
        },
        "height": 460,
    }
    return {"data": traces, "layout": layout}


def atari_100k(rows: Sequence[Row]) -> Figure:
    """Returns the IQM over games of published agents and ours, best at the top."""
    ranked = sorted(rows, key=lambda row: row["iqm"])
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": row["agent"],
            "meta": {"grey": 2} if row["published"] else {"variant": row["agent"]},
            "x": [row["iqm"]],
            "y": [row["agent"] if row["published"] else f"{row['agent']} (ours)"],
            "hovertemplate": "%{y}: %{x:.1f}%<extra></extra>",
        }
        for row in ranked
    ]
    layout = {
        "xaxis": {"title": {"text": "IQM over games, per cent of human play"}},
        "yaxis": {"automargin": True, "ticksuffix": " "},
        "height": 120 + 26 * len(rows),
        "showlegend": False,
        "bargap": 0.35,
    }
    return {"data": traces, "layout": layout}


def _steps(values: np.ndarray, ahead: bool = False) -> list[float]:
    """Returns points twice each, so that lines between them are steps; x is `ahead` of y by one."""
    twice = np.repeat(values, 2).tolist()
    return twice[1:] if ahead else twice[:-1]


def _band(
    variant: str, x: Sequence[float], low: Sequence[float], high: Sequence[float]
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "meta": {"variant": variant, "band": True},
        "x": [*x, *reversed(x)],
        "y": [*high, *reversed(low)],
        "fill": "toself",
        "line": {"width": 0},
        "hoverinfo": "skip",
        "showlegend": False,
    }
