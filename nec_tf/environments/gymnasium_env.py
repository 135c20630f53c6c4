"""Gymnasium environments as one batched TF-Agents environment.

TF-Agents 0.19 wraps only the old Gym, and its base class resets a batch only once all of its
members have ended. Here each member starts its next episode on its own.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from tf_agents.environments import py_environment
from tf_agents.specs import array_spec
from tf_agents.trajectories import time_step as ts

from nec_tf.environments.member_checks import Member
from nec_tf.runtime.errors import UserError

__all__ = ["GymnasiumEnvironment", "SingleGymnasiumEnvironment"]


class GymnasiumEnvironment(py_environment.PyEnvironment):
    """A batch of Gymnasium environments, stepped one after the other in this process.

    Each call of `step` moves every member by one agent step. A member that terminated returns
    LAST with discount 0; a member that was truncated (by a time limit) returns LAST with discount
    `discount`, so that its last observation can be bootstrapped from. At the call after its LAST
    the member is reset: its action is ignored and it returns FIRST with reward 0, while the
    others continue. `time_step.is_first()` is therefore the mask of members that were just reset.

    Observations, rewards, discounts and step types are new arrays at each call. With B members
    they have shapes `[B, *observation]`, `[B]`, `[B]` and `[B]`; float64 observations become
    float32.

    >>> import gymnasium
    >>> members = [gymnasium.make("CartPole-v1") for _ in range(2)]
    >>> environment = GymnasiumEnvironment(members, seed=1)
    >>> environment.reset().observation.shape
    (2, 4)
    >>> environment.step(np.array([0, 1])).reward
    array([1., 1.], dtype=float32)
    """

    def __init__(
        self,
        envs: Sequence[gymnasium.Env | Callable[[], gymnasium.Env]],
        seed: int | None = None,
        discount: float = 1.0,
    ):
        """Takes over the environments; `close` closes them.

        Args:
            envs: The members, or functions that build them; one observation space and one action
                space for all. A single member makes a batch of one.
            seed: See `seed`; None draws one from the operating system.
            discount: Discount of each step that does not terminate, in [0, 1]. FIRST steps have
                discount 1, as everywhere in TF-Agents.

        Raises:
            TypeError: `envs` is not a sequence of Gymnasium environments or their factories.
            UserError: A space is not supported.
            ValueError: The members do not fit together.
        """
        # Members are reset one by one in `_step`, never all together by the base class.
        super().__init__(handle_auto_reset=False)
        if not 0.0 <= discount <= 1.0:
            raise ValueError(f"discount must be in [0, 1], not {discount}")
        self._envs = _build(envs)
        self._factories = list(envs)
        self._discount = discount
        self._observation_spec = _observation_spec(self._envs[0].observation_space)
        self._action_spec = _action_spec(self._envs[0].action_space)
        self._infos: list[dict[str, Any]] = [{} for _ in self._envs]
        self._members = [Member(env, i, self._observation_spec) for i, env in enumerate(self._envs)]
        self._next_seeds: list[int | None]
        self.seed(seed)

    @property
    def batched(self) -> bool:
        """True, with a single member too."""
        return True

    @property
    def batch_size(self) -> int:
        """Number of members, B."""
        return len(self._envs)

    @property
    def envs(self) -> tuple[gymnasium.Env, ...]:
        """The members."""
        return self._envs

    def observation_spec(self) -> array_spec.BoundedArraySpec:
        """Spec of one member's observation."""
        return self._observation_spec

    def action_spec(self) -> array_spec.BoundedArraySpec:
        """Spec of one member's action: an int64 scalar in [0, number of actions)."""
        return self._action_spec

    def seed(self, seed: int | None) -> tuple[int, ...]:
        """Gives each member a seed of its own, used once, at its next reset.

        Later episodes continue with the member's own random numbers, so that they differ.

        Returns:
            The seeds of the members.
        """
        children = np.random.SeedSequence(seed).spawn(len(self._envs))
        seeds = tuple(int(child.generate_state(1)[0]) for child in children)
        self._next_seeds = list(seeds)
        return seeds

    def get_info(self) -> tuple[dict[str, Any], ...]:
        """Returns the info dictionary that each member gave at its last step or reset."""
        return tuple(self._infos)

    def keep(self, members: np.ndarray) -> ts.TimeStep:
        """Keeps some of the members, by their places in the batch; closes the others.

        Returns:
            The time step to continue from, with as many members as are left.
        """
        kept = set(members.tolist())
        for i, env in enumerate(self._envs):
            if i not in kept:
                env.close()
        self._envs = tuple(self._envs[i] for i in members)
        self._factories = [self._factories[i] for i in members]
        self._infos = [self._infos[i] for i in members]
        self._members = [self._members[i] for i in members]
        self._next_seeds = [self._next_seeds[i] for i in members]
        self._current_time_step = ts.TimeStep(*(part[members] for part in self.current_time_step()))
        return self._current_time_step

    def member_factory(self, i: int) -> Callable[[], "GymnasiumEnvironment"] | None:
        """Returns a function that builds a batch of one like member `i`, in any process.

        None if the member was not given as a function that builds it.
        """
        factory = self._factories[i]
        if isinstance(factory, gymnasium.Env):
            return None
        return functools.partial(GymnasiumEnvironment, [factory], discount=self._discount)

    def take_seeds(self) -> list[int | None]:
        """Returns the seeds of the members' next resets, which are then made elsewhere."""
        seeds, self._next_seeds = self._next_seeds, [None] * self.batch_size
        return seeds

    def step_member(self, i: int, action: np.ndarray) -> ts.TimeStep:
        """Steps one member, as `step` steps all of them; the others stay where they are.

        Each member may be stepped by a thread of its own. Its place in `current_time_step()`, the
        arrays that `reset` or `step` returned last, is overwritten.

        Args:
            i: Place of the member in the batch.
            action: Its action, int [1].

        Returns:
            Its time step, [1, ...], in new arrays.
        """
        now = self.current_time_step()
        ended = now.step_type[i] == ts.StepType.LAST
        (chosen,) = self._check_action(action, 1)
        step_type, reward, discount, observation = self._step_member(i, chosen, ended)
        time_step = ts.TimeStep(
            np.array([step_type], np.int32),
            np.array([reward], np.float32),
            np.array([discount], np.float32),
            self._batch([observation]),
        )
        for part, value in zip(now, time_step, strict=True):
            part[i] = value[0]
        return time_step

    def render(self, mode: str = "rgb_array") -> np.ndarray:
        """Returns the members' images, uint8 `[B, height, width, 3]`."""
        for env in self._envs:
            if mode != "rgb_array" or env.render_mode != "rgb_array":
                raise ValueError(
                    f"only 'rgb_array' can be rendered, by members that were built with "
                    f"render_mode='rgb_array'; asked for {mode!r} of a member with "
                    f"render_mode={env.render_mode!r}"
                )
        return np.stack([np.asarray(env.render()) for env in self._envs])

    def close(self) -> None:
        """Closes the members."""
        for env in self._envs:
            env.close()

    def _reset(self) -> ts.TimeStep:
        observations = [self._reset_member(i) for i in range(self.batch_size)]
        return ts.restart(self._batch(observations), batch_size=self.batch_size)

    def _step(self, action: np.ndarray) -> ts.TimeStep:
        actions = self._check_action(action, self.batch_size)
        # Not `is_last()`, which first asks TensorFlow what it was given: 20 microseconds.
        ended = self._current_time_step.step_type == ts.StepType.LAST
        step_type = np.empty(self.batch_size, np.int32)
        reward = np.empty(self.batch_size, np.float32)
        discount = np.empty(self.batch_size, np.float32)
        observations = []
        for i in range(self.batch_size):
            step_type[i], reward[i], discount[i], observation = self._step_member(
                i, actions[i], ended[i]
            )
            observations.append(observation)
        return ts.TimeStep(step_type, reward, discount, self._batch(observations))

    def _step_member(
        self, i: int, action: np.integer, ended: np.bool_
    ) -> tuple[int, SupportsFloat, float, np.ndarray]:
        """Steps member `i`, or resets it after its LAST.

        Returns:
            Step type, reward, discount and observation.
        """
        if ended:
            return ts.StepType.FIRST, 0.0, 1.0, self._reset_member(i)
        member = self._members[i]
        member.begin_step()
        with member.noted():
            observation, reward, terminated, truncated, self._infos[i] = self._envs[i].step(action)
            last = bool(terminated or truncated)
        member.check_reward(reward)
        member.check_observation(observation)
        step_type = ts.StepType.LAST if last else ts.StepType.MID
        return step_type, reward, 0.0 if terminated else self._discount, observation

    def _reset_member(self, i: int) -> np.ndarray:
        member = self._members[i]
        member.begin_episode()
        with member.noted():
            observation, self._infos[i] = self._envs[i].reset(seed=self._next_seeds[i])
        member.check_observation(observation)
        self._next_seeds[i] = None
        return observation

    def _batch(self, observations: list[np.ndarray]) -> np.ndarray:
        return np.stack(observations, dtype=self._observation_spec.dtype, casting="same_kind")

    def _check_action(self, action: np.ndarray, count: int) -> np.ndarray:
        # Checked here since many environments take a negative action for an index from the end.
        actions = np.asarray(action)
        if actions.shape != (count,) or not np.issubdtype(actions.dtype, np.integer):
            raise ValueError(
                f"action must be integers of shape ({count},), one for each member; "
                f"got {actions.dtype} of shape {actions.shape}"
            )
        last_action = self._action_spec.maximum
        if actions.min() < 0 or actions.max() > last_action:
            raise ValueError(f"actions must be in [0, {last_action}], got {actions.tolist()}")
        return actions


