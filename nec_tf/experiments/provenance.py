"""Where a run comes from: which command, which commit."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_FILE = "commands.txt"
_ROUNDING, _USUAL = "TF_ENABLE_ONEDNN_OPTS", "1"  # decides the last digits; `runtime.startup`


def note(run_dir: Path) -> None:
    """Adds the commit and the command of this process to a run's `commands.txt`."""
    program = Path(sys.argv[0]).resolve()
    if program.is_relative_to(_ROOT):
        program = program.relative_to(_ROOT)
    command = shlex.join(["python", str(program), *sys.argv[1:]])
    rounding = os.environ.get(_ROUNDING, _USUAL)
    if rounding != _USUAL:
        command = f"{_ROUNDING}={rounding} {command}"
    with (run_dir / _FILE).open("a") as file:
        file.write(f"{commit()}: {command}\n")


def notes(run_dir: Path) -> list[str]:
    """Returns all commands that the run was trained with, each with its commit."""
    path = run_dir / _FILE
    return path.read_text().splitlines() if path.exists() else []


def commit() -> str:
    """Returns which commit the code is of, and whether files differ from it."""
    try:
        head = _git("rev-parse", "--short", "HEAD").strip()
        changed = _git("status", "--porcelain", "--untracked-files=no").strip()
    except (OSError, subprocess.CalledProcessError):
        return "commit unknown"
    return f"commit {head}" + (" with changes" if changed else "")


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(_ROOT), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
