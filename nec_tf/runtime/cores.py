"""On which cores threads of updates run, where there are no more cores than such threads.

The loop's thread is woken hundreds of times a second, for microseconds, and Linux then often leaves
a core idle while somebody waits on the other one: two cores lost a fifth of their time with one
environment (docs/experiments.md). So it is told where to run them.
"""

import contextlib
import ctypes
import os
import threading
from collections.abc import Iterator

_NICENESS = 10  # of threads that give way: every step waits for whoever acts
_current_core = ctypes.CDLL(None).sched_getcpu


class SharedCores:
    """Threads that keep off the core of whoever acts, and get it while that one waits for them.

    Where there are more cores than such threads, or only one core, nobody is moved.
    """

    def __init__(self) -> None:
        """Nobody has joined yet."""
        self._threads: list[int] = []

    def join(self) -> None:
        """Makes the thread that calls it one of those that give way."""
        thread = threading.get_native_id()
        own = os.getpriority(os.PRIO_PROCESS, thread)
        os.setpriority(os.PRIO_PROCESS, thread, own + _NICENESS)
        self._threads.append(thread)

    @contextlib.contextmanager
    def lent(self) -> Iterator[None]:
        """Lends the core of the thread that calls it to the others, while it waits for them."""
        cores = sorted(os.sched_getaffinity(0))  # asked each time: it can be changed from outside
        if not 1 < len(cores) <= len(self._threads):
            yield
            return
        mine = _current_core()
        in_turn = [*(core for core in cores if core != mine), mine]
        for number, thread in enumerate(self._threads):
            os.sched_setaffinity(thread, {in_turn[number % len(in_turn)]})
        try:
            yield
        finally:
            others = set(cores) - {_current_core()}
            for thread in self._threads:
                os.sched_setaffinity(thread, others)
