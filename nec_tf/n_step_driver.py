"""N-step trajectories: from single steps to (state, action, `Q^(N)`), as they are written.

`NStepObserver` turns TF-Agents trajectories into such tuples, behind any driver; `NStepDriver` is
the loop of policy and environment that feeds it.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf
from tf_agents.environments import (
    batched_py_environment,
    py_environment,
    tf_environment,
    tf_py_environment,
)
from tf_agents.policies import py_policy, tf_policy
from tf_agents.trajectories import policy_step, trajectory
from tf_agents.trajectories import time_step as ts
from tf_agents.typing import types

from nec_tf.graphs import Graph, to_numpy
from nec_tf.policies import EpisodicPolicy, NecInfo
from nec_tf.returns import n_step_returns

Environment: TypeAlias = py_environment.PyEnvironment | tf_environment.TFEnvironment
Policy: TypeAlias = tf_policy.TFPolicy | py_policy.PyPolicy

# How many steps wait for their write to be a batch. Their values would be 64 steps old at most,
# beside the 100 that N-step returns wait anyway; measured, see docs/algorithm.md.
WRITE_EVERY = 64


def in_graphs(observe: Callable[[Any, trajectory.Trajectory], None]) -> Callable[..., Any]:
    """Lets a method that observes steps in Python also stand behind drivers that run as graphs."""

    @functools.wraps(observe)
    def anywhere(self: Any, experience: trajectory.Trajectory) -> tf.Tensor | None:
        if tf.executing_eagerly():
            return observe(self, experience)
        flat = tf.nest.flatten(experience)

        def on_host(*arrays: tf.Tensor) -> int:
            observe(self, tf.nest.pack_sequence_as(experience, arrays))
            return 0

        return tf.py_function(on_host, flat, tf.int64)  # drivers wait for what is returned

    return anywhere


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
    policy too, as part of the step between episodes. So does an episode that is broken off by a
    reset, but for its last step, of which nothing is known.
    """

    def __init__(
        self,
        horizon: int,
        discount: float,
        receive: Callable[[NStepTuples], Any],
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

    @in_graphs
    def __call__(self, experience: trajectory.Trajectory) -> None:
        """Takes one step: a trajectory of NumPy arrays or tensors, [B, ...] or of one environment.

        Raises:
            ValueError: The policy does not report what a write needs.
        """
        info = experience.policy_info
        if not (hasattr(info, "key") and hasattr(info, "best_q")):
            raise ValueError(
                "the steps have no key and best_q in their policy_info: collect them with the"
                f" agent's collect_policy, which reports {NecInfo.__name__}; this one has {info!r}"
            )
        if not isinstance(experience.reward, np.ndarray):
            experience = tf.nest.map_structure(np.asarray, experience)
        if experience.reward.ndim == 0:
            experience = tf.nest.map_structure(lambda array: array[None], experience)
        for stream in range(len(experience.reward)):
            self._take(stream, experience)

    def replace_keys(self, embed: Callable[[np.ndarray], np.ndarray]) -> None:
        """Makes new keys, [n, key_size] of observations [n, ...], for the steps that wait."""
        for window in filter(None, self._windows.values()):
            keys = embed(np.stack([step.observation for step in window]))
            window[:] = [step._replace(key=key) for step, key in zip(window, keys, strict=True)]

    def _take(self, stream: int, experience: trajectory.Trajectory) -> None:
        """Takes the step of one environment."""
        window = self._windows.setdefault(stream, [])
        info, step_type = experience.policy_info, experience.step_type[stream]
        best_q = float(info.best_q[stream])
        if step_type == ts.StepType.LAST:
            self._flush(stream, window, best_q)
            return
        if step_type == ts.StepType.FIRST and window:
            self._flush(stream, window, window.pop().best_q)
        window.append(
            _Step(
                experience.observation[stream],
                experience.action[stream],
                info.key[stream],
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
    best_q: float
    reward: np.ndarray


class NStepDriver:
    """Steps any policy through a batch of any environments and shows every step to observers."""

    def __init__(
        self,
        environment: Environment,
        policy: Policy,
        observers: Sequence[Callable[[trajectory.Trajectory], Any]],
    ) -> None:
        """A driver.

        Args:
            environment: Of Python or of TensorFlow, batched or not.
            policy: Of Python or of TensorFlow.
            observers: Called with each trajectory of NumPy arrays [B, ...].
        """
        self._environment = _batched(environment)
        self._policy = policy
        self._act = numpy_action(policy)
        self._policy_state: types.NestedArray = ()
        self._observers = list(observers)

    def run(self, num_steps: int, time_step: ts.TimeStep | None = None) -> ts.TimeStep:
        """Takes steps in every environment, and between episodes the one that begins the next.

        Args:
            num_steps: Calls of the environment.
            time_step: Where to go on; None resets the environments.

        Returns:
            The time step to go on from, [B, ...].
        """
        if time_step is None:
            time_step = self._environment.reset()
            self._policy_state = self._policy.get_initial_state(self._environment.batch_size)
        for _ in range(num_steps):
            acted = self._act(time_step, self._policy_state)
            next_time_step = self._environment.step(acted.action)
            shown = acted._replace(state=self._policy_state)
            experience = trajectory.from_transition(time_step, shown, next_time_step)
            for observe in self._observers:
                observe(experience)
            time_step, self._policy_state = next_time_step, acted.state
        return time_step


class _TensorEnvironment:
    """A TensorFlow environment that takes and gives NumPy arrays."""

    def __init__(self, environment: tf_environment.TFEnvironment) -> None:
        self._environment = environment
        self.batch_size = environment.batch_size

    def reset(self) -> ts.TimeStep:
        return to_numpy(self._environment.reset())

    def step(self, action: np.ndarray) -> ts.TimeStep:
        return to_numpy(self._environment.step(tf.convert_to_tensor(action)))


def _batched(environment: Environment) -> Any:
    """Returns an environment that takes and gives batches of NumPy arrays."""
    if isinstance(environment, tf_py_environment.TFPyEnvironment):
        environment = environment.pyenv
    if isinstance(environment, tf_environment.TFEnvironment):
        return _TensorEnvironment(environment)
    if environment.batched:
        return environment
    return batched_py_environment.BatchedPyEnvironment([environment], multithreading=False)


def numpy_action(policy: Policy) -> Callable[..., policy_step.PolicyStep]:
    """Returns the action of a policy, from NumPy arrays to NumPy arrays."""
    if isinstance(policy, py_policy.PyPolicy):
        return policy.action
    if isinstance(policy, EpisodicPolicy):
        return policy.numpy_action()
    in_graph = Graph(policy.action)
    return lambda time_step, state: to_numpy(in_graph(time_step, state))
