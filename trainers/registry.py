"""The agents that the programs can train, by the name that `--agent` takes.

A new agent is one module with a configuration and a learner, and one line here.
"""

import dataclasses
import difflib
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow as tf
from tf_agents.agents import tf_agent
from tf_agents.trajectories import trajectory

from nec_tf import embeddings
from nec_tf.baselines.dqn import DqnConfig, DqnLearner
from nec_tf.environments.gymnasium_env import GymnasiumEnvironment
from nec_tf.mfec_agent import MfecConfig, MfecLearner
from nec_tf.mfec_vae import MfecVaeConfig, MfecVaeLearner
from nec_tf.nec_config import NecConfig
from nec_tf.nec_learner import NecLearner
from nec_tf.vae import vae_encoder
from trainers.tasks import Task


class Learner(Protocol):
    """What the experiment loop asks of an agent; see `NecLearner` for what each does."""

    METRICS: tuple[str, ...]
    agent: tf_agent.TFAgent

    def observe(self, experience: trajectory.Trajectory) -> None:
        """Takes one step of every environment and learns from it."""

    def metrics(self) -> dict[str, float]:
        """Returns numbers by the names in `METRICS`, those that are known."""

    def begin_evaluation(self, seed: int) -> None:
        """Makes the chance in `agent.policy` start from a seed."""

    def trackables(self) -> dict[str, Any]:
        """What `tf.train.Checkpoint` saves."""

    def arrays(self) -> dict[str, np.ndarray]:
        """What is saved beside it."""

    def restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        """Takes what `arrays` returned."""


@dataclasses.dataclass(frozen=True)
class AgentKind:
    """A configuration class and a learner class that is made with it.

    Attributes:
        config: Of the agent.
        learner: See `Learner`.
        make_embedding: From an observation's shape, key size and seed to a network; None for that
            of the task.
    """

    config: type
    learner: type
    make_embedding: Callable[[Sequence[int], int, int], tf.keras.Model] | None = None


AGENTS = {
    "nec": AgentKind(NecConfig, NecLearner),
    "mfec": AgentKind(MfecConfig, MfecLearner, embeddings.random_projection),
    "mfec_vae": AgentKind(MfecVaeConfig, MfecVaeLearner, vae_encoder),
    "dqn": AgentKind(DqnConfig, DqnLearner),
}


def find_agent(name: str) -> AgentKind:
    """Returns an agent by its name; a wrong one gets the nearest."""
    if name not in AGENTS:
        near = difflib.get_close_matches(name, AGENTS) or list(AGENTS)
        raise ValueError(f"unknown agent {name!r}: did you mean {' or '.join(near)}?")
    return AGENTS[name]


def make_learner(
    kind: AgentKind, task: Task, environment: GymnasiumEnvironment, config: Any, seed: int
) -> Learner:
    """Returns a learner that knows nothing yet, for a task and its environment's specs."""
    if kind.make_embedding:
        shape = environment.observation_spec().shape
        embedding = kind.make_embedding(shape, config.key_size, seed)
    else:
        embedding = task.make_embedding(config.key_size, seed)
    return kind.learner(
        environment.time_step_spec(), environment.action_spec(), embedding, config, seed
    )
