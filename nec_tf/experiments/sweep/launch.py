"""Becomes the process of a trial, in a fresh Python that runs this file: see `start`.

Nothing but the standard library, and at the end the command takes its place by `exec`. What
it sets is set in a fresh process: Ray's workers have threads, and code between their `fork` and
`exec` could wait for a lock for ever.

- The kernel kills the trial when the worker that started it dies: it is never orphaned.
- The trial gets cores of its own. TensorFlow's threads follow from their number
  (`nec_tf.runtime.startup`).
"""

import ctypes
import fcntl
import os
import random
import signal
from pathlib import Path

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def die_with_parent(parent: int) -> None:
    """Makes the kernel kill this process when the thread that started it ends."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before
        os.kill(os.getpid(), signal.SIGKILL)


def take_cores(count: int, folder: Path) -> set[int] | None:
    """Restricts this process to `count` cores that no other trial of this machine uses.

    A core is taken by a lock on a file, which the process keeps through `exec` and which the kernel
    releases when it ends. If Ray was promised more cores than the machine has, cores are shared.

    Returns:
        The cores; None in a container that has a quota of time instead of cores: other containers
        of the machine choose from the same ones, and all could choose the first.
    """
    allowed = sorted(os.sched_getaffinity(0))
    if _quota() < len(allowed):
        os.environ.setdefault("TF_NUM_INTRAOP_THREADS", str(max(1, count // 2)))
        return None
    folder.mkdir(mode=0o700, exist_ok=True)
    taken: set[int] = set()
    for core in allowed:
        if len(taken) == count:
            break
        file = os.open(folder / str(core), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            continue
        os.set_inheritable(file, True)
        taken.add(core)
    missing = min(count, len(allowed)) - len(taken)
    taken |= set(random.sample([core for core in allowed if core not in taken], missing))
    os.sched_setaffinity(0, taken)
    return taken


def _quota() -> float:
    """Returns how many cores' time the container may use; infinite if it has no quota."""
    try:
        quota, period = _QUOTA.read_text().split()
    except (OSError, ValueError):
        return float("inf")
    return float("inf") if quota == "max" else int(quota) / int(period)


def start(parent: int, cores: int, command: list[str]) -> None:
    """Becomes a command, with cores of its own, that dies with its parent."""
    die_with_parent(parent)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])  # Ray blocks signals in its workers
    take_cores(cores, Path(f"/tmp/nec_tf-cores-{os.getuid()}"))
    os.execv(command[0], command)
