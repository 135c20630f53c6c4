"""A3C plays in several processes: signals of a terminal and errors of an environment."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from faults import runs

ROOT = Path(__file__).parents[2]
MODULE = """
import os
import gymnasium
import numpy as np


class Mine(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 1, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.random(3, np.float32), {}

    def step(self, action):
        Mine.steps += 1
        reward = 1.0
        if Mine.steps == 120:
            BAD
        return self.np_random.random(3, np.float32), reward, Mine.steps % 10 == 0, False, {}


gymnasium.register("Mine-v0", Mine)
"""
FLAGS = (
    "--agent=a3c",
    "--num_envs=2",
    "--frames=1000000",
    "--eval_every_frames=1000000",
    "--checkpoint_every_frames=100000",
    "--log_every_frames=100",
    "--novideo",
    "--run_dir=run",
)


def start(folder, env):
    environment = {**runs.environment(), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, ROOT / "trainers" / "train_gym.py", f"--env={env}", *FLAGS]
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def saved(folder):
    return [path.name for path in (folder / "run" / "checkpoints").glob("frames-*")]


@pytest.mark.parametrize(
    ("bad", "code", "said"),
    [
        ("reward = float('nan')", 2, "Mine-v0 (episode 13, step 0) returned the reward nan"),
        ("os._exit(7)", 1, "its process ended: it was killed, or its environment crashed"),
    ],
)
def test_what_is_wrong_in_a_worker_is_said_after_saving(tmp_path, bad, code, said):
    (tmp_path / "envs.py").write_text(MODULE.replace("BAD", bad))
    process = start(tmp_path, "envs:Mine-v0")
    try:
        _, errors = process.communicate(timeout=120)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == code, errors
    # A worker counts its resets as calls of the environment.
    assert said.split(" (")[0] in errors
    assert said.split(") ")[-1] in errors
    assert ("Traceback" in errors) == (code == 1)
    assert saved(tmp_path)


def test_a_closed_terminal_saves(tmp_path):
    """The signal reaches all processes of the terminal."""
    process = start(tmp_path, "CartPole-v1")
    metrics = tmp_path / "run" / "metrics.csv"
    try:
        runs.wait_until(process, lambda: metrics.exists() and runs.rows(tmp_path / "run")[1:])
        os.killpg(process.pid, signal.SIGHUP)
        output, errors = process.communicate(timeout=60)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, errors
    assert "saved; run the same command to resume" in output
    assert "Traceback" not in errors
    assert saved(tmp_path)
