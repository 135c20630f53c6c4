"""N-step trajectories: from single steps to (state, action, `Q^(N)`), as they are written.

`NStepObserver` turns TF-Agents trajectories into such tuples, behind any driver; `NStepDriver` is
the loop of policy and environment that feeds it.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tf_agents.environments import py_environment
from tf_agents.policies import tf_policy
from tf_agents.trajectories import policy_step, trajectory
from tf_agents.trajectories import time_step as ts
from tf_agents.utils import common

from nec_tf.returns import n_step_returns

# How many steps wait for their write to be a batch. Their values would be 64 steps old at most,
# beside the 100 that N-step returns wait anyway; measured, see docs/algorithm.md.
WRITE_EVERY = 64


class NStepTuples(NamedTuple):
    """Consecutive steps of one environment, with their returns.

    Attributes:
        stream: Which environment of the batch.
        observations: `s_t`, [n, ...].
        actions: `a_t`, int64 [n].
        returns: `Q^(N)(s_t, a_t)`, float32 [n].
        keys: `h_t` as it was when acting, [n, key_size].
    """

    stream: int
    observations: np.ndarray
    actions: np.ndarray
    returns: np.ndarray
    keys: np.ndarray


class NStepObserver:
    """Waits until N more steps are known, then hands a batch of tuples on.

    The value that a return bootstraps from is the one that was computed when acting. Termination
    ends the sum; at truncation it bootstraps from the last observation, for which drivers ask the
    policy too, as part of the step between episodes.
    """

    def __init__(
        self,
        horizon: int,
        discount: float,
        receive: Callable[[NStepTuples], None],
        write_every: int = WRITE_EVERY,
    ) -> None:
        """An observer of a batch of environments.

        Args:
            horizon: `N`, in steps.
            discount: `gamma`, for a step.
            receive: Takes the tuples of one environment.
            write_every: How many tuples are handed on together; fewer where an episode ends.
        """
        if horizon < 1:
            raise ValueError(f"horizon must be at least 1, not {horizon}")
        self._horizon = horizon
        self._discount = discount
        self._receive = receive
        self._write_every = write_every
        self._windows: dict[int, list[_Step]] = {}

    def __call__(self, experience: trajectory.Trajectory) -> None:
        """Takes one step of every environment: a trajectory of NumPy arrays or tensors [B, ...]."""
        experience = tf.nest.map_structure(np.asarray, experience)
        for stream in range(len(experience.reward)):
            window = self._windows.setdefault(stream, [])
            best_q = experience.policy_info.best_q[stream]
            if experience.step_type[stream] == ts.StepType.LAST:
                self._flush(stream, window, float(best_q))
                continue
            window.append(
                _Step(
                    experience.observation[stream],
                    experience.action[stream],
                    experience.policy_info.key[stream],
                    best_q,
                    experience.reward[stream],
                )
            )
            terminated = experience.discount[stream] == 0.0
            if experience.next_step_type[stream] == ts.StepType.LAST and terminated:
                self._flush(stream, window, 0.0)
            elif len(window) == self._horizon + self._write_every:
                self._hand_on(stream, window, self._write_every, np.nan)

    def _flush(self, stream: int, window: list["_Step"], last_value: float) -> None:
        """Hands on what is left of an episode."""
        if window:
            self._hand_on(stream, window, len(window), last_value)

    def _hand_on(self, stream: int, window: list["_Step"], count: int, last_value: float) -> None:
        """Hands on the first `count` steps of a window and drops them from it.

        Where the window does not reach the end of the episode, `last_value` is not known and no
        return of these steps asks for it.
        """
        values = np.array([step.best_q for step in window] + [last_value])
        rewards = np.array([step.reward for step in window])
        returns = n_step_returns(rewards, values, self._discount, self._horizon)[:count]
        steps = window[:count]
        del window[:count]
        self._receive(
            NStepTuples(
                stream,
                np.stack([step.observation for step in steps]),
                np.array([step.action for step in steps], np.int64),
                returns.astype(np.float32),
                np.stack([step.key for step in steps]),
            )
        )


class _Step(NamedTuple):
    """One step: `s_t`, `a_t`, `h_t`, `max_a Q(s_t, a)` and `r_t`, the reward of `a_t`."""

    observation: np.ndarray
    action: np.ndarray
    key: np.ndarray
    best_q: np.ndarray
    reward: np.ndarray


class NStepDriver:
    """Steps a policy through a batch of environments and shows every step to observers."""

    def __init__(
        self,
        environment: py_environment.PyEnvironment,
        policy: tf_policy.TFPolicy,
        observers: Sequence[Callable[[trajectory.Trajectory], None]],
    ) -> None:
        """A driver.

        Args:
            environment: Batched.
            policy: Acts on time steps of tensors.
            observers: Called with each trajectory of NumPy arrays [B, ...].
        """
        self._environment = environment
        self._policy = policy
        self._action = common.function(policy.action)
        self._observers = list(observers)

    def run(self, num_steps: int, time_step: ts.TimeStep | None = None) -> ts.TimeStep:
        """Takes steps in every environment, and between episodes the one that begins the next.

        Args:
            num_steps: Calls of the environment.
            time_step: Where to go on; None resets the environments.

        Returns:
            The time step to go on from.
        """
        time_step = self._environment.reset() if time_step is None else time_step
        for _ in range(num_steps):
            acted = self._action(tf.nest.map_structure(tf.convert_to_tensor, time_step))
            acted = policy_step.PolicyStep(*tf.nest.map_structure(lambda x: x.numpy(), acted))
            next_time_step = self._environment.step(acted.action)
            experience = trajectory.from_transition(time_step, acted, next_time_step)
            for observe in self._observers:
                observe(experience)
            time_step = next_time_step
        return time_step
