"""Published agents beside ours, on the same games."""

from collections.abc import Mapping, Sequence

import numpy as np

from nec_tf.environments.games import GAMES
from nec_tf.experiments.report import published, tables
from nec_tf.experiments.report.analysis import View, columns, count, listed, scores_at
from nec_tf.experiments.report.records import RunRecord
from nec_tf.experiments.report.statistics import iqm, mean, median, rectangular
from nec_tf.experiments.report.tables import Column, Row, Table

_DECILES = tuple(range(10, 100, 10))


def paper_tables(records: Sequence[RunRecord], statistic: str) -> Table:
    """Returns the paper's table of `median` or `mean` by frames, ours beside it.

    Below and above 10 million frames the paper prints only figures over all 57 games; ours are over
    the games that a variant has at that budget.
    """
    function = {"median": median, "mean": mean}[statistic]
    printed = published.paper_summary(statistic)
    ours: dict[int, dict[str, tuple[float, int]]] = {}
    for frames in printed:
        for variant, games in scores_at(records, frames).items():
            value = 100 * float(function(rectangular(list(games.values()))))
            ours.setdefault(frames, {})[variant] = (value, len(games))
    variants = sorted({variant for found in ours.values() for variant in found})

    def own(variant: str) -> Column:
        def show(row: Row) -> str:
            found = ours.get(row["frames"], {}).get(variant)
            return "-" if found is None else f"{found[0]:.1f} ({count(found[1])})"

        return Column(variant, show, variant)

    rows: list[Row] = []
    for frames, agents in printed.items():
        row: dict = {"frames": frames} | {f"paper_{agent}": agents[agent] for agent in agents}
        for variant in variants:
            found = ours.get(frames, {}).get(variant)
            row |= {variant: found and found[0], f"{variant}_games": found and found[1]}
        rows.append(row)
    return Table(
        f"paper_{statistic}",
        f"{statistic.capitalize()} per cent of human play by frames: the paper's agents over 57"
        " games, ours over the games that were run",
        [
            Column("Frames", lambda row: f"{row['frames']:,}"),
            *map(own, variants),
            *(
                tables.number(f"paper_{agent}", f"{label} (paper)")
                for agent, label in published.PAPER_AGENTS.items()
            ),
        ],
        rows,
    )


def paper_on_our_games(records: Sequence[RunRecord], view: View, name: str) -> Table:
    """Returns the paper's agents at 10 million frames and ours at a view's, on the view's games."""
    theirs = {
        f"{published.PAPER_AGENTS[agent]} (paper)": _of_games(scores, view.games)
        for agent, scores in published.paper_scores().items()
    }
    return _beside(
        name,
        f"On the same games ({listed(view.games)}): ours at {view.frames:,} frames, the paper's"
        " agents at 10,000,000; per cent of human play",
        records,
        view,
        {agent: (published.PAPER_FRAMES, scores) for agent, scores in theirs.items()},
    )


def atari_100k(records: Sequence[RunRecord], view: View, name: str) -> Table:
    """Returns published Atari-100k agents and ours at 400,000 frames on the view's games."""
    theirs = {
        published.ATARI_100K_AGENTS[agent]: _of_games(scores, view.games)
        for agent, scores in published.atari_100k_scores().items()
    }
    return _beside(
        name,
        f"400,000 frames, {listed(view.games)}: per cent of human play, aggregates of the games'"
        f" means over runs. Not run: {len(atari_100k_not_run(view))} of the 26 games of Atari-100k",
        records,
        view,
        {agent: (published.ATARI_100K_FRAMES, scores) for agent, scores in theirs.items()},
    )


def atari_100k_views(views: Sequence[View]) -> list[View]:
    """Returns the views at 400,000 frames without the games that Atari-100k does not have."""
    games = next(iter(published.atari_100k_scores().values()))
    found: dict[tuple[str, ...], View] = {}
    for view in views:
        shared = tuple(game for game in view.games if game in games)
        if view.frames == published.ATARI_100K_FRAMES and shared:
            variants = found[shared].variants if shared in found else ()
            merged = tuple(sorted({*variants, *view.variants}))
            found[shared] = View(view.frames, shared, merged)
    return list(found.values())


def atari_100k_not_run(view: View) -> list[str]:
    """Returns the games of Atari-100k that are not in a view."""
    games = next(iter(published.atari_100k_scores().values()))
    return [game for game in games if game not in view.games]


