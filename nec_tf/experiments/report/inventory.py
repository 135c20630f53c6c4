"""What there is and what is missing: unfinished runs, games that were not run, time and speed."""

from collections.abc import Sequence

import numpy as np

from nec_tf.experiments.report import tables
from nec_tf.experiments.report.analysis import tasks_of, variants_of
from nec_tf.experiments.report.records import RunRecord
from nec_tf.experiments.report.tables import Column, Row, Table


def missing(records: Sequence[RunRecord], frames: int, unit: str) -> Table:
    """Returns runs that are unfinished or not in the comparison at `frames`, and absent games."""
    rows: list[Row] = []
    tasks = tasks_of(records)
    for variant in variants_of(records):
        own = [record for record in records if record.variant == variant]
        for record in own:
            if not record.finished or record.at(frames) is None:
                rows.append(_row(variant, record.task, record.seed, _state(record, frames, unit)))
        most = max(len({r.seed for r in own if r.task == task}) for task in tasks)
        for task in tasks:
            runs = [record for record in own if record.task == task]
            if not runs:
                rows.append(_row(variant, task, "", "not run; another variant has it"))
            elif len(runs) < most:
                rows.append(
                    _row(variant, task, "", f"{len(runs)} of {most} runs that other games have")
                )
    return Table(
        "missing",
        f"Runs that are unfinished or have no evaluation at {frames:,} {unit}, and games that were"
        " not run",
        [
            tables.text("variant", "Variant"),
            tables.text("game", "Game"),
            tables.text("seed", "Seed"),
            tables.text("state", "State"),
        ],
        rows,
    )


def _row(variant: str, task: str, seed: str, state: str) -> Row:
    row = {"variant": variant, "game": task, "seed": seed, "state": state}
    return row | {"_variants": [variant], "_game": task}


def _state(record: RunRecord, frames: int, unit: str) -> str:
    if not record.evaluations:
        return "no evaluation yet"
    if not record.finished:
        return f"unfinished: last evaluation at {record.end:,} of {record.target:,} {unit}"
    return f"ended at {record.end:,} {unit}: not in the comparison at {frames:,}"


def timing(records: Sequence[RunRecord], unit: str) -> Table:
    """Returns time and speed of runs that recorded them, by variant and game."""
    rows: list[Row] = []
    for variant in variants_of(records):
        for task in tasks_of(records):
            runs = [
                record
                for record in records
                if (record.variant, record.task) == (variant, task)
                and any(e.wall_seconds is not None for e in record.evaluations)
            ]
            if runs:
                rows.append(_timing_row(variant, task, runs))
    return Table(
        "timing",
        "Wall time of a run with its evaluations, and speed of training alone; mean over runs that"
        " recorded them",
        [
            tables.text("variant", "Variant"),
            tables.text("game", "Game"),
            tables.text("runs", "Runs"),
            # Not in millions: runs of Gymnasium environments, of some thousand steps, stand beside.
            tables.number("frames", unit.capitalize(), 0),
            tables.number("minutes", "Minutes"),
            tables.number("per_second", f"{unit.capitalize()}/s", 0),
        ],
        rows,
    )


def _timing_row(variant: str, task: str, runs: Sequence[RunRecord]) -> Row:
    last = [[e for e in record.evaluations if e.wall_seconds is not None][-1] for record in runs]
    speeds = [
        e.frames_per_second for record in runs for e in record.evaluations if e.frames_per_second
    ]
    return {
        "variant": variant,
        "game": task,
        "runs": len(runs),
        "frames": float(np.mean([e.frames for e in last])),
        "minutes": float(np.mean([e.wall_seconds or 0.0 for e in last])) / 60,
        "per_second": float(np.mean(speeds)) if speeds else None,
        "_variants": [variant],
        "_game": task,
    }


def sources(records: Sequence[RunRecord]) -> Table:
    """Returns where each run was read from."""
    return Table(
        "runs",
        "All runs of this report",
        [
            Column("Run", lambda row: f"{row['variant']}, {row['game']}, seed {row['seed']}"),
            tables.number("end", "Last evaluation", 0),
            tables.text("episodes", "Games an evaluation"),
            tables.text("source", "Read from"),
        ],
        [
            {
                "variant": record.variant,
                "game": record.task,
                "seed": record.seed,
                "end": record.end,
                "episodes": (record.evaluations[-1].episodes or "") if record.evaluations else "",
                "source": record.source,
                "_variants": [record.variant],
                "_game": record.task,
            }
            for record in records
        ],
    )
