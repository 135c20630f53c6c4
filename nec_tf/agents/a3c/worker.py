"""An actor-learner of A3C: acts in its own environment with its own copy of the weights."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
import tensorflow as tf
from tf_agents.trajectories import policy_step, trajectory
from tf_agents.trajectories import time_step as ts

from nec_tf.agents.a3c.agent import A3cAgent
from nec_tf.agents.a3c.loss import A3cLoss
from nec_tf.agents.a3c.policy import sample
from nec_tf.runtime.graphs import Graph


class Members(Protocol):
    """A batch of environments that can be stepped one by one, as `GymnasiumEnvironment`."""

    batch_size: int

    def reset(self) -> ts.TimeStep:
        """Resets all members."""

    def current_time_step(self) -> ts.TimeStep:
        """Returns where the members are, [B, ...]."""

    def step_member(self, i: int, action: np.ndarray) -> ts.TimeStep:
        """Steps one member, int [1]; returns its time step, [1, ...]."""


class Played(NamedTuple):
    """What a worker did.

    Attributes:
        steps: [num_steps, ...].
        time_step: Where it is now, [1, ...].
        sums: Of its updates.
        state: Of its random numbers.
    """

    steps: trajectory.Trajectory
    time_step: ts.TimeStep
    sums: A3cLoss
    state: np.ndarray


class Exchange(Protocol):
    """How a worker's copy of the weights meets the shared weights."""

    def copy_weights(self) -> None:
        """Copies the shared weights to the worker's."""

    def update(self, experience: trajectory.Trajectory) -> np.ndarray:
        """Updates the shared weights with a rollout [1, T + 1], then copies them.

        Returns:
            The parts of the loss, an `A3cLoss` as an array.
        """


class InProcess:
    """An exchange with an agent of the same process."""

    def __init__(self, agent: A3cAgent, network: tf.keras.Model) -> None:
        """Shares the agent's weights with a worker's copy of its network."""
        self._agent = agent
        self._network = network
        self._update = Graph(self._update_in_graph)

    def copy_weights(self) -> None:
        """See `Exchange`."""
        # TensorFlow copies a matrix when one of the two is next written to, and not before.
        for own, shared in zip(self._network.variables, self._agent.network.variables, strict=True):
            own.assign(shared)

    def update(self, experience: trajectory.Trajectory) -> np.ndarray:
        """See `Exchange`."""
        return self._update(experience).numpy()

    def _update_in_graph(self, experience: trajectory.Trajectory) -> tf.Tensor:
        info = self._agent.update(self._network, experience)
        self.copy_weights()
        return tf.stack(info.extra)


class Worker:
    """One actor-learner, Algorithm S3 of Mnih et al. (2016).

    Attributes:
        generator: Random numbers of its actions.
    """

    def __init__(
        self,
        network: tf.keras.Model,
        exchange: Exchange,
        t_max: int,
        generator: tf.random.Generator,
    ) -> None:
        """Copies the shared weights.

        Args:
            network: Its own copy.
            exchange: To the shared weights.
            t_max: Most steps of a rollout.
            generator: Random numbers of its actions; not used by anyone else.
        """
        self._network = network
        self._exchange = exchange
        self._t_max = t_max
        self.generator = generator
        self._rollout: list[trajectory.Trajectory] = []  # each row [1, ...]
        self._sums = np.zeros(len(A3cLoss._fields))
        self._act = Graph(self._act_in_graph)
        exchange.copy_weights()

    @property
    def update_due(self) -> bool:
        """True after t_max steps or at the end of an episode."""
        rows = self._rollout
        if not rows:
            return False
        over = rows[-1].next_step_type[0] == ts.StepType.LAST
        return bool(over) or len(rows) == self._t_max

    def play(
        self, environment: Members, member: int, num_steps: int, steps: list[trajectory.Trajectory]
    ) -> Iterator[None]:
        """Acts and learns; pauses (yields) after each update.

        Args:
            environment: A batch of environments.
            member: Its place in the batch.
            num_steps: Calls of the environment.
            steps: Gets each step, [1, ...].
        """
        time_step = _member(environment, member)
        for _ in range(num_steps):
            action = self._act(time_step.observation).numpy()
            next_time_step = environment.step_member(member, action)
            acted = policy_step.PolicyStep(action)
            step = trajectory.from_transition(time_step, acted, next_time_step)
            steps.append(step)
            self.append(step)
            if self.update_due:
                self.update(next_time_step)
                yield
            time_step = next_time_step

    def append(self, step: trajectory.Trajectory) -> None:
        """Adds one step, [1, ...], to the rollout; clips its reward."""
        if step.step_type[0] != ts.StepType.LAST:  # else the step between two episodes
            clipped = np.clip(step.reward, -1.0, 1.0)  # Mnih et al., 2016, as Nature DQN
            self._rollout.append(step._replace(reward=clipped))

    def update(self, time_step: ts.TimeStep) -> None:
        """Updates the shared weights with the rollout, then copies them.

        Args:
            time_step: After the rollout's last step, [1, ...].
        """
        after = self._rollout[-1]._replace(
            step_type=time_step.step_type, observation=time_step.observation
        )
        # One shape for all rollouts: copies of the end of an episode add nothing to the loss.
        missing = self._t_max - len(self._rollout)
        rows = [*self._rollout, *[after] * (1 + missing)]
        parts = (np.stack(part, axis=1) for part in zip(*map(_arrays, rows), strict=True))
        step_type, observation, action, next_step_type, reward, discount = parts
        self._rollout = []
        self._sums += self._exchange.update(
            trajectory.Trajectory(
                step_type, observation, action, (), next_step_type, reward, discount
            )
        )

    def restart(self) -> None:
        """Drops the steps since the last update and copies the shared weights."""
        self._rollout = []
        self._exchange.copy_weights()

    def take_sums(self) -> A3cLoss:
        """Returns sums over all steps since the last call."""
        sums, self._sums = self._sums, np.zeros_like(self._sums)
        return A3cLoss(*sums.tolist())

    def played(
        self, environment: Members, member: int, steps: list[trajectory.Trajectory]
    ) -> Played:
        """Returns what `play` did, given its arguments."""
        together = tf.nest.map_structure(lambda *parts: np.concatenate(parts), *steps)
        now = _member(environment, member)
        return Played(together, now, self.take_sums(), self.generator.state.numpy())

    def _act_in_graph(self, observation: tf.Tensor) -> tf.Tensor:
        logits, _ = self._network(observation)
        return sample(logits, self.generator)


def _member(environment: Members, member: int) -> ts.TimeStep:
    """Returns where a member is, [1, ...]."""
    now = environment.current_time_step()
    return ts.TimeStep(*(np.copy(part[member : member + 1]) for part in now))


def _arrays(row: trajectory.Trajectory) -> tuple[np.ndarray, ...]:
    """Returns the arrays of a row; there is no policy info."""
    return (
        row.step_type,
        row.observation,
        row.action,
        row.next_step_type,
        row.reward,
        row.discount,
    )
