"""Observations of replay memories; each frame is stored once.

An Atari state is a stack of four frames and shares three of them with the state before. A state is
stored as the ids of its four frames: 100,000 states take 0.7 GB instead of 2.8 GB.
"""

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import DTypeLike

_LARGEST_STACK = 512  # frames; limit of OpenCV's merge
_MERGED_AS = {1: np.uint8, 2: np.uint16, 4: np.int32, 8: np.float64}  # by bytes per element


class FrameRing:
    """The newest observations by state number; state numbers only increase."""

    def __init__(self, capacity: int, observation_shape: tuple[int, ...], dtype: DTypeLike) -> None:
        """Makes an empty ring; memory is allocated as it fills.

        Args:
            capacity: Largest number of states.
            observation_shape: Shape of one state. Three dimensions are a stack of frames, [height,
                width, frames], oldest first. Other shapes, and stacks of more than 512, are stored
                whole.
            dtype: Dtype of the observations.
        """
        frames = observation_shape[-1] if len(observation_shape) == 3 else 1
        stack = frames if frames <= _LARGEST_STACK else 1
        frame_shape = observation_shape[:-1] if stack > 1 else observation_shape
        # The first state of an episode stores a whole stack. A quarter more frames than states is
        # room for an episode every dozen states; with shorter ones the oldest states go earlier.
        num_frames = capacity if stack == 1 else capacity + capacity // 4 + 4 * stack
        self._stack = stack
        self._frames = np.zeros(
            (num_frames, *frame_shape), dtype
        )  # pages are allocated when written
        self._merged = self._frames.view(
            _MERGED_AS[self._frames.itemsize]
        )  # OpenCV copies bits only
        self._frame_ids = np.zeros((capacity, stack), np.int64)
        self._next_frame = 0  # ids only increase; the place in the ring is the remainder
        self._last_ids: dict[int, np.ndarray] = {}

    @property
    def nbytes(self) -> int:
        """The most that it will take."""
        return self._frames.nbytes + self._frame_ids.nbytes

    def put(self, state: int, stream: int, observation: np.ndarray) -> None:
        """Stores the observation of a state in place of that of `state - capacity`.

        Args:
            state: State number.
            stream: Number of the environment; consecutive states of one share frames.
            observation: Observation of the state.
        """
        self._frame_ids[state % len(self._frame_ids)] = self._store(stream, observation)

    def get(self, states: np.ndarray) -> np.ndarray:
        """Returns the observations [n, ...] of stored states, in C order."""
        ids = self._frame_ids[states % len(self._frame_ids)]
        places = ids % len(self._frames)  # [n, stack]
        if self._stack == 1:
            return self._frames[places[:, 0]]
        # In the memory order of TensorFlow: a conversion afterwards takes longer and holds Python's
        # lock. For 32 states OpenCV takes 0.08 ms, NumPy 0.30 ms.
        observations = np.empty(
            (len(ids), *self._frames.shape[1:], self._stack), self._merged.dtype
        )
        for observation, stacked in zip(observations, places.tolist(), strict=True):
            cv2.merge([self._merged[place] for place in stacked], observation)
        return observations.view(self._frames.dtype)

    def has(self, state: int) -> bool:
        """Returns whether all frames of one of the last `capacity` states are still stored."""
        oldest_frame = self._next_frame - len(self._frames)
        return bool(self._frame_ids[state % len(self._frame_ids)].min() >= oldest_frame)

    def state(self, num_states: int) -> dict[str, np.ndarray]:
        """Returns the content as arrays to save; `num_states` is the number of `put` so far."""
        return {
            "frames": self._frames[: min(self._next_frame, len(self._frames))],
            "frame_ids": self._frame_ids[: min(num_states, len(self._frame_ids))],
            "next_frame": np.array(self._next_frame),
            "streams": np.array(list(self._last_ids), np.int64),
            "last_ids": np.array(list(self._last_ids.values()), np.int64).reshape(-1, self._stack),
        }

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restores what `state` returned; capacity and observation shape must be the same."""
        restore_into(self._frames, state, "frames")
        restore_into(self._frame_ids, state, "frame_ids")
        self._next_frame = int(state["next_frame"])
        self._last_ids = dict(zip(state["streams"].tolist(), state["last_ids"], strict=True))

    def _store(self, stream: int, observation: np.ndarray) -> np.ndarray:
        """Stores new frames and returns the ids of all frames of the state."""
        if self._stack == 1:
            return np.array([self._store_frame(observation)])
        dtype = self._frames.dtype
        stacked = np.asarray(observation, dtype).view(self._merged.dtype)
        frames = [frame.view(dtype) for frame in cv2.split(stacked)]
        last = self._last_ids.get(stream)
        if last is not None and self._follows(last, frames):
            ids = np.append(last[1:], self._store_frame(frames[-1]))
        else:
            ids = np.array([self._store_frame(frame) for frame in frames])
        self._last_ids[stream] = ids
        return ids

    def _follows(self, last: np.ndarray, frames: Sequence[np.ndarray]) -> bool:
        """Returns whether a state shares all but its newest frame with the ids `last`."""
        held = last[1:].min() >= self._next_frame + 1 - len(self._frames)
        return bool(held) and all(
            np.array_equal(self._frames[i % len(self._frames)], frame)
            for i, frame in zip(last[1:], frames[:-1], strict=True)
        )

    def _store_frame(self, frame: np.ndarray) -> int:
        self._frames[self._next_frame % len(self._frames)] = frame
        self._next_frame += 1
        return self._next_frame - 1


def restore_into(own: np.ndarray, state: dict[str, np.ndarray], name: str) -> None:
    """Copies a saved array to the beginning of one that is at least as long."""
    saved = check_fits(own, state, name)
    own[: len(saved)] = saved


def check_fits(own: np.ndarray, state: dict[str, np.ndarray], name: str) -> np.ndarray:
    """Returns a saved array; raises `ValueError` if it is larger than `own`."""
    saved = state[name]
    if saved.shape[1:] != own.shape[1:] or len(saved) > len(own):
        raise ValueError(
            f"the saved replay has {name} of the shape {saved.shape}, which does not fit into"
            f" {own.shape}: restore with the replay_capacity and environment of the saved run"
        )
    return saved
