"""Errors that programs report as one sentence instead of a traceback."""

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """A request that cannot be met. The message says what was wrong and what to do about it."""


class DamagedCheckpoint(Exception):
    """A checkpoint that cannot be read or written."""


class Diverged(Exception):
    """Training produced NaN or infinity; what was learned since the last checkpoint is useless."""


_OF_ENVIRONMENT = "This is an error of the environment"


def note_environment(error: BaseException, where: str) -> None:
    """Notes that an error came from a user's environment: programs keep its traceback."""
    error.add_note(f"{_OF_ENVIRONMENT} {where}.")


def is_of_environment(error: BaseException) -> bool:
    """Returns whether `note_environment` marked an error."""
    return any(note.startswith(_OF_ENVIRONMENT) for note in getattr(error, "__notes__", ()))


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns "did you mean ...?" with the nearest of the known names, "" if none is near."""
    by_lower_case = {one.lower(): one for one in known}
    near = difflib.get_close_matches(name.lower(), by_lower_case, n=3)
    return f"did you mean {' or '.join(by_lower_case[one] for one in near)}?" if near else ""
