"""The contents of a report in reading order: sections of tables and figures."""

import dataclasses
from collections.abc import Sequence

from nec_tf.experiments.report import (
    analysis,
    comparisons,
    figures,
    inventory,
    literature,
    published,
)
from nec_tf.experiments.report.analysis import View
from nec_tf.experiments.report.figures import Figure
from nec_tf.experiments.report.records import RunRecord
from nec_tf.experiments.report.tables import Table


@dataclasses.dataclass(frozen=True)
class Block:
    """A part of a section.

    Attributes:
        table: A table, or None.
        figures: Figures by name, side by side where there is room.
        note: A sentence below.
        views: Numbers of the views with which it is shown; None for all.
        foldable: Whether a long table is closed until a reader opens it.
    """

    table: Table | None = None
    figures: dict[str, Figure] = dataclasses.field(default_factory=dict)
    note: str = ""
    views: tuple[int, ...] | None = None
    foldable: bool = False


@dataclasses.dataclass(frozen=True)
class Section:
    """A heading, a paragraph and blocks."""

    id: str
    title: str
    intro: str
    blocks: list[Block]


@dataclasses.dataclass(frozen=True)
class Report:
    """Everything that a report says, before it is written.

    Attributes:
        records: The runs.
        unit: `frames` or `steps`.
        budgets: At which variants are compared; the first one is the main one.
        views: What a reader may choose from.
        sections: In reading order.
        data: Tables that are only written as CSV.
    """

    records: Sequence[RunRecord]
    unit: str
    budgets: list[int]
    views: list[View]
    sections: list[Section]
    data: list[Table]

    @property
    def tables(self) -> list[Table]:
        """All tables, those that are only CSV last."""
        shown = [b.table for section in self.sections for b in section.blocks if b.table]
        return [*shown, *self.data]

    def figure(self, name: str) -> Figure:
        """Returns the figure of that name."""
        [found] = [
            block.figures[name]
            for section in self.sections
            for block in section.blocks
            if name in block.figures
        ]
        return found


_RAGGED = (
    " Games with unequal numbers of runs weigh the same, and so do the runs of one game; no run is"
    " left out. A game with one run adds nothing to an interval, and where all games have one there"
    " is none; with two or three runs a game"
    " intervals are narrower than they should be."
)


def build(records: Sequence[RunRecord], budgets: Sequence[int], unit: str) -> Report:
    """Returns the report of some runs, compared at some budgets."""
    views = analysis.views(records, budgets)
    if not views:  # no Atari games: budgets are still chosen from
        variants = tuple(analysis.variants_of(records))
        views = [View(frames, (), variants) for frames in budgets]
    normalised = bool(views[0].games)
    data = [analysis.curve_table(records, unit)]
    sections = []
    if normalised:
        sections.append(_summary(records, views))
    sections += [_games(records, views, unit), _curves(records, views, unit, data)]
    if normalised:
        sections += [
            _profiles(records, views, data),
            _comparisons(records, views),
            _paper(records, views),
            _deciles(records, views[0].frames, data),
            _atari_100k(records, views),
        ]
    sections += [_timing(records, unit), _missing(records, budgets[0], unit)]
    return Report(records, unit, list(budgets), views, sections, data)


def _list(table: Table) -> Block:
    return Block(table, foldable=True)


def _numbers(views: Sequence[View], frames: int) -> tuple[int, ...]:
    return tuple(number for number, view in enumerate(views) if view.frames == frames)


def _summary(records: Sequence[RunRecord], views: Sequence[View]) -> Section:
    blocks = []
    for number, view in enumerate(views):
        table = analysis.summary(records, view, f"summary-{number}")
        figure = {f"summary-{number}": figures.summary(table.rows)}
        blocks.append(Block(table, figure, views=(number,)))
    intro = (
        "Human-normalised scores: 0% is random play, 100% a professional human tester. IQM is the"
        " mean of the middle half of all runs, median and mean are over games, and the optimality"
        " gap is the mean distance to human play (less is better)."
    )
    intro += _RAGGED
    if any(len(_numbers(views, view.frames)) == analysis.MOST_SETS for view in views):
        intro += f" At most the {analysis.MOST_SETS} largest sets of games can be chosen above."
    return Section("summary", "Summary", intro, blocks)


def _games(records: Sequence[RunRecord], views: Sequence[View], unit: str) -> Section:
    blocks = []
    for number, frames in enumerate(dict.fromkeys(view.frames for view in views)):
        table = analysis.game_scores(records, frames, unit, f"scores-{number}")
        blocks.append(Block(table, views=_numbers(views, frames)))
    intro = "The final score of a run is its evaluation at the frames compared, not its best one."
    if unit == "steps":
        intro = "The score of a run is its evaluation at the steps compared, not its best one."
    return Section("games", "Scores of each game", intro, blocks)


def _curves(
    records: Sequence[RunRecord], views: Sequence[View], unit: str, data: list[Table]
) -> Section:
    blocks = []
    sets = dict.fromkeys(view.games for view in views if view.games)
    for number, games in enumerate(sets):
        same = [place for place, view in enumerate(views) if view.games == games]
        variants = sorted({variant for place in same for variant in views[place].variants})
        rows = analysis.aggregate_curves(records, View(0, games, tuple(variants)))
        data.append(Table(f"aggregate_curves-{number}", "Aggregates by frames", [], rows))
        drawn = {
            f"aggregate-{statistic}-{number}": figures.aggregate_curves(rows, statistic)
            for statistic in ("iqm", "median", "mean")
        }
        note = f"Aggregated over {analysis.listed(games)}; bands are 95% bootstrap intervals."
        blocks.append(Block(figures=drawn, note=note, views=tuple(same)))
    each = {
        f"curve-{task}": figures.task_curves(records, task, unit)
        for task in analysis.tasks_of(records)
    }
    blocks.append(Block(figures=each, note="Thin lines are single runs, thick ones their mean."))
    intro = "Each point is the mean score of an evaluation with the agent's own policy."
    return Section("curves", "Learning curves", intro, blocks)


