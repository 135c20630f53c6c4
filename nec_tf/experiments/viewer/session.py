"""An episode that is played step by step; every moment of it can be visited again."""

import dataclasses

import numpy as np
from tf_agents.trajectories import time_step as ts

from nec_tf.experiments.settings import SEEDS
from nec_tf.experiments.tasks import Task
from nec_tf.experiments.viewer.action_names import action_names
from nec_tf.experiments.viewer.deciders import Decider, Decision
from nec_tf.experiments.viewer.pictures import encode
from nec_tf.runtime.errors import UserError


@dataclasses.dataclass(frozen=True)
class Moment:
    """One state of the episode.

    Attributes:
        index: Steps since the episode began.
        picture: What a player sees, a PNG file; None if the task does not render.
        decision: None in the last state.
        reward: Of the step that led here.
        score: Sum of all rewards up to here.
    """

    index: int
    picture: bytes | None
    decision: Decision | None
    reward: float
    score: float


class Session:
    """Plays episodes of a task, one at a time.

    Attributes:
        episode: Number of the episode, from 1.
        seed: Seed of the episode: the same one gives the same episode.
        moments: All moments so far.
        action_names: For people.
    """

    def __init__(self, task: Task, decider: Decider, seed: int) -> None:
        """Begins the first episode."""
        self.task = task
        self.decider = decider
        self.episode = 0
        self.seed = seed
        self._environment = task.environment(1, seed, evaluation=True)
        env = task.make_env(True)
        self.action_names = action_names(env)
        env.close()
        self.restart(seed)

    @property
    def ended(self) -> bool:
        """Whether the episode is over."""
        return self.moments[-1].decision is None

    def restart(self, seed: int | None = None) -> Moment:
        """Begins another episode; without a seed, with the next one.

        Raises:
            UserError: The seed is not from 0 to 2**32 - 1; the episode goes on.
        """
        seed = self.seed + 1 if seed is None else seed
        if not 0 <= seed < SEEDS:
            raise UserError(f"seed must be at least 0 and below 2**32, not {seed}")
        self.seed = seed
        self.episode += 1
        self._environment.seed(self.seed)
        self.decider.begin(self.seed)
        self.moments: list[Moment] = []
        return self._add(self._environment.reset())

    def after(self, index: int) -> Moment:
        """Returns the moment after another; plays a step if it has not been played yet.

        After the last moment of an episode comes the last moment again.
        """
        index = max(index, -1)
        if index + 1 < len(self.moments):
            return self.moments[index + 1]
        decision = self.moments[-1].decision
        if decision is None:
            return self.moments[-1]
        return self._add(self._environment.step(np.array([decision.action])))

    def close(self) -> None:
        """Closes the environment."""
        self._environment.close()

    def _add(self, time_step: ts.TimeStep) -> Moment:
        last = time_step.step_type[0] == ts.StepType.LAST
        reward = float(time_step.reward[0])
        moment = Moment(
            index=len(self.moments),
            picture=encode(self._environment.render()[0]) if self.task.renders else None,
            decision=None if last else self.decider.decide(time_step),
            reward=reward,
            score=reward + (self.moments[-1].score if self.moments else 0.0),
        )
        self.moments.append(moment)
        return moment
