"""Checks of what a Gymnasium environment returns; errors say which one, and when."""

import contextlib
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
from tf_agents.specs import array_spec

from nec_tf.runtime.errors import UserError, note_environment

_LARGEST = np.finfo(np.float32).max  # observations become float32
_LARGEST_REWARD = 1e30  # a return, the sum of up to 10**6 rewards or so, is a float32, too


def _as_array(observation: Any) -> np.ndarray:
    """Returns an array of numbers, or of objects if it is something else, such as ragged lists."""
    try:
        return np.asarray(observation)
    except ValueError:
        return np.array(None)


class Member:
    """Counts the episodes and steps of one environment and checks what it returns."""

    def __init__(self, env: gymnasium.Env, place: int, spec: array_spec.BoundedArraySpec) -> None:
        """Starts before the first episode.

        Args:
            env: The environment.
            place: Its place in the batch.
            spec: Of its observations.
        """
        self._name = env.spec.id if env.spec else type(env.unwrapped).__name__
        self._place = place
        self._shape = spec.shape
        self._dtype = spec.dtype
        self._floats = np.issubdtype(spec.dtype, np.floating)
        self._episode = 0
        self._step = 0

    def begin_episode(self) -> None:
        """Counts a reset."""
        self._episode += 1
        self._step = 0

    def begin_step(self) -> None:
        """Counts a step."""
        self._step += 1

    @property
    def where(self) -> str:
        """The environment and the moment, such as `CartPole-v1 (episode 3, step 17)`."""
        member = f", member {self._place}" if self._place else ""
        return f"{self._name} (episode {self._episode}, step {self._step}{member})"

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Adds the environment and the moment to errors of the environment."""
        try:
            yield
        except Exception as error:
            note_environment(error, self.where)
            raise
        except (SystemExit, GeneratorExit) as error:  # the run has to be saved before it ends
            wrapped = RuntimeError(f"{self._name} ended the program: {error!r}")
            note_environment(wrapped, self.where)
            raise wrapped from error

    def check_observation(self, observation: Any) -> None:
        """Raises `UserError` unless it has the shape of the space, and is finite."""
        if not isinstance(observation, np.ndarray):
            observation = _as_array(observation)
        if observation.shape != self._shape:
            raise UserError(
                f"the environment {self.where} returned an observation of the shape"
                f" {list(observation.shape)}; its observation_space says {list(self._shape)}"
            )
        kind = observation.dtype.kind
        if kind not in "biuf" or not (self._floats or self._fits(observation)):
            raise UserError(
                f"the environment {self.where} returned an observation of the dtype"
                f" {observation.dtype}; its observation_space says {self._dtype}"
            )
        if self._floats and not (np.abs(observation) <= _LARGEST).all():
            raise UserError(
                f"the environment {self.where} returned an observation that is not finite"
            )

    def _fits(self, observation: np.ndarray) -> bool:
        return np.can_cast(observation.dtype, self._dtype, "same_kind")

    def check_reward(self, reward: Any) -> None:
        """Raises `UserError` unless it is a finite number whose sums are finite."""
        try:
            # A text such as "1" would become a number, too.
            number = np.ndim(reward) == 0 and not isinstance(reward, str | bytes)
            valid = number and abs(float(reward)) <= _LARGEST_REWARD
        except (TypeError, ValueError, OverflowError):
            valid = False
        if not valid:
            raise UserError(
                f"the environment {self.where} returned the reward {reward!r}; it must be a number"
                f" between {-_LARGEST_REWARD:g} and {_LARGEST_REWARD:g}"
            )
