"""Environments small enough to know everything about."""

import gymnasium
import numpy as np


class Counting(gymnasium.Env):
    """State t, reward t; terminates after `length` steps."""

    observation_space = gymnasium.spaces.Box(0, 100, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, length):
        self._length = length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self._t += 1
        return np.full(1, self._t, np.float32), self._t, self._t == self._length, False, {}


class CombinationLock(gymnasium.Env):
    """Five dials, three positions each: one wrong turn ends the episode, the last pays 1.

    Random play opens it once in 243 episodes. Observations are one-hot.
    """

    LENGTH = 5
    observation_space = gymnasium.spaces.Box(0, 1, (LENGTH + 1,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self, seed):
        self._combination = np.random.default_rng(seed).integers(0, 3, self.LENGTH)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._dial = 0
        return self._observe(), {}

    def step(self, action):
        right = action == self._combination[self._dial]
        self._dial += 1
        opened = bool(right and self._dial == self.LENGTH)
        return self._observe(), float(opened), opened or not right, False, {}

    def _observe(self):
        return np.eye(self.LENGTH + 1, dtype=np.float32)[self._dial]


class SmallLock(CombinationLock):
    """Three dials: random play opens it once in 27 episodes."""

    LENGTH = 3
    observation_space = gymnasium.spaces.Box(0, 1, (LENGTH + 1,), np.float32)
