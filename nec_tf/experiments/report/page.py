"""One self-contained HTML page: tables, figures, Plotly's JavaScript and the figures' data."""

import html
import importlib.resources
import json
import string
from collections.abc import Iterable

import plotly.offline

from nec_tf.experiments.report import analysis, palette
from nec_tf.experiments.report.sections import Block, Report, Section
from nec_tf.experiments.report.tables import Table

_LONG = 30  # rows from which on a list is closed until a reader opens it


def render(report: Report, title: str, origin: str, files: Iterable[str]) -> str:
    """Returns the page.

    Args:
        report: What it shows.
        title: Its heading.
        origin: How it was made, a sentence.
        files: Names of the files beside it.
    """
    variants = analysis.variants_of(report.records)
    figures = {
        name: figure
        for section in report.sections
        for block in section.blocks
        for name, figure in block.figures.items()
    }
    data = {
        "variants": variants,
        "palette": {"light": palette.LIGHT, "dark": palette.DARK},
        "figures": figures,
    }
    page = string.Template(_read("page.html"))
    return page.substitute(
        title=html.escape(title),
        style=_read("page.css"),
        overview=html.escape(_overview(report)),
        contents="".join(
            f'<li><a href="#{section.id}">{html.escape(section.title)}</a></li>'
            for section in report.sections
        ),
        views=_views(report),
        variants="".join(_box("variant", variant, swatch=True) for variant in variants),
        games="".join(_box("game", task) for task in analysis.tasks_of(report.records)),
        sections="\n".join(map(_section, report.sections)),
        origin=html.escape(origin),
        files=", ".join(f'<a href="{html.escape(f)}">{html.escape(f)}</a>' for f in sorted(files)),
        data=json.dumps(data, separators=(",", ":")).replace("</", "<\\/"),
        plotly=plotly.offline.get_plotlyjs(),
        script=_read("page.js"),
    )


def _overview(report: Report) -> str:
    runs, tasks = len(report.records), len(analysis.tasks_of(report.records))
    variants = len(analysis.variants_of(report.records))
    parts = [
        _plural(runs, "run"),
        f"of {_plural(variants, 'variant')}",
        f"on {_plural(tasks, 'game' if report.unit == 'frames' else 'task')};",
        f"compared at {' and '.join(f'{frames:,}' for frames in report.budgets)} {report.unit}.",
    ]
    return " ".join(parts)


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _views(report: Report) -> str:
    options = []
    for number, view in enumerate(report.views):
        label = f"{view.frames:,} {report.unit}"
        if view.games:
            label += f": {analysis.listed(view.games)} ({_plural(len(view.variants), 'variant')})"
        options.append(f'<option value="{number}">{html.escape(label)}</option>')
    return "".join(options)


def _box(name: str, value: str, swatch: bool = False) -> str:
    value = html.escape(value)
    mark = f'<span class="swatch" data-of="{value}"></span>' if swatch else ""
    box = f'<input type="checkbox" name="{name}" value="{value}" checked autocomplete="off">'
    return f"<label>{box}{mark}{value}</label>"


def _section(section: Section) -> str:
    intro = f"<p>{html.escape(section.intro)}</p>" if section.intro else ""
    blocks = "\n".join(map(_block, section.blocks))
    title = html.escape(section.title)
    return f'<section id="{section.id}"><h2>{title}</h2>{intro}\n{blocks}\n</section>'


def _block(block: Block) -> str:
    views = "" if block.views is None else f' data-views="{" ".join(map(str, block.views))}"'
    figures = "".join(_figure(name) for name in block.figures)
    parts = [
        f'<div class="figures">{figures}</div>' if figures else "",
        _table(block.table, block.foldable) if block.table else "",
        f'<p class="note">{html.escape(block.note)}</p>' if block.note else "",
    ]
    return f"<div{views}>{''.join(parts)}</div>"


def _figure(name: str) -> str:
    game = f' data-game="{html.escape(name.removeprefix("curve-"))}"' if "curve-" in name else ""
    label = html.escape(name.replace("-", " "))
    return (
        f'<div class="figure" id="figure-{html.escape(name)}" data-figure="{html.escape(name)}"'
        f'{game} role="img" aria-label="Figure: {label}"></div>'
    )


def _table(table: Table, foldable: bool) -> str:
    if not foldable or len(table.rows) <= _LONG:
        return table.to_html()
    summary = html.escape(f"{table.caption} ({len(table.rows)} rows; in {table.file}.csv)")
    return f'<details class="long"><summary>{summary}</summary>{table.to_html()}</details>'


def _read(name: str) -> str:
    folder = importlib.resources.files("nec_tf.experiments.report")
    return (folder / name).read_text(encoding="utf-8")
