"""Where a run comes from: which command, which commit."""

import os
import shlex
import subprocess
from pathlib import Path

from nec_tf.runtime import programs
from nec_tf.runtime.version import VERSION

_FILE = "commands.txt"
_ROUNDING, _USUAL = "TF_ENABLE_ONEDNN_OPTS", "1"  # decides the last digits; `runtime.startup`


def note(run_dir: Path) -> None:
    """Adds the commit and the command of this process to a run's `commands.txt`."""
    with (run_dir / _FILE).open("a") as file:
        file.write(f"{this_command()}\n")


def this_command() -> str:
    """Returns the commit and the command of this process."""
    command = shlex.join(programs.called())
    rounding = os.environ.get(_ROUNDING, _USUAL)
    if rounding != _USUAL:
        command = f"{_ROUNDING}={rounding} {command}"
    return f"{commit()}: {command}"


def notes(run_dir: Path) -> list[str]:
    """Returns all commands that the run was trained with, each with its commit."""
    path = run_dir / _FILE
    return path.read_text().splitlines() if path.exists() else []


def commit() -> str:
    """Returns which commit the code is of, and whether files differ from it.

    An installed wheel has a version instead; a repository around it is another project's.
    """
    if not programs.in_checkout():
        return f"version {VERSION}"
    try:
        head = _git("rev-parse", "--short", "HEAD").strip()
        changed = _git("status", "--porcelain", "--untracked-files=no").strip()
    except (OSError, subprocess.CalledProcessError):
        return "commit unknown"
    return f"commit {head}" + (" with changes" if changed else "")


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(programs.root()), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
