"""Steps of games whose observations are their numbers, for tests of replay memories."""

import numpy as np
from tf_agents.trajectories import time_step as ts
from tf_agents.trajectories import trajectory

FIRST, MID, LAST = int(ts.StepType.FIRST), int(ts.StepType.MID), int(ts.StepType.LAST)


class Game:
    """Steps of one environment; an observation is its number, and tells which one follows."""

    def __init__(self, start, length):
        self.length = length
        self.time = start

    def step(self):
        """The next step: `length` played ones, then the one between episodes."""
        place = self.time % (self.length + 1)
        kind = FIRST if place == 0 else LAST if place == self.length else MID
        following = FIRST if kind == LAST else LAST if place == self.length - 1 else MID
        self.time += 1
        return {
            "observation": np.float32([self.time - 1]),
            "action": self.time % 3,
            "reward": np.float32(self.time / 2),
            "discount": np.float32(following != LAST),
            "step_type": kind,
            "next_step_type": following,
        }


def add(replay, games, policy_info=(), **instead):
    """Adds the next step of every game; columns [B, ...] can be given instead."""
    steps = [game.step() for game in games]
    columns = {name: np.array([step[name] for step in steps]) for name in steps[0]}
    replay.add(trajectory.Trajectory(policy_info=policy_info, **{**columns, **instead}))
