"""A real run of train_gym.py that saves often, for attacks on it."""

import csv
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
_SETTINGS = (
    "--env=CartPole-v1",
    "--novideo",
    "--eval_episodes=2",
    "--eval_every_frames=400",
    "--log_every_frames=50",
    "--checkpoint_every_frames=100",
    "--learning_starts=40",
    "--batch_size=8",
    "--horizon=10",
    "--replay_capacity=500",
    "--capacity=1000",
    "--epsilon_from=10",
    "--epsilon_until=100",
)
#: Long forms are run by `make faults`.
LONG = "NEC_TF_LONG_FAULTS" in os.environ


def command(run_dir: Path, frames: int) -> list[str]:
    """The command of a run, which also resumes it."""
    program = ROOT / "trainers" / "train_gym.py"
    return [sys.executable, str(program), f"--run_dir={run_dir}", f"--frames={frames}", *_SETTINGS]


def environment() -> dict[str, str]:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path}


def start(run_dir: Path, frames: int) -> subprocess.Popen:
    """Starts a run in the background."""
    return subprocess.Popen(
        command(run_dir, frames),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(run_dir: Path, frames: int) -> subprocess.CompletedProcess:
    """Runs to the end."""
    return subprocess.run(
        command(run_dir, frames), env=environment(), capture_output=True, text=True, timeout=300
    )


def checkpoints(run_dir: Path) -> set[str]:
    """The names of the checkpoints of a run."""
    return {path.name for path in run_dir.glob("checkpoints/frames-*")}


def wait_for_checkpoint(run_dir: Path, process: subprocess.Popen, count: int = 2) -> None:
    """Waits until a run has so many checkpoints."""
    wait_until(process, lambda: len(checkpoints(run_dir)) >= count)


def wait_until(process: subprocess.Popen, happened: Callable[[], object]) -> None:
    """Waits until something has happened that a running process does."""
    deadline = time.monotonic() + 120
    while not happened():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline, "nothing happened within two minutes"
        time.sleep(0.001)


def rows(run_dir: Path) -> list[dict[str, str]]:
    """The rows of metrics.csv; fails if they are not in order or not whole."""
    with (run_dir / "metrics.csv").open(newline="") as file:
        found = list(csv.DictReader(file))
    frames = [int(row["frames"]) for row in found]
    assert frames == sorted(set(frames)), "rows are doubled or out of order"
    assert all(None not in row and None not in row.values() for row in found), "a row is cut"
    return found
