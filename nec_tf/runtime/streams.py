"""Output that nothing reads any more must not end a run of days."""

import os
import sys
from typing import IO, Any


def open_closed_streams() -> None:
    """Opens standard streams that were closed before the start, as with `2>&-`, on the null device.

    Otherwise the next file that is opened gets their number, and error messages are written to it.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            flags = os.O_RDONLY if number == 0 else os.O_WRONLY
            descriptor = os.open(os.devnull, flags)
            if descriptor != number:
                os.dup2(descriptor, number)
                os.close(descriptor)
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", closefd=False))


def discard(stream: IO[str]) -> None:
    """Discards what is buffered for a standard stream, and all that is written to it later."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


def flush_or_discard(stream: IO[str]) -> None:
    """Writes what is buffered for a standard stream, if anything still takes it.

    The interpreter would report it at its end, with the exit code 120.
    """
    try:
        stream.flush()
    except OSError:
        discard(stream)


def say(text: str) -> None:
    """Prints a line at once, if anything still reads the standard output."""
    try:
        print(text, flush=True)
    except OSError:
        discard(sys.stdout)


class Unbreakable:
    """A stream whose writes are discarded once its reader is gone: a closed pipe or terminal."""

    def __init__(self, stream: IO[str]) -> None:
        """Wraps a stream."""
        self._stream = stream

    def write(self, text: str) -> None:
        """Writes, or discards."""
        try:
            self._stream.write(text)
        except (OSError, ValueError):  # a closed file raises the latter
            self._stream = open(os.devnull, "w")  # noqa: SIM115  open to the end of the process

    def flush(self) -> None:
        """Flushes, or discards."""
        try:
            self._stream.flush()
        except (OSError, ValueError):
            self._stream = open(os.devnull, "w")  # noqa: SIM115

    def __getattr__(self, name: str) -> Any:
        """Returns other attributes of the stream, such as `isatty` and `fileno`."""
        return getattr(self._stream, name)
