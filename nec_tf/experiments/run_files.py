"""Reads the folder of a run without TensorFlow, and changes nothing in it."""

import contextlib
import csv
import json
from pathlib import Path
from typing import Any

from nec_tf.runtime import durable
from nec_tf.runtime.errors import UserError
from nec_tf.runtime.folders import require_local_folder

#: Checkpoints that can be loaded: the newest, and that of the best evaluation so far.
CHECKPOINTS = ("newest", "best")
#: Folder of kept screens in the folder of a run, see `nec_tf.replay.kept_screens`.
SCREENS = "screens"
#: Settings that are newer than some runs, and what runs that do not record them used.
BEFORE_RECORDED = {"precision": "float32"}


_TEXTS = ("game", "protocol", "env", "encoder")
_COUNTS = ("seed", "frames", "eval_episodes")


def read_config(run_dir: Path) -> dict[str, Any]:
    """Returns a run's `config.json`.

    Raises:
        UserError: There is none, or it is damaged.
    """
    require_local_folder("run_dir", run_dir)
    path = run_dir / "config.json"
    if not path.exists():
        raise UserError(f"{run_dir} is not a run's folder: there is no {path}")
    config = read_object(path)
    if not ("game" in config or "env" in config) or not isinstance(config.get("agent"), str):
        raise UserError(f"{path} is damaged: it does not name a task and an agent")
    texts = [config[name] for name in _TEXTS if name in config]
    counts = [config[name] for name in _COUNTS if name in config]
    typed = all(isinstance(text, str) for text in texts) and {int}.issuperset(map(type, counts))
    if not typed or "seed" not in config:
        named = ", ".join((*_TEXTS, *_COUNTS))
        raise UserError(f"{path} is damaged: one of {named} is missing or of another type")
    return config


def read_object(path: Path) -> dict[str, Any]:
    """Returns the JSON object in a file of a run.

    Raises:
        UserError: It is damaged.
    """
    try:
        content = json.loads(path.read_text())
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"{path} is not readable as JSON ({error}): choose another --run_dir"
        ) from error
    if not isinstance(content, dict):
        raise UserError(f"{path} holds no JSON object: choose another --run_dir")
    return content


def read_metrics(run_dir: Path) -> list[dict[str, str]]:
    """Returns the rows of a run's `metrics.csv`, none if it has no such file yet.

    A row that is not complete is left out: a training process is writing it.

    Raises:
        UserError: It is damaged.
    """
    path = run_dir / "metrics.csv"
    rows, lost, _ = whole_rows(path)
    if lost:
        raise UserError(
            f"{path} is damaged after row {len(rows)}: resume the run, which drops unreadable rows"
        )
    return rows


def whole_rows(path: Path) -> tuple[list[dict[str, str]], int, bool]:
    """Returns the rows of a `metrics.csv` up to the first one that a crash left unreadable.

    Returns:
        The rows, how many lines there are from the first unreadable one on, and whether the file
        ends within a line.
    """
    if not path.exists():
        return [], 0, False
    with path.open(newline="", errors="replace") as file:
        text = file.read()
    # As it is written, or as an editor may have left it.
    *lines, unfinished = text.split("\r\n" if "\r\n" in text else "\n")
    reader = csv.DictReader(lines)
    rows: list[dict[str, str]] = []
    with contextlib.suppress(csv.Error):  # a row that holds a line break is unreadable, too
        for row in reader:
            if not _readable(row) or (rows and int(row["frames"]) <= int(rows[-1]["frames"])):
                break
            rows.append(row)
    return rows, max(0, len(lines) - 1 - len(rows)), bool(unfinished)


def _readable(row: dict[Any, Any]) -> bool:
    """Returns whether a row has as many cells as there are columns, and numbers in them."""
    if None in row or None in row.values() or not str(row.get("frames")).isdecimal():
        return False
    try:
        return all(not cell or float(cell) is not None for cell in row.values())
    except ValueError:
        return False


def checkpoints(run_dir: Path) -> list[Path]:
    """Returns the checkpoints of a run, oldest first."""
    return durable.whole_folders(run_dir / "checkpoints", "frames-*")


def best_checkpoint(run_dir: Path) -> Path | None:
    """Returns the checkpoint of the best evaluation, None if none was kept."""
    best = durable.whole_folders(run_dir / "checkpoints" / "best", "frames-*")
    return best[-1] if best else None  # a later one replaces an earlier one because it is better


def saved_frames(run_dir: Path) -> int:
    """Returns the frames up to which the newest checkpoint is complete, evaluations included."""
    newest = checkpoints(run_dir)
    if not newest:
        return 0
    try:
        progress = json.loads((newest[-1] / "progress.json").read_text())
    except (OSError, ValueError):  # replaced by a newer one just now, or damaged
        return 0
    return int(progress.get("handled_frames", progress.get("seen_to", 0)))


def task_name(config: dict[str, Any]) -> str:
    """Returns the short name of the task of a `config.json`, for file names."""
    return config["game"] if "game" in config else gym_task_name(config["env"])


def gym_task_name(env_id: str) -> str:
    """Returns the short name of a Gymnasium environment, for file names."""
    return env_id.lower().replace("/", "-").replace(":", "-")
