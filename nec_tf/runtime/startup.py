"""Start of a program: tuning that has to come before TensorFlow, and errors as sentences.

Programs call `configure` before they import anything that imports TensorFlow.
"""

import contextlib
import errno
import os
import sys
from collections.abc import Callable, Sequence

from absl import flags

from nec_tf.runtime import streams
from nec_tf.runtime.errors import DamagedCheckpoint, Diverged, UserError, is_of_environment

_TUNABLES = "GLIBC_TUNABLES"
_GIN_CONTEXT = "\n  In call to configurable"  # gin adds it to errors of configurations
# What files, folders and disks that a user names can be. Others, such as a missing file, are bugs.
_OF_FILES = (
    errno.EACCES,
    errno.EDQUOT,
    errno.EEXIST,
    errno.EFBIG,
    errno.EIO,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENOLCK,
    errno.ENOSPC,
    errno.ENOTDIR,
    errno.ENOTEMPTY,
    errno.EPERM,
    errno.EPIPE,
    errno.EROFS,
)
# Seconds. While an update searches neighbours, an emulator step releases Python's lock a dozen
# times and would wait 0.005 s for it each time; measured, see docs/experiments.md.
_SWITCH_INTERVAL = 0.00002


def configure(restart: bool, headless: bool = True) -> None:
    """Tunes this process; variables that are already set in the environment are kept.

    - Memory in huge pages, by restarting the program (`_restart_with_huge_pages`).
    - Half of the cores for each TensorFlow operation. Updates are computed while the agent acts;
      with all cores for both, an act waits for parts of an update: 13.6 ms a step instead of 11.9
      (two cores, docs/experiments.md).
    - oneDNN. TensorFlow leaves it off on processors that it does not know; an update takes 23
      instead of 34 ms with it (docs/experiments.md).
    - The C library's allocator for oneDNN. TensorFlow's own keeps what growing tables free: 1,560
      instead of 610 bytes an entry (docs/experiments.md).
    - A short switch interval of Python's threads.
    - Standard streams that were closed before the start (`2>&-`) discard what is written.
    - No sound card and, if `headless`, no screen.
    - A program finds modules in the current folder, as `python -m` does: --env=my_module:MyEnv-v0.

    Args:
        restart: Whether the process may restart itself: True for a program (`__name__ ==
            "__main__"`), False if it is imported.
        headless: Whether the process opens no windows.
    """
    streams.open_closed_streams()
    if restart:
        _restart_with_huge_pages()
        sys.path.append(os.getcwd())
    half = max(1, len(os.sched_getaffinity(0)) // 2)
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", str(half))
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    os.environ.setdefault("TF_ONEDNN_USE_SYSTEM_ALLOCATOR", "1")
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
    if headless:
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    sys.setswitchinterval(_SWITCH_INTERVAL)


def _restart_with_huge_pages() -> None:
    """Restarts the program with memory in pages of 2 MB, where the system has them.

    The C library reads this setting only when a process starts. Searches, lookups and optimizer
    steps in large memories mostly wait for memory and its page tables: with 500,000 entries an
    action, a step takes 6% less time (measured, see docs/experiments.md).
    """
    if _TUNABLES in os.environ:
        return
    os.environ[_TUNABLES] = "glibc.malloc.hugetlb=1"
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def guarded(main: Callable[[], None], required: Sequence[str] = ()) -> Callable[[list[str]], None]:
    """Returns an absl main function that reports expected failures as one sentence.

    Exit code 2 stands for a request that cannot be met, 1 for a failure on the way. Any other
    error keeps its traceback.

    Args:
        main: The program.
        required: Names of flags that must be given.
    """

    def run(arguments: list[str]) -> None:
        try:
            if len(arguments) > 1:
                raise UserError(
                    f"unknown argument {arguments[1]!r}: flags have the form --name=value"
                )
            for name in required:
                if not flags.FLAGS[name].value:
                    raise UserError(f"--{name} is required: {flags.FLAGS[name].help}")
            main()
            sys.stdout.flush()  # here, where an error of it becomes a sentence
        except UserError as error:
            _exit(2, _sentences(str(error).split(_GIN_CONTEXT)[0], error))
        except (DamagedCheckpoint, Diverged) as error:
            _exit(1, _sentences(str(error), error))
        except MemoryError as error:
            if is_of_environment(error):
                raise
            _exit(1, _sentences(f"there is not enough memory: {error}", error))
        except OSError as error:
            if error.errno not in _OF_FILES or is_of_environment(error):
                raise
            _exit(1, _sentences(_reason(error), error))
        finally:
            for stream in (sys.stdout, sys.stderr):
                streams.flush_or_discard(stream)

    return run


def _sentences(message: str, error: BaseException) -> str:
    """Returns a message and the notes of its error, as sentences."""
    notes = getattr(error, "__notes__", [])
    ended = message if not notes or message.endswith((".", "?", "!")) else f"{message}."
    return " ".join([ended, *notes])


def _reason(error: OSError) -> str:
    if error.filename is None:
        return f"cannot write: {error.strerror}"
    return f"cannot use {error.filename}: {error.strerror}"


def _exit(code: int, message: str) -> None:
    with contextlib.suppress(OSError):  # of a terminal or pipe that is closed
        print(f"{os.path.basename(sys.argv[0])}: {message}", file=sys.stderr)
    sys.exit(code)
