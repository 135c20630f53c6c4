"""Ctrl-C and `kill` stop a run between two steps of the loop."""

import signal
import threading
from types import FrameType
from typing import Any


class StopRequest:
    """Records SIGINT, SIGTERM and SIGHUP; `check` raises `KeyboardInterrupt` where it is called.

    Python would raise it anywhere: in the middle of a write to the memory, or inside of TensorFlow,
    which reports it as an error of its own.
    """

    # Ctrl-C; clusters and `kill`; a terminal that is closed.
    _SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        """Starts without a request."""
        self._requested = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "StopRequest":
        """Replaces the signal handlers; not in other threads, where Python forbids it."""
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in self._SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        """Restores the signal handlers."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """Raises `KeyboardInterrupt` if a signal came."""
        if self._requested:
            raise KeyboardInterrupt

    def _note(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._requested = True
