"""On which cores threads of updates run, where there are no more cores than such threads.

The loop's thread is woken hundreds of times a second, for microseconds, and Linux then often leaves
a core idle while somebody waits on the other one: for half of the time with one environment on two
cores (docs/experiments.md). So it is told where to run them.
"""

import contextlib
import ctypes
import os
import threading
from collections.abc import Iterator

_NICENESS = 10  # of threads that give way: every step waits for whoever acts
_current_core = ctypes.CDLL(None).sched_getcpu


class SharedCores:
    """Threads that keep off the core of whoever acts, and get it while that one waits for them."""

    def __init__(self, num_threads: int) -> None:
        """Nobody has joined yet.

        Args:
            num_threads: How many will. Where there are more cores, or only one, nobody is moved.
        """
        self._cores = sorted(os.sched_getaffinity(0))
        self._tight = 1 < len(self._cores) <= num_threads
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
        if not self._tight:
            yield
            return
        mine = _current_core()
        in_turn = [*(core for core in self._cores if core != mine), mine]
        for number, thread in enumerate(self._threads):
            os.sched_setaffinity(thread, {in_turn[number % len(in_turn)]})
        try:
            yield
        finally:
            others = set(self._cores) - {_current_core()}
            for thread in self._threads:
                os.sched_setaffinity(thread, others)