def atari_100k_games(records: Sequence[RunRecord]) -> Table:
    """Returns scores of all games of Atari-100k that any variant has at 400,000 frames."""
    ours = scores_at(records, published.ATARI_100K_FRAMES)
    theirs = published.atari_100k_scores()
    games = [game for game in theirs["der"] if any(game in own for own in ours.values())]
    rows: list[Row] = []
    for game in games:
        row: dict = {"game": game, "_game": game}
        for variant, own in ours.items():
            row[variant] = 100 * float(own[game].mean()) if game in own else None
        for agent, scores in theirs.items():
            row[f"published_{agent}"] = GAMES[game].human_normalised(scores[game])
        rows.append(row)
    return Table(
        "atari100k_games",
        "Per cent of human play on each game at 400,000 frames: ours (mean over runs) and published"
        " agents",
        [
            tables.text("game", "Game"),
            *(tables.number(variant, variant, variant=variant) for variant in ours),
            *(
                tables.number(f"published_{agent}", label)
                for agent, label in published.ATARI_100K_AGENTS.items()
            ),
        ],
        rows,
    )


def deciles(records: Sequence[RunRecord], frames: int) -> tuple[Table, list[Row]]:
    """Returns the figure of the paper's discussion: games ranked for each agent by itself.

    Returns:
        A table of deciles, and rows of agent, variant (None for the paper's), game, quantile and
        per cent of human play.
    """
    ranked: dict[tuple[str, str | None], dict[str, float]] = {
        (f"{published.PAPER_AGENTS[agent]} (paper, 10M frames)", None): published.normalised(
            published.paper_scores()[agent]
        )
        for agent in ("nec", "mfec", "prioritised_replay")
    }
    for own, scores in scores_at(records, frames).items():
        ranked[own, own] = {game: float(runs.mean()) for game, runs in scores.items()}
    rows: list[Row] = []
    points: list[Row] = []
    for (label, variant), games in ranked.items():
        values = 100 * np.quantile(list(games.values()), [decile / 100 for decile in _DECILES])
        row: dict = {"agent": label, "games": len(games)}
        row |= {f"{decile}%": float(v) for decile, v in zip(_DECILES, values, strict=True)}
        rows.append(row | {"_variants": [variant] if variant else []})
        for rank, (game, value) in enumerate(sorted(games.items(), key=lambda item: item[1])):
            points.append(
                {
                    "agent": label,
                    "variant": variant,
                    "game": game,
                    "quantile": 100 * (rank + 0.5) / len(games),
                    "human_normalised": 100 * value,
                }
            )
    table = Table(
        "deciles",
        f"Deciles over games of per cent of human play, games ranked for each agent by itself; ours"
        f" at {frames:,} frames",
        [
            tables.text("agent", "Agent"),
            tables.text("games", "Games"),
            *(tables.number(f"{decile}%", f"{decile}%") for decile in _DECILES),
        ],
        rows,
    )
    return table, points


def _of_games(scores: Mapping[str, float], games: Sequence[str]) -> list[np.ndarray]:
    normalised = published.normalised(scores)
    return [np.array([normalised[game]]) for game in games]


def _beside(
    name: str,
    caption: str,
    records: Sequence[RunRecord],
    view: View,
    theirs: Mapping[str, tuple[int, list[np.ndarray]]],
) -> Table:
    scores = scores_at(records, view.frames)
    ours = {
        variant: (
            view.frames,
            [np.array([runs.mean()]) for runs in columns(scores[variant], view.games)],
        )
        for variant in view.variants
    }
    rows: list[Row] = []
    for label, (frames, found) in {**ours, **theirs}.items():
        own = label in view.variants
        array = rectangular(found)
        rows.append(
            {
                "agent": label,
                "published": not own,
                "frames": frames,
                "games": " ".join(view.games),
                "median": 100 * float(median(array)),
                "mean": 100 * float(mean(array)),
                "iqm": 100 * float(iqm(array)),
                "_variants": [label] if own else [],
            }
        )
    return Table(
        name,
        caption,
        [
            Column(
                "Agent", lambda row: row["agent"] if row["published"] else f"{row['agent']} (ours)"
            ),
            Column("Frames", lambda row: f"{row['frames']:,}"),
            tables.number("median", "Median"),
            tables.number("mean", "Mean"),
            tables.number("iqm", "IQM of games"),
        ],
        rows,
    )
