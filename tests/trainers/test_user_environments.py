"""Environments of the user's own, in a module in the current folder."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULE = """
import gymnasium
import numpy as np


class Mine(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 1, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._observe(), {}

    def step(self, action):
        Mine.steps += 1
        if Mine.steps == BUG_AT:
            first, second = "one", "two", "three"
        return self._observe(), float(action), self.np_random.random() < 0.1, False, {}

    def _observe(self):
        return self.np_random.random(3, np.float32)


gymnasium.register("Mine-v0", Mine)
"""
FLAGS = [
    "--env=my_envs:Mine-v0",
    "--frames=600",
    "--eval_every_frames=600",
    "--eval_episodes=2",
    "--learning_starts=100",
    "--log_every_frames=100",
]


def train(folder, *flags):
    command = [sys.executable, ROOT / "trainers" / "train_gym.py", *flags]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=folder, env=os.environ | {"PYTHONPATH": ROOT}
    )


def test_a_bug_keeps_its_traceback_after_saving_and_the_run_resumes_once_it_is_fixed(tmp_path):
    module = tmp_path / "my_envs.py"
    module.write_text(MODULE.replace("BUG_AT", "300"))
    done = train(tmp_path, *FLAGS)
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert f'File "{module}"' in done.stderr
    assert "ValueError: too many values to unpack" in done.stderr
    folder = tmp_path / "runs" / "nec-my_envs-mine-v0-1"
    (saved,) = (folder / "checkpoints").glob("frames-*")
    frames = json.loads((saved / "progress.json").read_text())["frames"]
    assert 250 < frames < 300  # boundaries between episodes are no frames
    assert f"saved at {frames} steps to runs/nec-my_envs-mine-v0-1" in done.stderr

    module.write_text(MODULE.replace("BUG_AT", "-1"))
    done = train(tmp_path, *FLAGS)
    assert done.returncode == 0, done.stderr
    assert f"Resuming runs/nec-my_envs-mine-v0-1 at {frames} steps" in done.stdout
    assert "finished" in done.stdout


@pytest.mark.parametrize("flags", [["--env=Pendulum-v1"], ["--env=CartPole-v1", "--encoder=cnn"]])
def test_a_refused_command_leaves_no_folder(tmp_path, flags):
    done = train(tmp_path, *flags, "--run_dir=run")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_refused_environment_does_not_keep_its_folder_from_the_corrected_command(tmp_path):
    """The first reset shows that it does not fit; its configuration is written by then."""
    module = tmp_path / "my_envs.py"
    text = MODULE.replace("BUG_AT", "-1")
    module.write_text(text.replace("return self.np_random.random(3,", "return np.zeros(5,"))
    done = train(tmp_path, *FLAGS, "--run_dir=run", "--frames=60")
    assert done.returncode == 2
    assert "Mine-v0 (episode 1, step 0) returned an observation of the shape [5]" in done.stderr
    module.write_text(text)
    done = train(tmp_path, *FLAGS, "--run_dir=run", "--frames=60", "--alpha=0.5")
    assert done.returncode == 0, done.stderr
