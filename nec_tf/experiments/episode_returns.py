"""Counts the steps of training and adds up rewards, episode by episode."""

import numpy as np
from tf_agents.trajectories import time_step as ts
from tf_agents.trajectories import trajectory


class EpisodeReturns:
    """An observer that counts steps and adds up rewards, episode by episode."""

    def __init__(self) -> None:
        """Starts with no episodes."""
        self._running: np.ndarray | float = 0.0
        self._finished: list[float] = []
        self._steps = 0

    @property
    def num_episodes(self) -> int:
        """Episodes finished since `take_mean`."""
        return len(self._finished)

    def __call__(self, experience: trajectory.Trajectory) -> None:
        """Takes one step of every environment; the step between episodes counts nothing."""
        between = experience.step_type == ts.StepType.LAST
        self._steps += int(np.sum(~between))
        self._running = self._running + np.where(between, 0.0, experience.reward)
        ended = ~between & (experience.next_step_type == ts.StepType.LAST)
        self._finished.extend(self._running[ended].tolist())
        self._running = np.where(ended, 0.0, self._running)

    def take_steps(self) -> int:
        """Returns the agent steps since the last call."""
        steps, self._steps = self._steps, 0
        return steps

    def take_mean(self) -> float:
        """Returns the mean return of the episodes that finished since the last call."""
        finished, self._finished = self._finished, []
        return float(np.mean(finished))
