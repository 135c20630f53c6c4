"""What every program does first and last: a quiet start, and a sentence where it cannot go on.

Programs import this module before any other.
"""

import errno
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

from trainers.errors import DamagedCheckpoint, UserError

_TUNABLES = "GLIBC_TUNABLES"


def _start_with_huge_pages() -> None:
    """Starts a program of ours once more, with memory in pages of 2 MB where the system has them.

    The C library has to be asked for them before it starts. Searches, lookups and optimizer steps
    in large memories mostly wait for memory and for its page tables: a step with 500,000 entries an
    action takes 6% less time (measured, see docs/experiments.md).
    """
    program = getattr(sys.modules["__main__"], "__file__", None)
    ours = program and Path(program).resolve().parents[1] == Path(__file__).resolve().parents[1]
    if _TUNABLES in os.environ or not ours:
        return
    os.environ[_TUNABLES] = "glibc.malloc.hugetlb=1"
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


_start_with_huge_pages()
# The libraries' notes at their start help nobody who runs a program.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Updates are computed beside acting (`nec_tf.updates`): each gets half of the cores. With all
# cores for both, an act waits for the pieces of an update: 13.6 ms a step against 11.9 (measured on
# two cores, see docs/experiments.md).
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", str(max(1, len(os.sched_getaffinity(0)) // 2)))
# TensorFlow leaves oneDNN off on processors that it does not know well; on ours it makes an update
# take 23 instead of 34 ms (measured, see docs/experiments.md).
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
# Seconds. While an update searches neighbours, a step of the emulator gives Python's lock away a
# dozen times and would wait 0.005 for it each time; see docs/experiments.md.
sys.setswitchinterval(0.00002)
os.environ.setdefault("SDL_AUDIODRIVER", "dummy")  # pygame renders without a sound card
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # ... and without a screen
warnings.filterwarnings("ignore", category=UserWarning, module="pygame")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import gym_notices.notices

    gym_notices.notices.notices.clear()  # TF-Agents imports the old Gym, which says so each time


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
