"""The driver on a real Ray of this machine, with programs that take no time instead of training."""

import csv
import dataclasses
import json
import os
import signal
import sys
import threading
import time

import pytest
from processes import alive

from nec_tf.experiments.sweep import cluster
from nec_tf.experiments.sweep.driver import Driver, Resources
from nec_tf.experiments.sweep.plan import Trial
from nec_tf.experiments.sweep.status import State

# What train_atari.py leaves behind when it has finished.
FINISH = """
import json, os, pathlib, sys
run = pathlib.Path(sys.argv[1])
(run / "config.json").write_text(json.dumps(
    {"game": "pong", "protocol": "paper", "agent": "nec", "seed": 1, "eval_episodes": 1}))
(run / "metrics.csv").write_text("frames,eval_mean\\n100,1.5\\n")
(run / "checkpoints" / "frames-0000000100").mkdir(parents=True)
progress = run / "checkpoints" / "frames-0000000100" / "progress.json"
progress.write_text('{"frames": 100, "handled_frames": 100}')
"""
NOTE = """
import os, pathlib, sys
run = pathlib.Path(sys.argv[1])
with (run / "attempts").open("a") as file:
    file.write(f"{os.getpid()} {len(os.sched_getaffinity(0))}\\n")
attempt = len((run / "attempts").read_text().splitlines())
"""
FAIL = NOTE + "print('the last words'); sys.exit(3)"
FAIL_ONCE = NOTE + "\nif attempt == 1: sys.exit(3)\n" + FINISH
WAIT_FOR_STOP = NOTE + "\nimport time\ntime.sleep(60)"
LOSE_WORKER_ONCE = (
    NOTE
    + """
import signal, time
if attempt == 1:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)
"""
    + FINISH
)


@dataclasses.dataclass(frozen=True)
class Script(Trial):
    """A trial with another program."""

    def command(self):
        return [sys.executable, "-c", self.flags[0], str(self.run_dir)]


@pytest.fixture(scope="module")
def ray():
    with cluster.connected("") as connected:
        yield connected


def script(runs_dir, name, program):
    return Script(name, "pong", 1, 100, (program,), runs_dir)


def run(ray, tmp_path, **programs):
    trials = [script(tmp_path / "runs", name, text) for name, text in programs.items()]
    lines = []
    driver = Driver(ray, trials, Resources(1, 0.2), tmp_path / "results", say=lines.append)
    finished = driver.run()
    return finished, {status.trial.variant: status for status in driver.statuses}, lines


def attempts(status):
    return (status.trial.run_dir / "attempts").read_text().splitlines()


def test_a_failing_trial_is_tried_again_twice_and_the_others_go_on(ray, tmp_path):
    finished, statuses, lines = run(ray, tmp_path, good=FINISH, bad=FAIL, shaky=FAIL_ONCE)
    assert not finished
    assert {name: status.state for name, status in statuses.items()} == {
        "good": State.FINISHED,
        "bad": State.FAILED,
        "shaky": State.FINISHED,
    }
    assert len(attempts(statuses["bad"])) == 3
    assert len(attempts(statuses["shaky"])) == 2
    assert statuses["bad"].error.startswith("(exit code 3)")
    assert statuses["bad"].error.endswith("the last words")
    assert "bad-pong-1: failed (the last words)" in lines
    # Each has one core, as it was promised.
    assert {line.split()[1] for line in attempts(statuses["bad"])} == {"1"}


def test_results_are_recorded_by_variant_and_finished_trials_are_skipped(ray, tmp_path):
    assert run(ray, tmp_path, one=FAIL_ONCE, two=FINISH)[0]
    results = tmp_path / "results"
    assert sorted(str(p.relative_to(results)) for p in results.rglob("*.csv")) == [
        "one/pong/1.csv",
        "two/pong/1.csv",
    ]
    with (results / "one" / "pong" / "1.csv").open() as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    assert [row["eval_mean"] for row in rows] == ["1.5"]
    (results / "two" / "pong" / "1.csv").unlink()  # as if the driver had died before
    finished, statuses, _ = run(ray, tmp_path, one=FAIL, two=FAIL)
    assert finished
    assert len(attempts(statuses["one"])) == 2  # of before
    assert (results / "two" / "pong" / "1.csv").exists()


def test_a_lost_worker_takes_its_trial_with_it_and_does_not_count_as_a_failure(
    ray, tmp_path, capfd
):
    finished, statuses, _ = run(ray, tmp_path, lost=LOSE_WORKER_ONCE)
    assert finished
    assert (statuses["lost"].failures, statuses["lost"].losses) == (0, 1)
    assert not alive(attempts(statuses["lost"])[0].split()[0])
    assert capfd.readouterr() == ("", "")  # Ray prints nothing


def test_ctrl_c_stops_running_trials_and_starts_no_others(ray, tmp_path):
    names = [f"t{number}" for number in range(len(os.sched_getaffinity(0)) + 2)]

    def interrupt():
        deadline = time.monotonic() + 60
        while not list((tmp_path / "runs").glob("*/attempts")) and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    began = time.monotonic()
    finished, statuses, _ = run(ray, tmp_path, **dict.fromkeys(names, WAIT_FOR_STOP))
    thread.join()
    assert not finished
    assert time.monotonic() - began < 50
    states = {status.state for status in statuses.values()}
    assert states <= {State.STOPPED, State.WAITING}
    for path in (tmp_path / "runs").glob("*/attempts"):
        assert not alive(path.read_text().split()[0])


def test_more_than_any_node_has_is_refused(ray):
    with pytest.raises(ValueError, match=r"no node has 10000 cores and 1 GB"):
        cluster.require_room(ray, 10_000, cluster.GIGABYTE)
    cluster.require_room(ray, 1, 1)


def test_ray_sends_nothing_and_listens_on_this_machine_only(ray):
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    (node,) = ray.nodes()
    assert node["NodeManagerAddress"] == "127.0.0.1"
    assert node["Resources"]["object_store_memory"] < 100 * 2**20
    assert json.dumps(ray.get_runtime_context().gcs_address).startswith('"127.0.0.1')
