"""What is watched: the agent of a run or an exported policy, asked one state at a time."""

import dataclasses
from typing import Any, Protocol

import numpy as np
import tensorflow as tf
from tf_agents.trajectories import time_step as ts

from nec_tf.agents.episodic_agent import EpisodicAgent
from nec_tf.agents.n_step_driver import numpy_action
from nec_tf.experiments.exported import Exported
from nec_tf.experiments.run import Run
from nec_tf.experiments.viewer.remembered import Near, Remembered

Q_VALUES, PROBABILITIES = "q_values", "probabilities"


@dataclasses.dataclass(frozen=True)
class Decision:
    """What an agent computed in one state.

    Attributes:
        action: The action it takes.
        scores: Q-values, or probabilities of actions, [A].
        value: `V(s)` of an actor-critic.
        key: `h`, [key_size]; None without a memory, or if it is not known.
        neighbours: For each action the entries behind its Q-value; None without a memory.
    """

    action: int
    scores: np.ndarray
    value: float | None = None
    key: np.ndarray | None = None
    neighbours: list[Near] | None = None

    @property
    def greedy(self) -> bool:
        """Whether no action has a higher score than the one taken."""
        best = self.scores.max()
        return bool(np.isclose(self.scores[self.action], best))


class Decider(Protocol):
    """Decides in single states.

    Attributes:
        kind: What scores are: `Q_VALUES` or `PROBABILITIES`.
        memory: The memory; None if there is none.
    """

    kind: str
    memory: Remembered | None

    def begin(self, seed: int) -> None:
        """Begins an episode: seeds random actions."""

    def decide(self, time_step: ts.TimeStep) -> Decision:
        """Decides in a time step [1, ...]."""


class MemoryDecider:
    """The evaluation policy of an agent with a memory."""

    kind = Q_VALUES

    def __init__(self, run: Run) -> None:
        """Takes the agent of a run; nothing in it changes."""
        agent: EpisodicAgent = run.learner.agent
        self.begin = run.learner.begin_evaluation
        self._explain = tf.function(lambda states: _explain(agent, states))
        self._act = numpy_action(agent.policy)
        self.memory: Remembered | None = Remembered(
            agent.dnd.entries(), agent.dnd.kernel, agent.dnd.num_neighbours
        )

    def decide(self, time_step: ts.TimeStep) -> Decision:
        """See `Decider`."""
        key, found = self._explain(tf.constant(time_step.observation))
        near = _by_action(found)
        action = int(self._act(time_step, ()).action[0])
        return Decision(action, _weighted_means(near), key=key.numpy()[0], neighbours=near)


class NetworkDecider:
    """The evaluation policy of an agent without a memory."""

    memory: Remembered | None = None

    def __init__(self, run: Run) -> None:
        """Takes the agent of a run; nothing in it changes."""
        agent = run.learner.agent
        self.begin = run.learner.begin_evaluation
        self._answer = tf.function(agent.post_process_policy().answer)
        self._act = numpy_action(agent.policy)
        spec = agent.time_step_spec.observation
        outputs = self._answer.get_concrete_function(
            tf.TensorSpec([1, *spec.shape], spec.dtype)
        ).structured_outputs
        self.kind = PROBABILITIES if "logits" in outputs else Q_VALUES

    def decide(self, time_step: ts.TimeStep) -> Decision:
        """See `Decider`."""
        action = int(self._act(time_step, ()).action[0])
        return Decision(action, **_scores(self._answer(tf.constant(time_step.observation))))


class ExportDecider:
    """An exported policy, through the signatures of its SavedModel."""

    def __init__(self, exported: Exported) -> None:
        """Takes an export, full or compact."""
        self._exported = exported
        self.kind = PROBABILITIES if "logits" in exported.outputs else Q_VALUES
        memory = exported.memory()
        self.memory = None if memory is None else Remembered(*memory)

    def begin(self, seed: int) -> None:
        """Does nothing: an exported policy is deterministic."""

    def decide(self, time_step: ts.TimeStep) -> Decision:
        """See `Decider`."""
        answer = self._exported.answer(time_step.observation)
        action = int(answer["action"][0])
        if self.memory is None:
            return Decision(action, **_scores(answer))
        near = _by_action(self._exported.explain(time_step.observation))
        key = self._exported.keys(time_step.observation)[0]
        return Decision(action, **_scores(answer), key=key, neighbours=near)


def decider_of(run: Run) -> Decider:
    """Returns what decides as the agent of a run does in evaluations."""
    if isinstance(run.learner.agent, EpisodicAgent):
        return MemoryDecider(run)
    return NetworkDecider(run)


def _explain(agent: EpisodicAgent, states: tf.Tensor) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """Returns keys [B, key_size] of states, and their neighbours by name, [B, A, p]."""
    keys = agent.embedding(states, training=False)
    return keys, agent.dnd.neighbours(keys)._asdict()


def _by_action(found: dict[str, tf.Tensor]) -> list[Near]:
    """Returns the neighbours of one state for each action, from tensors [1, A, p]."""
    arrays = {name: tensor.numpy()[0] for name, tensor in found.items()}
    near = []
    for action, rows in enumerate(arrays["rows"]):
        present = rows > 0  # places without a neighbour have row 0
        near.append(Near(**{name: array[action][present] for name, array in arrays.items()}))
    return near


def _weighted_means(near: list[Near]) -> np.ndarray:
    """Returns the Q-value of each action, [A]: equation 1."""
    return np.array([np.sum(one.weights * one.values) for one in near], np.float32)


def _scores(answer: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a `Decision` that outputs of `serving_default` give."""
    if "logits" in answer:
        probabilities = tf.nn.softmax(answer["logits"][0]).numpy()
        return {"scores": probabilities, "value": float(answer["value"][0])}
    return {"scores": answer["q_values"][0].numpy()}
