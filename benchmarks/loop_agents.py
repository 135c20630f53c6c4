"""Frames/s of every agent on Pong, beside Stable-Baselines3's DQN; see `benchmarks.loop`.

All take turns. Each has one environment, and its default batches and ratio of updates to steps; for
DQN and Stable-Baselines3 these are batches of 32 and an update every 4 steps. Training has begun
before the first turn, and that of MFEC's VAE, which is trained once, has ended.

Stable-Baselines3 needs newer packages than TensorFlow 2.15 allows, so it runs in a process with its
own virtual environment, which `make benchmark` makes.
"""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Protocol

import tensorflow as tf

from nec_tf.experiments.registry import AGENTS, find_agent, make_config, make_learner
from nec_tf.experiments.tasks import atari_task

GAME = "pong"
RIVAL = "stable_baselines3_dqn"
_ROOT = Path(__file__).parents[1]
_RIVAL_PYTHON = _ROOT / ".venv-sb3/bin/python"
_NOT_INSTALLED = f"{RIVAL} is left out: `make benchmark` installs it into .venv-sb3"
_FRAMES_PER_STEP = 4
_LEARNING_STARTS = 100  # steps; below the steps before the first turn
_BEGINNINGS = ("learning_starts", "vae_steps")  # settings that say when an agent begins to learn


class Runner(Protocol):
    """Something that trains."""

    name: str

    def run(self, steps: int) -> float:
        """Trains for so many agent steps and returns the seconds that they took."""


class Ours:
    """An agent of the registry.

    Attributes:
        name: Its name there.
    """

    def __init__(self, name: str) -> None:
        """Makes a learner with its settings for Atari games, which learns early."""
        tf.keras.utils.set_random_seed(0)
        tf.config.experimental.enable_op_determinism()  # as in every run
        self.name = name
        task = atari_task(GAME)
        self._environment = task.environment(1, seed=0)
        default = make_config(name, "atari")
        early = {s: _LEARNING_STARTS for s in _BEGINNINGS if hasattr(default, s)}
        config = make_config(name, "atari", **early)
        self._learner = make_learner(find_agent(name), task, self._environment, config, seed=0)
        self._time_step: Any = None

    def run(self, steps: int) -> float:
        """See `Runner`."""
        started = time.perf_counter()
        self._time_step = self._learner.run(self._environment, steps, self._time_step)
        self._learner.finish_updates()
        return time.perf_counter() - started


class Rival:
    """Stable-Baselines3's DQN in its own process, which waits while others have their turn."""

    name = RIVAL

    def __init__(self, python: Path = _RIVAL_PYTHON) -> None:
        """Starts the process with an interpreter that has Stable-Baselines3."""
        self._process = subprocess.Popen(
            [str(python), str(Path(__file__).with_name("loop_rival.py")), str(_LEARNING_STARTS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, steps: int) -> float:
        """See `Runner`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(steps, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the process of {self.name} ended, see its messages above")
        return float(answer)

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate()


def measure(names: list[str], turns: int, steps: int) -> list[dict[str, Any]]:
    """Returns a row for each agent, and one of Stable-Baselines3's DQN if it is installed.

    Args:
        names: Of the registry.
        turns: Of each agent.
        steps: Agent steps of a turn.
    """
    runners: list[Runner] = [Ours(name) for name in names]
    rival = Rival() if _RIVAL_PYTHON.exists() else None
    if rival:
        runners.append(rival)
    else:
        print(_NOT_INSTALLED, file=sys.stderr)
    rows = in_turns(runners, turns, steps)
    if rival:
        rival.close()
    return rows


def in_turns(runners: list[Runner], turns: int, steps: int) -> list[dict[str, Any]]:
    """Returns frames/s of each runner: all turns together, the slowest and the fastest."""
    seconds: dict[str, list[float]] = {}
    for runner in runners:
        runner.run(2 * _LEARNING_STARTS)  # traces the graphs and begins to learn
    for _ in range(turns):
        for runner in runners:
            seconds.setdefault(runner.name, []).append(runner.run(steps))
    frames = _FRAMES_PER_STEP * steps
    return [
        {
            "agent": name,
            "frames_per_s": frames * turns / sum(taken),
            "slowest": frames / max(taken),
            "fastest": frames / min(taken),
        }
        for name, taken in seconds.items()
    ]


def bars(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns each agent's frames/s as a multiple of the rival's, which should be at least 1."""
    fps = {row["agent"]: row["frames_per_s"] for row in rows}
    rival = fps.pop(RIVAL, None)
    return [
        {
            "name": f"frames/s on {GAME}, {name} to {RIVAL}",
            "value": fps[name] / rival if rival and name in fps else None,
            "at_least": 1.0,
        }
        for name in AGENTS
    ]
