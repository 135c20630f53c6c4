"""The end of a sweep on a node: runs one trial in a process of its own.

Nothing but the standard library: Ray sends this module by value, so that its workers import neither
TensorFlow nor this package (6 s and 400 MB each).
"""

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

LOG = "log.txt"  # of a trial, in its run folder: what the program prints
_START = (
    "import runpy, sys; path, parent, cores, *command = sys.argv[1:];"
    " runpy.run_path(path)['start'](int(parent), int(cores), command)"
)
# Ray sets these in its workers; a trial is to run as from a shell.
_OF_RAY = ("RAY_", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES")


def start_command(launcher: str, cpus: int, command: list[str]) -> list[str]:
    """Returns the command that starts a trial as a child of this process by `launch.py`."""
    return [sys.executable, "-c", _START, launcher, str(os.getpid()), str(cpus), *command]


class TrialWorker:
    """A Ray actor with two threads, one that runs the trial and one that may stop it."""

    def __init__(self) -> None:
        """Nothing runs yet."""
        self._process: subprocess.Popen | None = None
        self._stopping = False
        self._lock = threading.Lock()

    def host(self) -> str:
        """Returns the name of the node; an answer shows that the trial has its place."""
        return socket.gethostname()

    def run(
        self,
        command: list[str],
        run_dir: str,
        cpus: int,
        launcher: str,
        environment: dict[str, str],
    ) -> int:
        """Runs a trial to its end and returns its exit code; what it prints goes to its log.

        Args:
            command: The program and its flags.
            run_dir: Folder of the run.
            cpus: Cores of the trial.
            launcher: Path of `launch.py`.
            environment: Variables of the driver that a trial needs.
        """
        own = {name: value for name, value in os.environ.items() if not name.startswith(_OF_RAY)}
        Path(run_dir).mkdir(parents=True, exist_ok=True)
        with (Path(run_dir) / LOG).open("ab") as log, self._lock:
            if self._stopping:
                return 0
            self._process = subprocess.Popen(
                start_command(launcher, cpus, command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**own, **environment},
                start_new_session=True,  # Ctrl-C in the terminal reaches the driver alone
            )
        return self._process.wait()

    def stop(self) -> None:
        """Asks the trial to save a checkpoint and to end."""
        with self._lock:
            self._stopping = True
            if self._process is not None and self._process.poll() is None:
                self._process.send_signal(signal.SIGTERM)
