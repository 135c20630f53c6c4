"""Measures and judges a run that evicts, retrains, saves and evaluates all the time."""

import csv
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

_ROOT = Path(__file__).parents[1]
_RUN = (
    "--env=CartPole-v1",
    "--novideo",
    "--frames=1000000000",
    "--capacity=5000",  # above 4,000 an index is a tree
    "--replay_capacity=5000",
    "--eval_every_frames=2000",
    "--eval_episodes=4",
    "--eval_max_steps=500",
    "--checkpoint_every_frames=1000",
    "--log_every_frames=500",
)
_MOST_GROWTH = 0.02  # of resident memory
# Bytes a frame. TensorFlow 2.15 leaks a little of each eager tensor on CPython 3.11: 1,200 bytes a
# step of NEC were measured (docs/reliability.md#memory-of-a-long-run).
_EXPLAINED_GROWTH = 1_500
_LEAST_RECALL = 0.99
_EVERY = 2.0  # seconds between two readings of resident memory
_PATIENCE = 120.0  # seconds for the last checkpoint
_ERRORS = re.compile(r"^(?:[EF]\d{4} |Traceback)", re.MULTILINE)  # as absl's log and Python write
_WARNINGS = re.compile(r"^W\d{4} ", re.MULTILINE)


def soak(seconds: int, folder: Path) -> dict[str, Any]:
    """Trains in a process of its own for some seconds and returns what was measured."""
    run_dir, log = folder / "run", folder / "log.txt"
    command = [sys.executable, str(_ROOT / "trainers/train_gym.py"), f"--run_dir={run_dir}", *_RUN]
    with log.open("w") as file:
        environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
        process = subprocess.Popen(command, env=environment, stdout=file, stderr=file)
        try:
            resident = _watch(process, seconds, run_dir)
            process.send_signal(signal.SIGTERM)  # saves
            code: int | None = process.wait(timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            process.kill()
    text = log.read_text()
    return {
        **figures(_rows(run_dir), resident),
        "seconds": seconds,
        "exit_code": code,
        "errors": len(_ERRORS.findall(text)),
        "warnings": len(_WARNINGS.findall(text)),
        "end_of_log": text[-2_000:] if code != 0 else "",
    }


class Reading(NamedTuple):
    """Resident memory in MB, and the frames logged by then."""

    megabytes: float
    frames: int


def _watch(process: subprocess.Popen, seconds: int, run_dir: Path) -> list[Reading]:
    """Returns what was read at intervals for some seconds."""
    resident: list[Reading] = []
    began = time.monotonic()
    with tqdm(total=seconds, unit="s", file=sys.stderr) as bar:
        while (passed := time.monotonic() - began) < seconds and process.poll() is None:
            time.sleep(_EVERY)
            resident.append(Reading(_resident_mb(process.pid), _frames(run_dir)))
            bar.update(min(seconds, int(passed)) - bar.n)
            bar.set_postfix(MB=f"{resident[-1].megabytes:.0f}", refresh=False)
    return resident


def _resident_mb(pid: int) -> float:
    """Returns the resident memory of a process in MB, 0 if it has ended."""
    try:
        status = Path(f"/proc/{pid}/statm").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return int(status.split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def _frames(run_dir: Path) -> int:
    """Returns the frames of the last whole row of `metrics.csv`."""
    path = run_dir / "metrics.csv"
    lines = path.read_text().split("\n")[1:-1] if path.exists() else []
    return int(lines[-1].partition(",")[0]) if lines else 0


def _rows(run_dir: Path) -> list[dict[str, str]]:
    path = run_dir / "metrics.csv"
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [row for row in csv.DictReader(file) if row["recall"]]


def figures(rows: Sequence[dict[str, str]], resident: Sequence[Reading]) -> dict[str, Any]:
    """Returns what evaluations and readings of resident memory come to.

    Args:
        rows: Rows of `metrics.csv` that have a recall.
        resident: Resident memory, at equal intervals.
    """
    recalls = [float(row["recall"]) for row in rows]
    early, late = early_and_late(resident)
    frames = late.frames - early.frames
    grown = late.megabytes - early.megabytes
    return {
        "frames": int(rows[-1]["frames"]) if rows else 0,
        "entries": int(float(rows[-1]["memory"])) if rows else 0,
        "evaluations": len(rows),
        "resident_mb": round(late.megabytes, 1),
        "growth": round(grown / early.megabytes, 4) if early.megabytes else 0.0,
        "bytes_per_frame": round(1e6 * grown / frames) if frames else 0,
        "least_recall": min(recalls, default=0.0),
        "last_recall": recalls[-1] if recalls else 0.0,
        "rebuilds": int(sum(float(row["rebuilds"]) for row in rows)),
    }


def early_and_late(resident: Sequence[Reading]) -> tuple[Reading, Reading]:
    """Returns the means of the tenth after the first third, and of the last tenth."""
    tenth = max(1, len(resident) // 10)
    begin = len(resident) // 3
    return _mean(resident[begin : begin + tenth]), _mean(resident[-tenth:])


def _mean(readings: Sequence[Reading]) -> Reading:
    if not readings:
        return Reading(0.0, 0)
    megabytes = sum(reading.megabytes for reading in readings) / len(readings)
    return Reading(megabytes, sum(reading.frames for reading in readings) // len(readings))


def failures(found: dict[str, Any]) -> list[str]:
    """Returns what is wrong, one sentence each."""
    if not found["evaluations"]:
        return [f"there was no evaluation: give it more --seconds. {found['end_of_log']}"]
    grown = f"grew by {found['growth']:.2%}, {found['bytes_per_frame']} bytes a frame"
    checks = {
        f"the run ended with {found['exit_code']}: {found['end_of_log']}": found["exit_code"] != 0,
        f"the run logged {found['errors']} error(s)": found["errors"] > 0,
        f"resident memory {grown}": (
            found["growth"] >= _MOST_GROWTH and found["bytes_per_frame"] > _EXPLAINED_GROWTH
        ),
        f"an evaluation had a recall of {found['least_recall']:.4f}": (
            found["least_recall"] < _LEAST_RECALL
        ),
        f"{found['rebuilds']} indices were rebuilt": found["rebuilds"] > 0,
    }
    return [sentence for sentence, failed in checks.items() if failed]


def describe(found: dict[str, Any]) -> str:
    """Returns the figures as text."""
    return (
        f"frames {found['frames']:,}, entries {found['entries']:,},"
        f" evaluations {found['evaluations']}\n"
        f"resident memory {found['resident_mb']:.0f} MB, growth after the first third"
        f" {found['growth']:+.2%} ({found['bytes_per_frame']} bytes a frame)\n"
        f"recall: least {found['least_recall']:.4f}, last {found['last_recall']:.4f};"
        f" rebuilds {found['rebuilds']}\n"
        f"errors {found['errors']}, warnings {found['warnings']}"
    )
