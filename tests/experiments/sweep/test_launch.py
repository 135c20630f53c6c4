import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import alive

from nec_tf.experiments.sweep import launch, worker

ROOT = Path(__file__).parents[3]
WAIT = "import time; print('up', flush=True); time.sleep(60)"
PARENT = """
import subprocess, sys
from nec_tf.experiments.sweep import launch, worker
command = worker.start_command(launch.__file__, 1, [sys.executable, "-c", sys.argv[1]])
child = subprocess.Popen(command, stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
child.wait()
"""


def test_a_trial_dies_with_the_process_that_started_it():
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, WAIT],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    child = int(parent.stdout.readline())
    assert alive(child)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    deadline = time.monotonic() + 10
    while alive(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(child)


def test_a_trial_whose_parent_is_gone_does_not_start():
    command = worker.start_command(launch.__file__, 1, [sys.executable, "-c", "print('started')"])
    assert subprocess.run(command, capture_output=True, timeout=20).stdout == b"started\n"
    command[command.index(str(os.getpid()))] = "1"
    done = subprocess.run(command, capture_output=True, timeout=20)
    assert done.returncode == -signal.SIGKILL
    assert done.stdout == b""


TAKE = """
import json, os, pathlib, sys, time
sys.path.insert(0, sys.argv[1])
import launch
launch._quota = lambda: float("inf")
cores = launch.take_cores(int(sys.argv[2]), pathlib.Path(sys.argv[3]))
print(json.dumps(sorted(cores)), flush=True)
assert os.sched_getaffinity(0) == cores
time.sleep(60)
"""


def take(count, folder):
    process = subprocess.Popen(
        [sys.executable, "-c", TAKE, os.path.dirname(launch.__file__), str(count), str(folder)],
        stdout=subprocess.PIPE,
    )
    return process, set(json.loads(process.stdout.readline()))


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_trials_get_cores_of_their_own_until_there_are_none_left(tmp_path):
    processes = []
    try:
        taken = []
        for _ in os.sched_getaffinity(0):
            process, cores = take(1, tmp_path)
            processes.append(process)
            taken.append(cores)
        assert set.union(*taken) == os.sched_getaffinity(0)
        process, shared = take(1, tmp_path)  # Ray was promised more cores than there are
        processes.append(process)
        assert len(shared) == 1
        processes[0].kill()
        processes[0].wait()
        process, freed = take(1, tmp_path)
        processes.append(process)
        assert freed == taken[0]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_in_a_container_with_a_quota_threads_are_limited_instead_of_cores(tmp_path, monkeypatch):
    before = os.sched_getaffinity(0)
    (tmp_path / "cpu.max").write_text(f"{50_000 * len(before)} 100000\n")
    monkeypatch.setattr(launch, "_QUOTA", tmp_path / "cpu.max")
    monkeypatch.setattr(os, "environ", {})
    assert launch.take_cores(4, tmp_path) is None
    assert os.environ == {"TF_NUM_INTRAOP_THREADS": "2"}
    assert os.sched_getaffinity(0) == before
