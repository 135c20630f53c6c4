"""Pictures of remembered states: of screens that a run kept, or of states that its replay holds."""

import threading
from collections.abc import Callable
from typing import Protocol

import cv2
import numpy as np

from nec_tf.experiments.tasks import Task
from nec_tf.memory.state_ids import hash_states
from nec_tf.replay.kept_screens import newest_screen
from nec_tf.replay.return_replay import Replay

_BATCH = 256  # states of the replay that are hashed at a time
_LARGEST = 160  # pixels: pictures of remembered states are small on the page
_FAST = (cv2.IMWRITE_PNG_COMPRESSION, 1)  # for this machine: time matters, and size does not
_ENCODED = 4_000  # PNG files held: about 5 MB


class States(Protocol):
    """States by their ids."""

    def find(self, state_id: int) -> np.ndarray | None:
        """Returns a state, or its newest screen; None if it is not held."""


class ReplayStates:
    """The states of a replay by their ids; another thread hashes them all once."""

    def __init__(self, replay: Replay) -> None:
        """Starts to hash the states; those that are not hashed yet are not found."""
        self._replay = replay
        self._numbers: dict[int, int] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._hash_all, daemon=True)
        self._thread.start()

    def find(self, state_id: int) -> np.ndarray | None:
        """See `States`."""
        number = self._numbers.get(state_id)
        return None if number is None else self._replay.get(np.array([number])).observations[0]

    def wait(self) -> None:
        """Waits until all states can be found."""
        self._thread.join()

    def close(self) -> None:
        """Ends the thread."""
        self._ended.set()
        self._thread.join()

    def _hash_all(self) -> None:
        number = self._replay.first_state
        for sample in self._replay.in_batches(_BATCH):
            for state_id in hash_states(sample.observations).tolist():
                self._numbers[state_id] = number
                number += 1
            if self._ended.is_set():
                return


class Pictures:
    """Pictures of states, as PNG files."""

    def __init__(self, sources: list[States], task: Task) -> None:
        """Makes pictures of states that any source holds, the first one first."""
        self._sources = sources
        self._draw = _state_renderer(task)
        self._encoded: dict[int, bytes] = {}  # the newest: steps in a row share neighbours

    def find(self, state_id: int) -> bytes | None:
        """Returns a picture of a state; None if there is none."""
        encoded = self._encoded.get(state_id)
        if encoded is None:
            picture = self.array(state_id)
            if picture is None:
                return None
            encoded = self._encoded[state_id] = encode(picture)
            if len(self._encoded) > _ENCODED:
                del self._encoded[next(iter(self._encoded))]
        return encoded

    def array(self, state_id: int) -> np.ndarray | None:
        """Returns a small picture, uint8 [height, width] or [height, width, 3]; None for none."""
        for source in self._sources:
            state = source.find(state_id)
            if state is None:
                continue
            if state.ndim >= 2 and state.dtype == np.uint8:
                return _small(newest_screen(state))
            return _small(self._draw(state)) if self._draw is not None else None
        return None


def _small(picture: np.ndarray) -> np.ndarray:
    """Returns a picture whose longer side is at most `_LARGEST`."""
    scale = _LARGEST / max(picture.shape[:2])
    if scale >= 1:
        return picture
    return cv2.resize(picture, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)


def encode(picture: np.ndarray) -> bytes:
    """Returns a picture, grey or RGB, as a PNG file."""
    if picture.ndim == 3 and picture.shape[2] == 3:
        picture = cv2.cvtColor(picture, cv2.COLOR_RGB2BGR)
    return cv2.imencode(".png", picture, _FAST)[1].tobytes()


def _state_renderer(task: Task) -> Callable[[np.ndarray], np.ndarray] | None:
    """Returns a function that draws a state of an environment whose observation is its state.

    CartPole and MountainCar are such environments: their `state` is what they return. None for all
    others: what an observation leaves out cannot be drawn.
    """
    if not task.renders:
        return None
    env = task.make_env(True)
    observation, _ = env.reset(seed=0)
    state = getattr(env.unwrapped, "state", None)
    if state is None or np.shape(state) != observation.shape or observation.dtype.kind != "f":
        env.close()
        return None
    if not np.allclose(np.asarray(state, np.float32), observation):
        env.close()
        return None

    def draw(given: np.ndarray) -> np.ndarray:
        env.unwrapped.state = given.astype(float)  # type: ignore[attr-defined]
        return np.asarray(env.render())

    return draw