class SingleGymnasiumEnvironment(py_environment.PyEnvironment):
    """One Gymnasium environment without a batch dimension, for TF-Agents' Reverb observers.

    In all else as `GymnasiumEnvironment`.

    >>> import gymnasium
    >>> environment = SingleGymnasiumEnvironment(gymnasium.make("CartPole-v1"), seed=1)
    >>> environment.reset().observation.shape
    (4,)
    """

    def __init__(
        self,
        env: gymnasium.Env | Callable[[], gymnasium.Env],
        seed: int | None = None,
        discount: float = 1.0,
    ):
        """Takes over the environment; arguments as in `GymnasiumEnvironment`."""
        super().__init__(handle_auto_reset=False)
        self._batch = GymnasiumEnvironment([env], seed, discount)

    def observation_spec(self) -> array_spec.BoundedArraySpec:
        """Spec of the observation."""
        return self._batch.observation_spec()

    def action_spec(self) -> array_spec.BoundedArraySpec:
        """Spec of the action."""
        return self._batch.action_spec()

    def seed(self, seed: int | None) -> int:
        """Gives the environment a seed, used once, at its next reset; returns it."""
        return self._batch.seed(seed)[0]

    def get_info(self) -> dict[str, Any]:
        """Returns the info dictionary of the last step or reset."""
        return self._batch.get_info()[0]

    def render(self, mode: str = "rgb_array") -> np.ndarray:
        """Returns the image, uint8 `[height, width, 3]`."""
        return self._batch.render(mode)[0]

    def close(self) -> None:
        """Closes the environment."""
        self._batch.close()

    def _reset(self) -> ts.TimeStep:
        return _first(self._batch.reset())

    def _step(self, action: np.ndarray) -> ts.TimeStep:
        return _first(self._batch.step(np.asarray(action)[None]))


