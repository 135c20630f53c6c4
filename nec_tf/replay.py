"""The replay memory `D`: the last (state, action, return) tuples (paper, section 3.4).

A state of Atari is a stack of four frames, three of which the state before it had too. Every frame
is stored once, and a state is four numbers of frames: 10^5 states take 0.7 GB instead of 2.8.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

CAPACITY = 100_000  # states; paper, section 4


class Sample(NamedTuple):
    """A minibatch.

    Attributes:
        observations: `s_t`, [B, ...].
        actions: `a_t`, int64 [B].
        returns: `R_t = Q^(N)(s_t, a_t)`, float32 [B].
    """

    observations: np.ndarray
    actions: np.ndarray
    returns: np.ndarray


class Replay:
    """A ring of the newest states, sampled uniformly."""

    def __init__(self, capacity: int, observation_shape: tuple[int, ...], dtype: DTypeLike) -> None:
        """An empty replay; its memory is taken as it fills.

        Args:
            capacity: The most states.
            observation_shape: Of one state. Three dimensions are a stack of frames, the last
                dimension counting them, oldest first; anything else is stored as it is.
            dtype: Of the observations.
        """
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, not {capacity}")
        self._capacity = capacity
        stack = observation_shape[-1] if len(observation_shape) == 3 else 1
        frame_shape = observation_shape[:-1] if stack > 1 else observation_shape
        # An episode begins with a whole stack; a quarter more frames than states is room for one
        # every dozen states. Where that is not enough, the oldest states go a little earlier.
        num_frames = capacity if stack == 1 else capacity + capacity // 4 + 4 * stack
        self._stack = stack
        self._frames = np.zeros((num_frames, *frame_shape), dtype)  # pages are taken when touched
        self._frame_ids = np.zeros((capacity, stack), np.int64)
        self._actions = np.zeros(capacity, np.int64)
        self._returns = np.zeros(capacity, np.float32)
        self._next_frame = 0  # ids count up for ever; their place in the ring is the remainder
        self._next_state = 0
        self._first_state = 0
        self._last_ids: dict[int, np.ndarray] = {}

    def __len__(self) -> int:
        """Returns the states held."""
        return self._next_state - self._first_state

    def add(
        self, stream: int, observations: np.ndarray, actions: np.ndarray, returns: np.ndarray
    ) -> None:
        """Appends states that followed each other in one environment.

        Args:
            stream: Which environment; its states share frames with those it brought before.
            observations: [n, ...].
            actions: [n].
            returns: [n].
        """
        for observation, action, value in zip(observations, actions, returns, strict=True):
            place = self._next_state % self._capacity
            self._frame_ids[place] = self._store(stream, observation)
            self._actions[place] = action
            self._returns[place] = value
            self._next_state += 1
            self._forget_oldest()

    def sample(self, rng: np.random.Generator, batch_size: int) -> Sample:
        """Returns states drawn uniformly, with replacement."""
        places = rng.integers(self._first_state, self._next_state, batch_size) % self._capacity
        frames = self._frames[self._frame_ids[places] % len(self._frames)]  # [B, stack, ...]
        observations = np.moveaxis(frames, 1, -1) if self._stack > 1 else frames[:, 0]
        return Sample(observations, self._actions[places], self._returns[places])

    def state(self) -> dict[str, np.ndarray]:
        """Returns everything, as arrays to save; what is not in use yet is left out."""
        states = min(self._next_state, self._capacity)
        frames = min(self._next_frame, len(self._frames))
        streams = np.array(list(self._last_ids), np.int64)
        last_ids = np.array(list(self._last_ids.values()), np.int64).reshape(-1, self._stack)
        return {
            "frames": self._frames[:frames],
            "frame_ids": self._frame_ids[:states],
            "actions": self._actions[:states],
            "returns": self._returns[:states],
            "counters": np.array([self._next_frame, self._next_state, self._first_state]),
            "streams": streams,
            "last_ids": last_ids,
        }

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Becomes what `state` returned, in a replay of the same capacity and observations."""
        for name in ("frames", "frame_ids", "actions", "returns"):
            saved, own = state[name], getattr(self, f"_{name}")
            if saved.shape[1:] != own.shape[1:] or len(saved) > len(own):
                raise ValueError(
                    f"the saved replay holds {name} of shape {saved.shape},"
                    f" which do not fit into {own.shape}"
                )
            own[: len(saved)] = saved
        self._next_frame, self._next_state, self._first_state = state["counters"].tolist()
        self._last_ids = dict(zip(state["streams"].tolist(), state["last_ids"], strict=True))

    def _store(self, stream: int, observation: np.ndarray) -> np.ndarray:
        """Stores the frames that are new and returns the ids of all frames of the state."""
        if self._stack == 1:
            return np.array([self._store_frame(observation)])
        frames = np.moveaxis(observation, -1, 0)
        last = self._last_ids.get(stream)
        if last is not None and self._follows(last, frames):
            ids = np.append(last[1:], self._store_frame(frames[-1]))
        else:
            ids = np.array([self._store_frame(frame) for frame in frames])
        self._last_ids[stream] = ids
        return ids

    def _follows(self, last: np.ndarray, frames: np.ndarray) -> bool:
        """Whether the older frames of a state are the newer ones of the state with ids `last`."""
        held = last[1:].min() >= self._next_frame + 1 - len(self._frames)
        return bool(held) and all(
            np.array_equal(self._frames[i % len(self._frames)], frame)
            for i, frame in zip(last[1:], frames[:-1], strict=True)
        )

    def _store_frame(self, frame: np.ndarray) -> int:
        self._frames[self._next_frame % len(self._frames)] = frame
        self._next_frame += 1
        return self._next_frame - 1

    def _forget_oldest(self) -> None:
        """Lets go of states beyond the capacity, and of those whose frames were overwritten."""
        self._first_state = max(self._first_state, self._next_state - self._capacity)
        oldest_frame = self._next_frame - len(self._frames)
        while self._frame_ids[self._first_state % self._capacity].min() < oldest_frame:
            self._first_state += 1
