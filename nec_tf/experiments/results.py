"""Learning curves as files that are kept: `results/<agent>/<game>/<seed>.csv`."""

import csv
import io
import json
from pathlib import Path
from typing import Any

from nec_tf.experiments import provenance
from nec_tf.experiments.evaluation_log import EvaluationRecord, read_evaluations
from nec_tf.experiments.run_files import read_config, read_metrics, task_name
from nec_tf.runtime import durable
from nec_tf.runtime.errors import UserError
from nec_tf.runtime.folders import require_local_folder

_SUMMARY = ("eval_mean", "eval_median", "eval_std", "episodes", "human_normalised")
#: Columns of a file. Files of older versions end with `human_normalised`, and older runs leave the
#: last three empty: `scores` holds the score of each evaluation game with spaces between them,
#: `wall_seconds` the time since the run began, `frames_per_second` the speed of training.
COLUMNS = ("frames", *_SUMMARY, "scores", "wall_seconds", "frames_per_second")


def save_result(run_dir: Path, results_dir: Path, name: str = "") -> Path:
    """Writes the evaluations of a run, and how to repeat it, to a file; returns the file.

    Args:
        run_dir: Folder of the run.
        results_dir: Folder of all results.
        name: Under which the curve is kept instead of the agent's, to compare two settings of one.

    Raises:
        UserError: There is no such run, or it has no evaluation yet.
    """
    if "/" in name or name in (".", ".."):
        raise UserError(f"name must be one word without /, not {name!r}")
    require_local_folder("results_dir", results_dir)
    config = read_config(run_dir)
    evaluations = [row for row in read_metrics(run_dir) if row.get("eval_mean")]
    if not evaluations:
        raise UserError(f"{run_dir} has no evaluation yet: train further, or evaluate more often")
    records = {record.frames: record for record in read_evaluations(run_dir)}
    path = results_dir / (name or config["agent"]) / task_name(config) / f"{config['seed']}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    content = io.StringIO(newline="")
    content.writelines(f"# {line}\n" for line in _head(run_dir, config))
    writer = csv.DictWriter(content, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for row in evaluations:
        games = _games(records.get(int(row["frames"])))
        writer.writerow(_rounded(row, config["eval_episodes"]) | games)
    durable.write_text(path, content.getvalue())
    return path


def _head(run_dir: Path, config: dict[str, Any]) -> list[str]:
    return [*provenance.notes(run_dir), f"settings: {json.dumps(config)}"]


def _rounded(row: dict[str, str], episodes: int) -> dict[str, Any]:
    """Returns a row of metrics with few digits; its `episodes` counted those of training."""
    numbers = {name: f"{float(row[name]):.4g}" for name in _SUMMARY if row.get(name)}
    return numbers | {"frames": row["frames"], "episodes": episodes}


def _games(record: EvaluationRecord | None) -> dict[str, Any]:
    """Returns the columns that only `evaluations.jsonl` knows."""
    if record is None:
        return {}
    return {
        "scores": " ".join(f"{score:.10g}" for score in record.scores),
        "wall_seconds": record.wall_seconds,
        "frames_per_second": record.frames_per_second,
    }