def _first(batch: ts.TimeStep) -> ts.TimeStep:
    return ts.TimeStep(*(array[0] for array in batch))


def _build(
    envs: Sequence[gymnasium.Env | Callable[[], gymnasium.Env]],
) -> tuple[gymnasium.Env, ...]:
    """Returns the environments, built where a factory was given; all with the same spaces."""
    if not isinstance(envs, Sequence):
        raise TypeError(f"envs must be a sequence of Gymnasium environments, not {envs!r}")
    if not envs:
        raise ValueError("envs is empty: at least one environment is needed")
    members = tuple(
        env() if callable(env) and not isinstance(env, gymnasium.Env) else env for env in envs
    )
    for member in members:
        if not isinstance(member, gymnasium.Env):
            raise TypeError(f"not a gymnasium.Env nor a function that builds one: {member!r}")
        for space in ("observation_space", "action_space"):
            first, other = getattr(members[0], space), getattr(member, space)
            if first != other:
                raise ValueError(f"members must share one {space}, got {first} and {other}")
    if len({id(member) for member in members}) < len(members):
        raise ValueError("an environment is in the batch twice: build one for each member")
    return members


def _observation_spec(space: gymnasium.Space) -> array_spec.BoundedArraySpec:
    if not isinstance(space, gymnasium.spaces.Box):
        raise UserError(
            f"observation space {space} is not supported: it must be a Box. "
            "gymnasium.wrappers.FlattenObservation turns Discrete, Tuple and Dict into one"
        )
    if 0 in space.shape:
        raise UserError(f"observation space {space} is not supported: it has no numbers")
    dtype: np.dtype = np.dtype(np.float32 if space.dtype == np.float64 else space.dtype)
    low, high = space.low, space.high
    if np.issubdtype(dtype, np.floating):
        # Bounds beyond the range of the narrower type, infinity among them, become its extremes.
        limits = np.finfo(dtype)
        low, high = np.clip(low, limits.min, limits.max), np.clip(high, limits.min, limits.max)
    return array_spec.BoundedArraySpec(
        space.shape, dtype, minimum=_compact(low), maximum=_compact(high), name="observation"
    )


def _compact(bounds: np.ndarray) -> np.ndarray:
    """Returns a scalar where all bounds are equal: specs are copied, printed and exported."""
    first = bounds.flat[0]
    return first if np.all(bounds == first) else bounds


def _action_spec(space: gymnasium.Space) -> array_spec.BoundedArraySpec:
    if not isinstance(space, gymnasium.spaces.Discrete) or space.start != 0:
        raise UserError(
            f"action space {space} is not supported: it must be Discrete and start at 0"
        )
    num_actions: Any = space.n  # Gymnasium's type for it is any NumPy scalar.
    return array_spec.BoundedArraySpec((), np.int64, 0, num_actions - 1, name="action")
