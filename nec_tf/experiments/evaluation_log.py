"""`evaluations.jsonl` of a run: the score of every evaluation game, wall time and speed.

Beside `metrics.csv`, which holds nothing that depends on the clock. Needs no TensorFlow.
"""

import dataclasses
import json
from pathlib import Path

from absl import logging

from nec_tf.runtime import durable

_FILE = "evaluations.jsonl"


@dataclasses.dataclass(frozen=True)
class EvaluationRecord:
    """One evaluation.

    Attributes:
        frames: Environment frames trained on.
        scores: Undiscounted return of each episode, in the order of the environments.
        wall_seconds: Training, evaluating and saving up to the end of this evaluation, in all
            sessions; without the start of the program.
        frames_per_second: Speed of training alone since the evaluation before, or since the session
            began; None if nothing was trained in between.
    """

    frames: int
    scores: list[float]
    wall_seconds: float
    frames_per_second: float | None = None


class EvaluationLog:
    """Appends evaluations to a run's file."""

    def __init__(self, run_dir: Path, frames: int) -> None:
        """Opens the log of a run that resumes at `frames`; drops later rows of a lost session."""
        self._path = run_dir / _FILE
        if not self._path.exists():
            return
        records, lost = _read(self._path)
        if lost:
            logging.warning("%s: %d unreadable line(s) at its end were dropped", self._path, lost)
        kept = [record for record in records if record.frames <= frames]
        durable.write_text(self._path, "".join(map(_line, kept)))

    def write(self, record: EvaluationRecord) -> None:
        """Appends one evaluation, in one write."""
        with self._path.open("a") as file:
            file.write(_line(record))

    def sync(self) -> None:
        """Waits until all evaluations are on the disk; call it before a checkpoint is saved."""
        if self._path.exists():
            durable.sync(self._path)


def read_evaluations(run_dir: Path) -> list[EvaluationRecord]:
    """Returns the evaluations of a run; none for runs of versions that did not record them.

    Lines that a crash left unreadable, at the end of the file, are left out.
    """
    path = run_dir / _FILE
    return _read(path)[0] if path.exists() else []


def _read(path: Path) -> tuple[list[EvaluationRecord], int]:
    """Returns the records up to the first unreadable line, and how many lines follow them."""
    *lines, unfinished = path.read_text(errors="replace").split("\n")
    records: list[EvaluationRecord] = []
    for line in lines:
        try:
            record = EvaluationRecord(**json.loads(line))
            _require_numbers(record)
        except (ValueError, TypeError, RecursionError):
            break
        records.append(record)
    return records, len(lines) - len(records) + bool(unfinished)


def _require_numbers(record: EvaluationRecord) -> None:
    """Raises `TypeError` if a field of a record is of another type."""
    speed = record.frames_per_second
    numbers = [*record.scores, record.wall_seconds, *([] if speed is None else [speed])]
    if type(record.frames) is not int or not all(type(n) in (int, float) for n in numbers):
        raise TypeError(record)


def _line(record: EvaluationRecord) -> str:
    return json.dumps(dataclasses.asdict(record)) + "\n"
