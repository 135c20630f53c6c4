"""Ctrl-C and `kill`, heard where nothing is half done."""

import signal
from types import FrameType
from typing import Any


class StopRequest:
    """Notes that somebody asked to stop; `check` raises it at a moment of the loop's choice.

    Python would raise `KeyboardInterrupt` wherever it is: between two halves of a write to the
    memory, or inside of TensorFlow, which takes it for an error of its own.
    """

    _SIGNALS = (signal.SIGINT, signal.SIGTERM)  # clusters and `kill` ask by the second

    def __init__(self) -> None:
        """Nobody asked."""
        self._asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "StopRequest":
        """Begins to listen; only Python's main thread can."""
        self._before = {number: signal.signal(number, self._note) for number in self._SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        """Leaves signals to whoever had them before."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """Raises `KeyboardInterrupt` where somebody asked."""
        if self._asked:
            raise KeyboardInterrupt

    def _note(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._asked = True
