"""How far trials are, from the files in their run folders."""

import dataclasses
import enum
import os
import time
from collections.abc import Iterable
from pathlib import Path

from nec_tf.experiments.evaluation_log import read_evaluations
from nec_tf.experiments.run_files import saved_frames
from nec_tf.experiments.sweep.plan import Trial

_TAIL = 4_096  # bytes, more than the longest row of metrics.csv


class State(enum.Enum):
    """Where a trial stands."""

    WAITING = "waiting"
    RUNNING = "running"
    STOPPED = "saved"
    FAILED = "failed"
    FINISHED = "finished"


@dataclasses.dataclass
class Status:
    """A trial and how far it is.

    Attributes:
        trial: The trial.
        state: Where it stands.
        frames: Of the newest row of its metrics.
        speed: Frames per second of this session, evaluations included; None while unknown.
        evaluation: Mean score of its last evaluation.
        failures: Attempts that ended with an error.
        losses: Attempts that ended with the loss of a worker or a node.
        host: Node on which it runs.
        error: The end of what the last failed attempt printed.
    """

    trial: Trial
    state: State = State.WAITING
    frames: int = 0
    speed: float | None = None
    evaluation: float | None = None
    failures: int = 0
    losses: int = 0
    host: str = ""
    error: str = ""
    _first: tuple[float, int] | None = None

    @property
    def frames_left(self) -> int:
        """Frames that are still to be trained on."""
        return 0 if self.state is State.FINISHED else max(0, self.trial.frames - self.frames)

    @property
    def seconds_left(self) -> float | None:
        """Time left at the speed of this session, None while that is unknown."""
        return self.frames_left / self.speed if self.speed else None

    def begin_session(self) -> None:
        """Forgets the speed of the session before."""
        self._first = None
        self.speed = None

    def refresh(self) -> None:
        """Reads the run folder."""
        frames = last_logged_frames(self.trial.run_dir)
        evaluations = read_evaluations(self.trial.run_dir)
        self.evaluation = (
            sum(evaluations[-1].scores) / len(evaluations[-1].scores) if evaluations else None
        )
        now = time.monotonic()
        if self._first is None or frames < self._first[1]:  # a resumed run drops lost rows
            self._first = now, frames
        elif frames > self.frames:
            started, first = self._first
            self.speed = (frames - first) / (now - started)
        self.frames = frames


def survey(trials: Iterable[Trial]) -> list[Status]:
    """Returns how far trials are that no driver runs."""
    statuses = [Status(trial) for trial in trials]
    for status in statuses:
        status.refresh()
        if is_finished(status.trial):
            status.state = State.FINISHED
    return statuses


def is_finished(trial: Trial) -> bool:
    """Whether the newest checkpoint of a trial is complete up to its frames."""
    return saved_frames(trial.run_dir) >= trial.frames


def last_logged_frames(run_dir: Path) -> int:
    """Returns the frames of the newest row of `metrics.csv`, 0 if it has none."""
    try:
        with (run_dir / "metrics.csv").open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
            lines = file.read().split(b"\n")
    except FileNotFoundError:
        return 0
    whole = lines[-2] if len(lines) > 1 else b""
    first = whole.split(b",")[0]
    return int(first) if first.isdigit() else 0


def time_left(statuses: Iterable[Status]) -> float | None:
    """Returns seconds until all trials are finished at the present speed of those that run."""
    statuses = list(statuses)
    running = [s.speed for s in statuses if s.state is State.RUNNING and s.speed]
    left = sum(s.frames_left for s in statuses if s.state in (State.WAITING, State.RUNNING))
    return left / sum(running) if running else None