def _profiles(records: Sequence[RunRecord], views: Sequence[View], data: list[Table]) -> Section:
    blocks = []
    for number, view in enumerate(views):
        figure, rows = figures.profiles(records, view)
        data.append(Table(f"profiles-{number}", "Performance profiles", [], rows))
        note = f"{view.frames:,} frames, {analysis.listed(view.games)}."
        blocks.append(Block(figures={f"profile-{number}": figure}, note=note, views=(number,)))
    intro = "Which share of runs, over all games, scores more than a threshold. Higher is better."
    return Section("profiles", "Performance profiles", intro, blocks)


def _comparisons(records: Sequence[RunRecord], views: Sequence[View]) -> Section:
    blocks = []
    for number, frames in enumerate(dict.fromkeys(view.frames for view in views)):
        table = comparisons.improvement(records, frames, f"improvement-{number}")
        if table.rows:
            drawn = {f"improvement-{number}": figures.improvement(table.rows)}
            blocks.append(Block(table, drawn, "", _numbers(views, frames), foldable=True))
    steering = comparisons.steering(records)
    if steering.rows:
        note = (
            "Experiments on learning are steered by this statistic. Resampling runs alone says"
            " what other seeds on the same games would give; resampling games too says what other"
            " games would give, and is the only way with one run a game."
        )
        blocks.append(Block(steering, note=note, foldable=True))
    intro = "Every pair of variants, on the games that both have."
    if not blocks:
        intro = "There are no two variants with a game in common."
    return Section("improvement", "Probability of improvement", intro, blocks)


def _paper(records: Sequence[RunRecord], views: Sequence[View]) -> Section:
    blocks = [Block(literature.paper_tables(records, name)) for name in ("median", "mean")]
    for number, view in enumerate(views):
        table = literature.paper_on_our_games(records, view, f"paper_same_games-{number}")
        blocks.append(Block(table, views=(number,)))
    intro = (
        "Pritzel et al., Neural Episodic Control, 2017. Scores of single games are in the paper for"
        " 10 million frames only, so its agents can be given on the games of ours at that budget"
        " alone; at other budgets its figures are over all 57 games."
    )
    return Section("paper", "The paper's tables", intro, blocks)


def _deciles(records: Sequence[RunRecord], frames: int, data: list[Table]) -> Section:
    table, points = literature.deciles(records, frames)
    data.append(Table("decile_points", "Games ranked for each agent by itself", [], points))
    intro = (
        "Human-normalised scores of games, ranked for each agent by itself; the height is the"
        f" quantile. The paper's agents have 57 games at 10 million frames, ours {frames:,} frames."
    )
    block = Block(table, {"deciles": figures.deciles(points)})
    return Section("deciles", "Deciles over games", intro, [block])


def _atari_100k(records: Sequence[RunRecord], views: Sequence[View]) -> Section:
    at = published.ATARI_100K_FRAMES
    own = views if any(view.frames == at for view in views) else analysis.views(records, [at])
    blocks = []
    compared = literature.atari_100k_views(own)
    for number, view in enumerate(compared):
        table = literature.atari_100k(records, view, f"atari100k-{number}")
        absent = literature.atari_100k_not_run(view)
        note = f"Not run, of the 26 games: {', '.join(absent)}." if absent else "All 26 games."
        figure = {f"atari100k-{number}": figures.atari_100k(table.rows)}
        shown = tuple(
            place
            for place, chosen in enumerate(views)
            if view is next((v for v in compared if {*v.games} <= {*chosen.games}), compared[0])
        )
        blocks.append(Block(table, figure, note, shown))
    if not blocks:
        intro = "No run has an evaluation at 400,000 frames on a game of Atari-100k."
        return Section("atari100k", "Atari-100k", intro, [])
    blocks.append(Block(literature.atari_100k_games(records)))
    labels = ", ".join(published.ATARI_100K_AGENTS.values())
    intro = (
        f"Published agents after 100,000 steps (400,000 frames): {labels}. They were trained on"
        " GPUs and evaluated by their authors' protocols. The figures of SR-SPR were not read from"
        " the source (published/README.md)."
    )
    return Section("atari100k", "Atari-100k", intro, blocks)


def _timing(records: Sequence[RunRecord], unit: str) -> Section:
    table = inventory.timing(records, unit)
    title = "Time and speed"
    if table.rows:
        return Section("timing", title, "As recorded by the runs themselves.", [_list(table)])
    intro = "These runs did not record wall time; runs of this version do."
    return Section("timing", title, intro, [])


def _missing(records: Sequence[RunRecord], frames: int, unit: str) -> Section:
    table = inventory.missing(records, frames, unit)
    intro = "" if table.rows else "Every variant has every game, and every run is finished."
    blocks = [_list(table)] if table.rows else []
    return Section(
        "missing",
        "Missing and unfinished",
        intro,
        [
            *blocks,
            _list(inventory.sources(records)),
        ],
    )
