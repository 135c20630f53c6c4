"""A replay memory of single steps, sampled as sequences of steps that followed each other."""

import numpy as np
import tensorflow as tf
from numpy.typing import DTypeLike
from tf_agents.trajectories import time_step as ts
from tf_agents.trajectories import trajectory

from nec_tf.replay.frame_ring import FrameRing, restore_into

_FIELDS = ("action", "reward", "discount", "step_type", "next_step_type")


class StepReplay:
    """A ring of the newest steps of all environments, sampled uniformly."""

    def __init__(
        self,
        capacity: int,
        observation_shape: tuple[int, ...],
        dtype: DTypeLike,
        length: int = 2,
    ) -> None:
        """Makes an empty replay.

        Args:
            capacity: Steps held at most.
            observation_shape: As in `FrameRing`.
            dtype: As in `FrameRing`.
            length: Steps of a sampled sequence; 2 are a step and what it led to.
        """
        if capacity < length:
            raise ValueError(f"capacity must be at least {length}, not {capacity}")
        self._capacity = capacity
        self._length = length
        self._observations = FrameRing(capacity, observation_shape, dtype)
        self._columns: dict[str, np.ndarray] = {
            "action": np.zeros(capacity, np.int64),
            "reward": np.zeros(capacity, np.float32),
            "discount": np.zeros(capacity, np.float32),
            "step_type": np.zeros(capacity, np.int32),
            "next_step_type": np.zeros(capacity, np.int32),
        }
        self._next_step = np.full(
            capacity, -1, np.int64
        )  # number of the step that followed; -1 for none
        self._next = 0  # step numbers only increase; the place in the ring is the remainder
        self._first = 0
        self._last_of: dict[int, int] = {}

    def __len__(self) -> int:
        """Returns the number of steps, those between episodes included."""
        return self._next - self._first

    def add(self, experience: trajectory.Trajectory) -> None:
        """Appends one step of every environment, [B, ...]."""
        values = self._values_of(experience)
        for stream in range(len(experience.reward)):
            self._observations.put(self._next, stream, experience.observation[stream])
            place = self._next % self._capacity
            for name, column in self._columns.items():
                column[place] = values[name][stream]
            self._next_step[place] = -1
            before = self._last_of.get(stream, -1)
            if before >= self._first:
                self._next_step[before % self._capacity] = self._next
            self._last_of[stream] = self._next
            self._next += 1
            self._drop_oldest()

    def sample(self, rng: np.random.Generator, batch_size: int) -> trajectory.Trajectory:
        """Returns sequences of steps [B, length], drawn uniformly; see `draw` and `get`."""
        return self.get(self.draw(rng, batch_size))

    def draw(self, rng: np.random.Generator, batch_size: int) -> np.ndarray:
        """Returns the numbers of the first steps of sequences, drawn uniformly, int64 [B].

        No sequence begins between episodes.

        Raises:
            ValueError: It holds no such sequence.
        """
        drawn: list[int] = []
        while len(drawn) < batch_size:
            steps = rng.integers(self._first, self._next, batch_size)
            begins = self._begins_sequence(steps)
            if not begins.any():
                self._require_a_sequence()
            drawn.extend(steps[begins].tolist())
        return np.array(drawn[:batch_size])

    def get(self, first: np.ndarray) -> trajectory.Trajectory:
        """Returns sequences [B, length] by first steps that were drawn since the last `add`.

        The observation that a step led to is that of the step after it. After the last step of an
        episode, that is the step between episodes, which begins the next one.
        """
        steps = [first]
        while len(steps) < self._length:
            steps.append(self._next_step[steps[-1] % self._capacity])
        numbers = np.stack(steps, axis=1)
        return tf.nest.map_structure(
            lambda array: array.reshape(*numbers.shape, *array.shape[1:]), self._at(numbers.ravel())
        )

    def state(self) -> dict[str, np.ndarray]:
        """Returns the content as arrays to save, without unused places."""
        steps = min(self._next, self._capacity)
        return {
            **self._observations.state(self._next),
            **{name: column[:steps] for name, column in self._columns.items()},
            "next_step": self._next_step[:steps],
            "counters": np.array([self._next, self._first]),
            "last_of": np.array(list(self._last_of.items()), np.int64).reshape(-1, 2),
        }

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restores what `state` returned; capacity and observation shape must be the same."""
        self._observations.restore(state)
        for name, column in self._columns.items():
            restore_into(column, state, name)
        restore_into(self._next_step, state, "next_step")
        self._next, self._first = state["counters"].tolist()
        self._last_of = {stream: step for stream, step in state["last_of"].tolist()}

    def end_streams(self) -> None:
        """Ends all streams: steps added later do not follow those added before."""
        self._last_of = {}

    def _values_of(self, experience: trajectory.Trajectory) -> dict[str, np.ndarray]:
        """Returns what the columns hold of one step of every environment, [B] each."""
        return {name: getattr(experience, name) for name in _FIELDS}

    def _at(self, steps: np.ndarray) -> trajectory.Trajectory:
        """Returns steps [n, ...] by their numbers."""
        places = steps % self._capacity
        columns = {name: self._columns[name][places] for name in _FIELDS}
        return trajectory.Trajectory(
            observation=self._observations.get(steps), policy_info=(), **columns
        )

    def _begins_sequence(self, steps: np.ndarray) -> np.ndarray:
        """Returns whether a sequence can begin at steps: not between episodes, all steps stored."""
        played = self._columns["step_type"][steps % self._capacity] != ts.StepType.LAST
        last = steps
        for _ in range(self._length - 1):
            last = np.where(last >= 0, self._next_step[last % self._capacity], -1)
        return played & (last >= 0)

    def _require_a_sequence(self) -> None:
        if not self._begins_sequence(np.arange(self._first, self._next)).any():
            raise ValueError(
                f"the replay holds no {self._length} steps that followed each other: raise"
                " learning_starts"
            )

    def _drop_oldest(self) -> None:
        self._first = max(self._first, self._next - self._capacity)
        while not self._observations.has(self._first):
            self._first += 1
