"""The figures of a report as PNG files, for documents."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from nec_tf.experiments.report import analysis, palette
from nec_tf.experiments.report.figures import Figure
from nec_tf.experiments.report.sections import Report

_GREYS = ("#5b6673", "#8b95a1", "#b3bbc4")
_DASHES = ("-", "--", ":")
_WIDTH, _HEIGHT = 3.6, 2.6  # inches of one panel
_COLUMNS = 3  # panels side by side


def draw(report: Report, folder: Path) -> list[Path]:
    """Draws the pictures of a report into a folder; returns the files.

    The first view is drawn, which is the main budget and the largest set of games.
    """
    variants = analysis.variants_of(report.records)
    drawn = [
        _draw(
            folder / "learning_curves.png",
            [report.figure(f"curve-{task}") for task in analysis.tasks_of(report.records)],
            variants,
        )
    ]
    if not report.views[0].games:
        return drawn
    aggregates = [report.figure(f"aggregate-{name}-0") for name in ("iqm", "median", "mean")]
    return [
        *drawn,
        _draw(folder / "aggregate_curves.png", aggregates, variants),
        _draw(folder / "summary.png", [report.figure("summary-0")], variants, _intervals),
        _draw(folder / "profiles.png", [report.figure("profile-0")], variants),
        _draw(folder / "deciles.png", [report.figure("deciles")], variants),
    ]


def _draw(
    path: Path,
    panels: Sequence[Figure],
    variants: Sequence[str],
    fill: "Callable[[Axes, Figure, Sequence[str]], None] | None" = None,
) -> Path:
    """Draws panels in a grid with one legend above them."""
    across = min(_COLUMNS, len(panels))
    down = math.ceil(len(panels) / across)
    scale = 1.7 if len(panels) == 1 else 1.0
    size = (_WIDTH * across * scale, _HEIGHT * down * scale + 0.4)
    with matplotlib.rc_context({"font.size": 8, "axes.grid": True, "grid.alpha": 0.3}):
        canvas = Canvas(figsize=size, layout="constrained")
        cells = canvas.subplots(down, across, squeeze=False).flat
        labelled: dict[str, Any] = {}
        for cell, panel in zip(cells, panels, strict=False):
            (fill or _lines)(cell, panel, variants)
            _axes(cell, panel["layout"])
            handles, labels = cell.get_legend_handles_labels()
            labelled |= dict(zip(labels, handles, strict=True))
        for cell in list(cells):
            cell.set_visible(False)
        for cell in canvas.axes[len(panels) :]:
            cell.set_visible(False)
        canvas.legend(
            list(labelled.values()),
            list(labelled),
            loc="outside upper left",
            ncols=min(6, 2 * across + 2),
            frameon=False,
        )
        # No version of Matplotlib inside: the same results give the same file.
        canvas.savefig(path, dpi=110, metadata={"Software": None})
    return path


def _axes(axes: Axes, layout: dict[str, Any]) -> None:
    axes.set_title(layout.get("title", {}).get("text", ""), loc="left")
    axes.set_xlabel(layout["xaxis"].get("title", {}).get("text", ""))
    axes.set_ylabel(layout["yaxis"].get("title", {}).get("text", ""))
    for name, set_range in (("xaxis", axes.set_xlim), ("yaxis", axes.set_ylim)):
        if isinstance(layout[name].get("range"), list):
            set_range(*layout[name]["range"])
    if layout["xaxis"].get("rangemode") == "tozero":
        axes.set_xlim(left=0)
        axes.xaxis.set_major_formatter(ticker.EngFormatter(sep=""))
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _colour(meta: dict[str, Any], variants: Sequence[str]) -> str:
    if meta.get("variant"):
        return palette.LIGHT[variants.index(meta["variant"]) % len(palette.LIGHT)]
    return _GREYS[meta["grey"] % len(_GREYS)]


def _lines(axes: Axes, figure: Figure, variants: Sequence[str]) -> None:
    for trace in figure["data"]:
        meta = trace["meta"]
        colour = _colour(meta, variants)
        if meta.get("band"):
            axes.fill(trace["x"], trace["y"], color=colour, alpha=0.16, linewidth=0)
            continue
        axes.plot(
            trace["x"],
            trace["y"],
            color=colour,
            alpha=0.45 if meta.get("faint") else 1.0,
            linewidth=0.8 if meta.get("faint") else 1.8,
            linestyle=_DASHES[meta.get("grey", 0) % len(_DASHES)],
            marker="." if "markers" in trace["mode"] else "",
            drawstyle="steps-post" if trace["line"].get("shape") == "hv" else "default",
            label="_" if meta.get("faint") else trace["name"],
        )


def _intervals(axes: Axes, figure: Figure, variants: Sequence[str]) -> None:
    traces = figure["data"]
    for place, trace in enumerate(traces):
        shift = 0.6 * ((place + 0.5) / len(traces) - 0.5)
        heights = [row + shift for row in range(len(trace["y"]))]
        bars = trace.get("error_x")
        axes.errorbar(
            trace["x"],
            heights,
            xerr=[bars["arrayminus"], bars["array"]] if bars else None,
            fmt="o",
            markersize=4,
            capsize=2,
            color=_colour(trace["meta"], variants),
            label=trace["name"],
        )
    axes.set_yticks(range(len(traces[0]["y"])), traces[0]["y"])
    axes.invert_yaxis()
