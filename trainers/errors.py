"""A user's mistake gets one clear sentence and an exit code, never a traceback."""

import errno
import os
import sys
import warnings
from collections.abc import Callable

# Before the libraries are imported: their notes at start help nobody who runs a program.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("SDL_AUDIODRIVER", "dummy")  # renders without a sound card
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # ... and without a screen
warnings.filterwarnings("ignore", category=UserWarning, module="pygame")


class UserError(Exception):
    """Something that the user can mend; the message says what is wrong and what to do."""


class DamagedCheckpoint(Exception):
    """A checkpoint that cannot be read; the message says which and what to do."""


def guarded(main: Callable[[], None]) -> Callable[[list[str]], None]:
    """Returns an absl main function that turns expected failures into a sentence.

    Exit code 2 is for what was asked for, 1 for what happened on the way.
    """

    def run(arguments: list[str]) -> None:
        try:
            if len(arguments) > 1:
                raise UserError(f"what is {arguments[1]!r}? Flags are given as --name=value")
            main()
        except (UserError, ValueError) as error:
            _leave(2, str(error))
        except DamagedCheckpoint as error:
            _leave(1, str(error))
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS):
                raise
            _leave(1, f"cannot write {error.filename or 'the run folder'}: {error.strerror}")

    return run


def _leave(code: int, message: str) -> None:
    print(f"{os.path.basename(sys.argv[0])}: {message}", file=sys.stderr)
    sys.exit(code)
