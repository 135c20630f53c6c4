"""The driver: steps any policy through any environments and passes every step to observers."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

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

from nec_tf.agents.policies import EpisodicPolicy
from nec_tf.runtime.graphs import Graph, to_numpy

Environment: TypeAlias = py_environment.PyEnvironment | tf_environment.TFEnvironment
Policy: TypeAlias = tf_policy.TFPolicy | py_policy.PyPolicy


class NStepDriver:
    """Steps a policy through a batch of environments; with `NStepObserver`, an N-step driver.

    >>> import gymnasium
    >>> from tf_agents.policies.random_py_policy import RandomPyPolicy
    >>> from nec_tf import GymnasiumEnvironment, NStepDriver
    >>> environment = GymnasiumEnvironment([gymnasium.make("CartPole-v1")], seed=1)
    >>> policy = RandomPyPolicy(environment.time_step_spec(), environment.action_spec(), seed=1)
    >>> steps = []
    >>> last = NStepDriver(environment, policy, [steps.append]).run(3)
    >>> len(steps), steps[0].observation.shape
    (3, (1, 4))
    """

    def __init__(
        self,
        environment: Environment,
        policy: Policy,
        observers: Sequence[Callable[[trajectory.Trajectory], Any]],
    ) -> None:
        """Makes a driver.

        Args:
            environment: A Python or TensorFlow environment, batched or not.
            policy: A Python or TensorFlow policy.
            observers: Called with each trajectory of NumPy arrays [B, ...].
        """
        self._environment = _batched(environment)
        self._policy = policy
        self._act = numpy_action(policy)
        self._policy_state: types.NestedArray = ()
        self.observers = list(observers)

    def run(self, num_steps: int, time_step: ts.TimeStep | None = None) -> ts.TimeStep:
        """Takes steps in every environment; the step after the end of an episode resets it.

        Args:
            num_steps: Calls of the environment.
            time_step: Where to continue; None resets the environments.

        Returns:
            The time step to continue from, [B, ...].
        """
        if time_step is None:
            time_step = self._environment.reset()
            self._policy_state = self._policy.get_initial_state(self._environment.batch_size)
        for _ in range(num_steps):
            acted = self._act(time_step, self._policy_state)
            next_time_step = self._environment.step(acted.action)
            shown = acted._replace(state=self._policy_state)
            experience = trajectory.from_transition(time_step, shown, next_time_step)
            for observe in self.observers:
                observe(experience)
            time_step, self._policy_state = next_time_step, acted.state
        return time_step


class _TensorEnvironment:
    """A TensorFlow environment with NumPy arrays in and out."""

    def __init__(self, environment: tf_environment.TFEnvironment) -> None:
        self._environment = environment
        self.batch_size = environment.batch_size

    def reset(self) -> ts.TimeStep:
        return to_numpy(self._environment.reset())

    def step(self, action: np.ndarray) -> ts.TimeStep:
        return to_numpy(self._environment.step(tf.convert_to_tensor(action)))


def _batched(environment: Environment) -> Any:
    """Returns an environment with batches of NumPy arrays in and out."""
    if isinstance(environment, tf_py_environment.TFPyEnvironment):
        environment = environment.pyenv
    if isinstance(environment, tf_environment.TFEnvironment):
        return _TensorEnvironment(environment)
    if environment.batched:
        return environment
    return batched_py_environment.BatchedPyEnvironment([environment], multithreading=False)


def numpy_action(policy: Policy) -> Callable[..., policy_step.PolicyStep]:
    """Returns `policy.action` with NumPy arrays in and out."""
    if isinstance(policy, py_policy.PyPolicy):
        return policy.action
    if isinstance(policy, EpisodicPolicy):
        return policy.numpy_action()
    in_graph = Graph(policy.action)
    return lambda time_step, state: to_numpy(in_graph(time_step, state))
