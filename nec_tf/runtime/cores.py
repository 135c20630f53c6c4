"""Placement of update threads on cores, if there are no more cores than such threads.

The acting thread is woken hundreds of times a second, each time for microseconds. Linux then often
leaves one core idle while a thread waits on the other: two cores lost a fifth of their time with
one environment (docs/experiments.md). Explicit placement avoids this.

With the two update threads of `OverlappedUpdates`, placement is active on exactly two cores. With
more cores Linux has room for all threads, and with one core there is no choice. Set the
environment variable `NEC_TF_PIN_CORES=0` to turn placement off, for example if several runs share
the same two cores.
"""

import contextlib
import ctypes
import os
import threading
from collections.abc import Iterator

PIN_CORES = "NEC_TF_PIN_CORES"  # environment variable: 0 turns placement off
_NICENESS = 10  # added to that of update threads: every step waits for the acting thread
_current_core = ctypes.CDLL(None).sched_getcpu


def num_cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


class SharedCores:
    """Keeps update threads off the acting thread's core, except while that thread waits for them.

    Active if there are at least two cores and no more cores than update threads. Update threads get
    a lower priority in any case.
    """

    def __init__(self, pin: bool | None = None) -> None:
        """Starts without update threads.

        Args:
            pin: Whether to place threads on cores; None reads `NEC_TF_PIN_CORES`, default 1.
        """
        self._pin = os.environ.get(PIN_CORES, "1") != "0" if pin is None else pin
        self._threads: list[int] = []

    def join(self) -> None:
        """Makes the calling thread an update thread."""
        thread = threading.get_native_id()
        own = os.getpriority(os.PRIO_PROCESS, thread)
        os.setpriority(os.PRIO_PROCESS, thread, own + _NICENESS)
        self._threads.append(thread)

    @contextlib.contextmanager
    def lent(self) -> Iterator[None]:
        """Gives the calling thread's core to the update threads while it waits for them."""
        cores = sorted(os.sched_getaffinity(0))  # read each time: other programs can change it
        if not self._pin or not 1 < len(cores) <= len(self._threads):
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
