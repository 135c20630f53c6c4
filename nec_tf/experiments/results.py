"""Learning curves as files that are kept: `results/<agent>/<game>/<seed>.csv`."""

import csv
import json
from pathlib import Path
from typing import Any

from nec_tf.experiments import provenance
from nec_tf.experiments.tasks import task_from
from nec_tf.runtime.errors import UserError

COLUMNS = ("frames", "eval_mean", "eval_median", "eval_std", "episodes", "human_normalised")


def save_result(run_dir: Path, results_dir: Path, name: str = "") -> Path:
    """Writes the evaluations of a run, and how to repeat it, to a file; returns the file.

    Args:
        run_dir: Folder of the run.
        results_dir: Folder of all results.
        name: Under which the curve is kept instead of the agent's, to compare two settings of one.

    Raises:
        UserError: There is no such run, or it has no evaluation yet.
    """
    try:
        config = json.loads((run_dir / "config.json").read_text())
        with (run_dir / "metrics.csv").open() as file:
            evaluations = [row for row in csv.DictReader(file) if row["eval_mean"]]
    except FileNotFoundError as error:
        raise UserError(f"{run_dir} is not a run's folder: there is no {error.filename}") from error
    if not evaluations:
        raise UserError(f"{run_dir} has no evaluation yet: train further, or evaluate more often")
    path = (
        results_dir / (name or config["agent"]) / task_from(config).name / f"{config['seed']}.csv"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        file.writelines(f"# {line}\n" for line in _head(run_dir, config))
        writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(_rounded(row, config["eval_episodes"]) for row in evaluations)
    return path


def _head(run_dir: Path, config: dict[str, Any]) -> list[str]:
    return [*provenance.notes(run_dir), f"settings: {json.dumps(config)}"]


def _rounded(row: dict[str, str], episodes: int) -> dict[str, Any]:
    """Returns a row of metrics with few digits; its `episodes` counted those of training."""
    numbers = {name: f"{float(row[name]):.4g}" for name in COLUMNS[1:] if row.get(name)}
    return numbers | {"frames": row["frames"], "episodes": episodes}
