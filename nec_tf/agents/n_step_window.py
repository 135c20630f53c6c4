"""The N-step window: from single steps to (state, action, `Q^(N)`), as they are written."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tf_agents.trajectories import time_step as ts
from tf_agents.trajectories import trajectory

from nec_tf.agents.policies import NecInfo
from nec_tf.agents.returns import greedy_returns, n_step_returns

# Steps that are written together. A write waits at most 64 steps longer, beside the 100 steps that
# an N-step return waits anyway; measured, see docs/algorithm.md ("Write batching").
WRITE_EVERY = 64


class NStepTuples(NamedTuple):
    """Consecutive steps of one environment, with their returns.

    Attributes:
        stream: Position of the environment in the batch.
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


class _Step(NamedTuple):
    """One step: `s_t`, `a_t`, `h_t`, `max_a Q(s_t, a)`, whether `a_t` is greedy, and `r_t`."""

    observation: np.ndarray
    action: np.ndarray
    key: np.ndarray
    best_q: float
    greedy: bool
    reward: np.ndarray


class NStepWindow:
    """Holds steps until their N-step returns are known.

    A return bootstraps from the best Q-value that was computed when acting. Termination ends the
    sum. At truncation the sum bootstraps from the last observation, for which drivers call the
    policy too, in the step between episodes. An episode that a reset interrupts bootstraps from its
    last state; that state itself has no known reward and is dropped.
    """

    def __init__(
        self,
        horizon: int,
        discount: float,
        write_every: int = WRITE_EVERY,
        greedy_returns: bool = False,
    ) -> None:
        """Makes empty windows, one for each environment of a batch.

        Args:
            horizon: `N`, in steps.
            discount: `gamma`, for a step.
            write_every: Number of tuples that are returned together; fewer at the end of an
                episode.
            greedy_returns: Whether returns are those of `returns.greedy_returns`.
        """
        if horizon < 1:
            raise ValueError(f"horizon must be at least 1, not {horizon}")
        self._horizon = horizon
        self._discount = discount
        self._write_every = write_every
        self._greedy_returns = greedy_returns
        self._windows: dict[int, list[_Step]] = {}

    def add(self, step: trajectory.Trajectory) -> list[NStepTuples]:
        """Takes one step and returns the tuples whose returns are known now.

        Args:
            step: A trajectory of NumPy arrays or tensors, [B, ...] or of one environment.

        Raises:
            ValueError: The policy does not report what a write needs.
        """
        info = step.policy_info
        if not (hasattr(info, "key") and hasattr(info, "best_q")):
            raise ValueError(
                "the steps have no key and best_q in their policy_info: collect them with the"
                f" agent's collect_policy, which reports {NecInfo.__name__}; this one has {info!r}"
            )
        if self._greedy_returns and isinstance(info.taken_q, tuple):
            raise ValueError(
                "greedy returns need taken_q in the policy_info of the steps: collect them with the"
                " collect_policy of an agent whose greedy_returns is on"
            )
        if not isinstance(step.reward, np.ndarray):
            step = tf.nest.map_structure(np.asarray, step)
        if step.reward.ndim == 0:
            step = tf.nest.map_structure(lambda array: array[None], step)
        return [tuples for stream in range(len(step.reward)) for tuples in self._take(stream, step)]

    def replace_keys(self, embed: Callable[[np.ndarray], np.ndarray]) -> None:
        """Computes new keys, [n, key_size] of observations [n, ...], for the steps held."""
        for window in filter(None, self._windows.values()):
            keys = embed(np.stack([step.observation for step in window]))
            window[:] = [step._replace(key=key) for step, key in zip(window, keys, strict=True)]

    def _take(self, stream: int, step: trajectory.Trajectory) -> list[NStepTuples]:
        """Takes the step of one environment."""
        window = self._windows.setdefault(stream, [])
        info, step_type = step.policy_info, step.step_type[stream]
        best_q = float(info.best_q[stream])
        if step_type == ts.StepType.LAST:
            return self._flush(stream, window, best_q)
        known: list[NStepTuples] = []
        if step_type == ts.StepType.FIRST and window:
            known += self._flush(stream, window, window.pop().best_q)
        window.append(
            _Step(
                step.observation[stream],
                step.action[stream],
                info.key[stream],
                best_q,
                not self._greedy_returns or bool(info.taken_q[stream] >= info.best_q[stream]),
                step.reward[stream],
            )
        )
        terminated = step.discount[stream] == 0.0
        if step.next_step_type[stream] == ts.StepType.LAST and terminated:
            known += self._flush(stream, window, 0.0)
        elif len(window) == self._horizon + self._write_every:
            known.append(self._pop(stream, window, self._write_every, np.nan))
        return known

    def _flush(self, stream: int, window: list[_Step], last_value: float) -> list[NStepTuples]:
        """Returns what is left of an episode."""
        return [self._pop(stream, window, len(window), last_value)] if window else []

    def _pop(self, stream: int, window: list[_Step], count: int, last_value: float) -> NStepTuples:
        """Removes the first `count` steps of a window and returns them.

        If the window does not reach the end of the episode, `last_value` is unknown, and no return
        of these steps depends on it.
        """
        values = np.array([step.best_q for step in window] + [last_value])
        rewards = np.array([step.reward for step in window])
        settings = self._discount, self._horizon
        if self._greedy_returns:
            greedy = np.array([step.greedy for step in window])
            returns = greedy_returns(rewards, values, greedy, *settings)[:count]
        else:
            returns = n_step_returns(rewards, values, *settings)[:count]
        steps = window[:count]
        del window[:count]
        return NStepTuples(
            stream,
            np.stack([step.observation for step in steps]),
            np.array([step.action for step in steps], np.int64),
            returns.astype(np.float32),
            np.stack([step.key for step in steps]),
        )


