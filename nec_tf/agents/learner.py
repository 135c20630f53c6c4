"""A learner: an agent with its replay and its bookkeeping, as experiments run it."""

import abc
import collections
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tf_agents.environments import py_environment
from tf_agents.trajectories import time_step as ts
from tf_agents.trajectories import trajectory

from nec_tf.agents.n_step_driver import NStepDriver
from nec_tf.runtime.errors import Diverged, UserError

Observers = Sequence[Callable[[trajectory.Trajectory], Any]]


class Learner(abc.ABC):
    """What the training loop needs of an agent. All agents of the registry are learners.

    Attributes:
        METRICS: Names of what `metrics` and `diagnose` can return.
        agent: A TF-Agents agent: its policies act.
    """

    METRICS: tuple[str, ...] = ("epsilon",)

    def __init__(self, agent: Any) -> None:
        """Makes a learner around a new agent."""
        self.agent = agent
        self._sums: dict[str, float] = collections.defaultdict(float)
        self._drivers: dict[py_environment.PyEnvironment, NStepDriver] = {}

    def run(
        self,
        environment: py_environment.PyEnvironment,
        num_steps: int,
        time_step: ts.TimeStep | None = None,
        observers: Observers = (),
    ) -> ts.TimeStep:
        """Acts in the environments and learns from every step.

        Args:
            environment: A batch of environments.
            num_steps: Calls of the environment.
            time_step: Where to continue; None resets the environments.
            observers: Called with each step, [B, ...], before the learner learns from it.

        Returns:
            The time step to continue from.
        """
        if environment not in self._drivers:  # kept: a driver traces the policy once
            self._drivers[environment] = NStepDriver(environment, self.agent.collect_policy, [])
        driver = self._drivers[environment]
        driver.observers = [*observers, self.observe]
        return driver.run(num_steps, time_step)

    @abc.abstractmethod
    def observe(self, step: trajectory.Trajectory) -> None:
        """Takes one step of every environment, [B, ...], and learns from it."""

    def metrics(self) -> dict[str, float]:
        """Returns means since the last call, and current figures; unknown ones are left out."""
        sums, self._sums = self._sums, collections.defaultdict(float)
        exploration = self.agent.exploration
        epsilon = float(exploration.epsilon_at(exploration.steps))
        return {"epsilon": epsilon, **self._metrics_from(sums)}

    def _add_up(self, figures: dict[str, float]) -> None:
        """Adds figures of an update, its loss among them, to the sums behind `metrics`.

        Raises:
            Diverged: A figure is NaN or infinite.
        """
        for name, value in figures.items():
            if not math.isfinite(value):
                raise Diverged(f"training diverged: {name} of an update is {value}.")
            self._sums[name] += value

    @abc.abstractmethod
    def _metrics_from(self, sums: dict[str, float]) -> dict[str, float]:
        """Returns metrics, given what was summed up since the last call."""

    def diagnose(self, seed: int) -> dict[str, float]:
        """Returns metrics that are too slow for every row of the log; none by default."""
        del seed
        return {}

    def begin_evaluation(self, seed: int) -> None:
        """Seeds the random numbers of the evaluation policy."""
        self.agent.exploration.begin_evaluation(seed)

    def keep_screens(self, folder: Path) -> None:
        """Keeps screens of remembered states in a folder.

        Raises:
            UserError: The agent remembers none.
        """
        del folder
        raise UserError("keep_screens is for agents with a memory: nec, mfec, mfec_vae")

    def finish_updates(self) -> None:  # noqa: B027  most learners compute no updates ahead
        """Applies all updates whose gradients are being computed; call it before saving."""

    def trackables(self) -> dict[str, Any]:
        """Returns what `tf.train.Checkpoint` saves."""
        return self.agent.trackables()

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns what is saved beside the checkpoint. Call `finish_updates` before."""
        return {}

    def restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:  # noqa: B027  nothing saved
        """Restores what `arrays` returned. Unfinished episodes are not resumed."""
