"""A sweep on a real cluster of two Ray nodes on this machine, with kills. `make cluster-test`.

A worker, then the driver, then a node are killed. At the end every trial has finished exactly once
and its metrics.csv is that of the same command run alone, byte for byte. About ten minutes on two
cores, so that pytest does not collect it by itself.
"""

import concurrent.futures
import csv
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import alive
from ray.cluster_utils import Cluster

from nec_tf.experiments.sweep.plan import make_trials

ROOT = Path(__file__).parents[2]
GAMES, AGENTS, SEEDS, FRAMES = "breakout,frostbite", "nec,mfec", "1-2", 4_000
LEARNING = "learning_starts=100"  # or NEC would not learn in 1,000 steps
FLAGS = (
    "--eval_every_frames=2000",
    "--eval_episodes=1",
    "--checkpoint_every_frames=2000",
    "--log_every_frames=500",
    "--video=false",
)
NODE = {
    "num_cpus": 1,
    "memory": 2 * 2**30,
    "object_store_memory": 80 * 2**20,
    "include_dashboard": False,
}
# Programs choose how TensorFlow rounds, and not the tests.
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("TF_")}
RESUMED = re.compile(r"Resuming \S+ at ([\d,]+) ")  # also after the bar of a killed session


@pytest.fixture
def cluster(monkeypatch):
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    for name in set(os.environ) - set(ENVIRONMENT):
        monkeypatch.delenv(name)
    started = Cluster(initialize_head=True, head_node_args=NODE)
    started.add_node(**NODE)
    yield started
    started.shutdown()


class Sweep:
    """The program, as a person runs it."""

    def __init__(self, folder, address):
        self.folder = folder
        self._address = address
        self.runs = folder / "runs"
        self.trials = make_trials(GAMES, AGENTS, SEEDS, FRAMES, [LEARNING], self.runs, FLAGS)

    def start(self):
        command = [
            sys.executable,
            ROOT / "trainers" / "sweep.py",
            f"--games={GAMES}",
            f"--agents={AGENTS}",
            f"--seeds={SEEDS}",
            f"--frames={FRAMES}",
            f"--set={LEARNING}",
            f"--address={self._address}",
            "--memory_per_trial=1",
            *FLAGS,
        ]
        with (self.folder / "sweep.log").open("a") as log:
            return subprocess.Popen(
                command, cwd=self.folder, env=ENVIRONMENT, stdout=log, stderr=subprocess.STDOUT
            )

    def log(self):
        return (self.folder / "sweep.log").read_text()

    def training(self):
        """Returns the processes of trials that have logged a row, by their run folders."""
        found = {}
        for trial in self.trials:
            lock, metrics = trial.run_dir / "lock", trial.run_dir / "metrics.csv"
            if lock.exists() and metrics.exists() and metrics.read_text().count("\n") > 1:
                pid = re.match(r"pid (\d+)", lock.read_text())
                if pid and alive(pid[1]):
                    found[trial.run_dir] = int(pid[1])
        return found

    def finished(self):
        return [t for t in self.trials if " frames, finished." in read(t.run_dir / "log.txt")]


def read(path):
    return path.read_text() if path.exists() else ""


def wait_until(condition, seconds=600):
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.1)
    return value


def parent_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_every_trial_ends_once_with_the_metrics_of_the_same_command_alone(cluster, tmp_path):
    sweep = Sweep(tmp_path / "cluster", cluster.address)
    sweep.folder.mkdir()
    driver = sweep.start()
    try:
        # A worker.
        run_dir, pid = next(iter(wait_until(sweep.training).items()))
        os.kill(parent_of(pid), signal.SIGKILL)
        wait_until(lambda: not alive(pid), 10)
        wait_until(lambda: f"{run_dir.name}: trying again" in sweep.log())

        # The driver, while both nodes train.
        wait_until(sweep.finished)
        running = wait_until(lambda: len(now := sweep.training()) == 2 and now)
        assert len({parent_of(parent_of(pid)) for pid in running.values()}) == 2  # raylets
        driver.kill()
        driver.wait()
        for pid in running.values():
            wait_until(lambda pid=pid: not alive(pid), 30)

        # A node, once the same command has resumed.
        finished_before = {
            t.name: (t.run_dir / "metrics.csv").read_bytes() for t in sweep.finished()
        }
        driver = sweep.start()
        running = wait_until(lambda: len(now := sweep.training()) == 2 and now)
        node = next(node for node in cluster.list_all_nodes() if node != cluster.head_node)
        cluster.remove_node(node, allow_graceful=False)
        wait_until(lambda: sum(map(alive, running.values())) < 2, 30)
        cluster.add_node(**NODE)
        assert driver.wait(timeout=1_200) == 0, sweep.log()
    finally:
        driver.kill()
        driver.wait()
    print(sweep.log())

    for trial in sweep.trials:
        assert read(trial.run_dir / "log.txt").count(" frames, finished.") == 1, trial.name
        result = sweep.folder / "results" / trial.variant / trial.game / f"{trial.seed}.csv"
        assert result.exists()
        with (trial.run_dir / "metrics.csv").open() as file:
            frames = [int(row["frames"]) for row in csv.DictReader(file)]
        assert [number // 500 for number in frames] == list(range(1, 1 + FRAMES // 500))
        if trial.name in finished_before:  # and was skipped
            assert (trial.run_dir / "metrics.csv").read_bytes() == finished_before[trial.name]

    alone = make_trials(GAMES, AGENTS, SEEDS, FRAMES, [LEARNING], tmp_path / "alone", FLAGS)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(run_alone, alone, sweep.trials))
    resumed = 0
    for one, other in zip(alone, sweep.trials, strict=True):
        expected, found = (t.run_dir / "metrics.csv" for t in (one, other))
        assert found.read_bytes() == expected.read_bytes(), other.name
        resumed += bool(RESUMED.search(read(other.run_dir / "log.txt")))
    print(f"{len(alone)} trials as alone; {resumed} of them were resumed from a checkpoint")


def run_alone(trial, swept):
    """Runs the command of a trial alone, resumed from the checkpoint that its sweep resumed from.

    Episodes under way are not in a checkpoint: a resumed run differs from an uninterrupted one.
    """
    trial.run_dir.mkdir(parents=True)
    for resumed_at in [None, *RESUMED.findall(read(swept.run_dir / "log.txt"))]:
        if resumed_at is not None:
            frames = int(resumed_at.replace(",", ""))
            for path in (trial.run_dir / "checkpoints").glob("frames-*"):
                if int(path.name.removeprefix("frames-")) > frames:
                    shutil.rmtree(path)
        with (trial.run_dir / "log.txt").open("a") as log:
            subprocess.run(
                trial.command(), env=ENVIRONMENT, check=True, stdout=log, stderr=log, cwd=ROOT
            )