def in_graphs(observe: Callable[[Any, trajectory.Trajectory], None]) -> Callable[..., Any]:
    """Makes a Python method that observes steps usable behind drivers that run as graphs."""

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


class NStepObserver:
    """An N-step window behind any TF-Agents driver: passes on tuples as they become known.

    One driver, one observer: it holds the unfinished episodes of that driver's environments.

    >>> import gymnasium
    >>> from nec_tf import GymnasiumEnvironment, MfecAgent, MfecConfig, NStepDriver, encoders
    >>> environment = GymnasiumEnvironment([gymnasium.make("CartPole-v1")], seed=1)
    >>> specs = environment.time_step_spec(), environment.action_spec()
    >>> agent = MfecAgent(*specs, encoders.random_projection([4], 16), MfecConfig.small(), seed=1)
    >>> observer = NStepObserver(horizon=10, discount=0.99, receive=agent.write)
    >>> last = NStepDriver(environment, agent.collect_policy, [observer]).run(100)
    >>> bool(agent.dnd.sizes.sum() > 0)
    True
    """

    def __init__(
        self,
        horizon: int,
        discount: float,
        receive: Callable[[NStepTuples], Any],
        write_every: int = WRITE_EVERY,
        greedy_returns: bool = False,
    ) -> None:
        """Makes an observer of a batch of environments.

        Args:
            horizon: `N`, in steps.
            discount: `gamma`, for a step.
            receive: Called with the tuples of one environment, such as `agent.write`.
            write_every: See `NStepWindow`.
            greedy_returns: See `NStepWindow`.
        """
        self._window = NStepWindow(horizon, discount, write_every, greedy_returns)
        self._receive = receive

    @in_graphs
    def __call__(self, experience: trajectory.Trajectory) -> None:
        """Takes one step: a trajectory of NumPy arrays or tensors, [B, ...] or of one environment.

        Raises:
            ValueError: The policy does not report what a write needs.
        """
        for tuples in self._window.add(experience):
            self._receive(tuples)
