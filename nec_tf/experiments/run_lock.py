"""A lock on the folder of a run: one process trains in it at a time."""

import contextlib
import fcntl
import os
import socket
import time
from pathlib import Path
from typing import IO

from nec_tf.runtime.errors import UserError
from nec_tf.runtime.folders import require_local_folder

_FILE = "lock"
# Seconds. A killed process with gigabytes of memory holds its lock until the kernel has freed them.
_PATIENCE = 5.0
_PAUSE = 0.1


class RunLock:
    """Held by a training process for its life; the kernel releases it if the process dies.

    `flock` also works between machines on NFS (Linux 2.6.12 and later), as the lock of a server.
    """

    def __init__(self, run_dir: str | Path) -> None:
        """Makes a lock that is not held yet."""
        self._folder = Path(run_dir)
        self._file: IO[str] | None = None
        self._made: list[Path] = []  # folders that did not exist, innermost first

    def __enter__(self) -> "RunLock":
        """Takes the lock.

        Raises:
            UserError: Another process holds it.
        """
        require_local_folder("run_dir", self._folder)
        self._made = [
            place for place in (self._folder, *self._folder.parents) if not place.exists()
        ]
        give_up = time.monotonic() + _PATIENCE
        while True:
            self._make_folder()
            file = self._open()
            if _try_lock(file) and _is_at(file, self._folder / _FILE):
                break
            if time.monotonic() > give_up:
                file.seek(0)
                holder = file.read().strip() or "unknown"
                file.close()
                raise UserError(
                    f"{self._folder} is in use: another process ({holder}) trains in it. Stop that"
                    " one (Ctrl-C or kill saves a checkpoint), or choose another --run_dir"
                )
            file.close()
            time.sleep(_PAUSE)
        file.truncate(0)
        file.write(f"pid {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        self._file = file
        return self

    def __exit__(self, *_: object) -> None:
        """Releases the lock. The file stays, unless nothing else was written to a new folder."""
        if self._file is not None:
            self._remove_if_unused()
            self._file.close()
            self._file = None

    def _make_folder(self) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except (FileNotFoundError, FileExistsError, NotADirectoryError) as error:  # such as /proc/x
            raise UserError(
                f"run_dir must be a folder, and {self._folder} cannot be made: {error.strerror}"
            ) from error

    def _open(self) -> IO[str]:
        path = self._folder / _FILE
        try:
            return path.open("a+")
        except (FileNotFoundError, IsADirectoryError) as error:  # the former in /proc
            raise UserError(
                f"there can be no run in {self._folder}: {path} cannot be opened "
                f"({error.strerror}): choose another --run_dir"
            ) from error

    def _remove_if_unused(self) -> None:
        """Removes the folders that were made for a command that was then refused."""
        if not self._made or [path.name for path in self._folder.iterdir()] != [_FILE]:
            return
        (self._folder / _FILE).unlink()
        with contextlib.suppress(OSError):  # another process put something into it
            for place in self._made:
                place.rmdir()


def _is_at(file: IO[str], path: Path) -> bool:
    """Returns whether an open file is still the one at `path`: its holder may have removed it."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _try_lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
