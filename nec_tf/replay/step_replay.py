"""A replay memory of single steps, sampled as pairs of steps that followed each other."""

import numpy as np
import tensorflow as tf
from numpy.typing import DTypeLike
from tf_agents.trajectories import time_step as ts
from tf_agents.trajectories import trajectory

from nec_tf.replay.frame_ring import FrameRing, restore_into

_COLUMNS = ("action", "reward", "discount", "step_type", "next_step_type", "next_step")


class StepReplay:
    """A ring of the newest steps of all environments, sampled uniformly."""

    def __init__(self, capacity: int, observation_shape: tuple[int, ...], dtype: DTypeLike) -> None:
        """An empty replay of so many steps; arguments as in `FrameRing`."""
        if capacity < 2:
            raise ValueError(f"capacity must be at least 2, not {capacity}")
        self._capacity = capacity
        self._observations = FrameRing(capacity, observation_shape, dtype)
        self._columns: dict[str, np.ndarray] = {
            "action": np.zeros(capacity, np.int64),
            "reward": np.zeros(capacity, np.float32),
            "discount": np.zeros(capacity, np.float32),
            "step_type": np.zeros(capacity, np.int32),
            "next_step_type": np.zeros(capacity, np.int32),
            "next_step": np.full(capacity, -1, np.int64),  # its number; -1 while there is none
        }
        self._next = 0  # numbers of steps count up for ever; their place is the remainder
        self._first = 0
        self._last_of: dict[int, int] = {}

    def __len__(self) -> int:
        """Returns the steps held, those between episodes among them."""
        return self._next - self._first

    def add(self, experience: trajectory.Trajectory) -> None:
        """Appends one step of every environment, [B, ...]."""
        for stream in range(len(experience.reward)):
            self._observations.put(self._next, stream, experience.observation[stream])
            place = self._next % self._capacity
            for name in _COLUMNS[:-1]:
                self._columns[name][place] = getattr(experience, name)[stream]
            self._columns["next_step"][place] = -1
            before = self._last_of.get(stream, -1)
            if before >= self._first:
                self._columns["next_step"][before % self._capacity] = self._next
            self._last_of[stream] = self._next
            self._next += 1
            self._forget_oldest()

    def sample(self, rng: np.random.Generator, batch_size: int) -> trajectory.Trajectory:
        """Returns pairs of steps [B, 2], drawn uniformly, none of which begins between episodes.

        The second step of a pair tells where the first one led to: the last observation of an
        episode belongs to the step after it, which begins the next.

        Raises:
            ValueError: It holds no such pair.
        """
        drawn: list[int] = []
        while len(drawn) < batch_size:
            steps = rng.integers(self._first, self._next, batch_size)
            begins = self._begins_pair(steps)
            if not begins.any() and not self._begins_pair(np.arange(self._first, self._next)).any():
                raise ValueError("the replay holds no two steps that followed each other")
            drawn.extend(steps[begins].tolist())
        first = np.array(drawn[:batch_size])
        second = self._columns["next_step"][first % self._capacity]
        return tf.nest.map_structure(
            lambda one, other: np.stack([one, other], axis=1), self._at(first), self._at(second)
        )

    def state(self) -> dict[str, np.ndarray]:
        """Returns everything, as arrays to save; what is not in use yet is left out."""
        steps = min(self._next, self._capacity)
        return {
            **self._observations.state(self._next),
            **{name: self._columns[name][:steps] for name in _COLUMNS},
            "counters": np.array([self._next, self._first]),
            "last_of": np.array(list(self._last_of.items()), np.int64).reshape(-1, 2),
        }

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Becomes what `state` returned, in a replay of the same capacity and observations."""
        self._observations.restore(state)
        for name in _COLUMNS:
            restore_into(self._columns[name], state, name)
        self._next, self._first = state["counters"].tolist()
        self._last_of = {stream: step for stream, step in state["last_of"].tolist()}

    def end_streams(self) -> None:
        """What is added next does not follow what was added before."""
        self._last_of = {}

    def _at(self, steps: np.ndarray) -> trajectory.Trajectory:
        columns = {name: self._columns[name][steps % self._capacity] for name in _COLUMNS[:-1]}
        return trajectory.Trajectory(
            observation=self._observations.get(steps), policy_info=(), **columns
        )

    def _begins_pair(self, steps: np.ndarray) -> np.ndarray:
        """Whether steps were played, not between episodes, and what came after them is held."""
        places = steps % self._capacity
        played = self._columns["step_type"][places] != ts.StepType.LAST
        return played & (self._columns["next_step"][places] >= 0)

    def _forget_oldest(self) -> None:
        self._first = max(self._first, self._next - self._capacity)
        while not self._observations.has(self._first):
            self._first += 1
