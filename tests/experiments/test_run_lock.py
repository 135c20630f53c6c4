import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from nec_tf.experiments import run_lock
from nec_tf.experiments.run_lock import RunLock
from nec_tf.runtime.errors import UserError

ROOT = Path(__file__).parents[2]
HOLD = """
import sys, time
from nec_tf.experiments.run_lock import RunLock
with RunLock(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


def holder(folder):
    """Starts a process that holds the lock of a folder, and returns it once it does."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, env=environment
    )
    assert process.stdout.readline() == b"held\n"
    return process


def test_a_second_process_is_refused_and_the_first_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(run_lock, "_PATIENCE", 0.2)
    first = holder(tmp_path)
    try:
        with pytest.raises(UserError, match=f"pid {first.pid} on {socket.gethostname()}"):
            RunLock(tmp_path).__enter__()
    finally:
        first.kill()
        first.wait()


def test_the_lock_of_a_killed_process_is_free(tmp_path):
    first = holder(tmp_path)
    first.send_signal(signal.SIGKILL)
    first.wait()
    with RunLock(tmp_path):
        assert (tmp_path / "lock").read_text() == f"pid {os.getpid()} on {socket.gethostname()}\n"


def test_the_lock_is_free_after_the_run(tmp_path):
    with RunLock(tmp_path):
        pass
    with RunLock(tmp_path):
        pass


def test_a_command_that_is_refused_leaves_no_folder(tmp_path):
    with pytest.raises(UserError), RunLock(tmp_path / "runs" / "run"):
        raise UserError("refused")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made_is_refused():
    with pytest.raises(UserError, match="/proc/run cannot be made"):
        RunLock("/proc/run").__enter__()


def test_a_folder_in_which_no_lock_can_be_made_is_refused(tmp_path):
    (tmp_path / "lock").mkdir()
    for folder in (tmp_path, "/proc/1"):
        with pytest.raises(UserError, match="there can be no run"):
            RunLock(folder).__enter__()


def test_a_folder_that_was_there_or_is_used_stays(tmp_path):
    with RunLock(tmp_path):
        pass
    with RunLock(tmp_path / "new"):
        (tmp_path / "new" / "config.json").touch()
    assert (tmp_path / "lock").exists()
    assert (tmp_path / "new" / "lock").exists()
