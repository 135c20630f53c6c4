"""What learners around an episodic memory share: the N-step window, the writing, the counting."""

import collections
from typing import Any

import numpy as np
from tf_agents.trajectories import trajectory

from nec_tf.episodic_agent import EpisodicAgent
from nec_tf.n_step_driver import NStepObserver, NStepTuples, in_graphs


class EpisodicLearner:
    """Takes steps in, writes what they were worth, and says how it is doing.

    Attributes:
        METRICS: Names of what `metrics` can return.
        agent: Its policies act.
    """

    METRICS: tuple[str, ...] = ("epsilon", "memory", "known_states")

    def __init__(self, agent: EpisodicAgent) -> None:
        """A learner around an agent that knows nothing yet."""
        self.agent = agent
        config = agent.config
        self._observer = NStepObserver(config.horizon, config.discount, self._remember)
        self._sums: dict[str, float] = collections.defaultdict(float)

    @in_graphs
    def observe(self, experience: trajectory.Trajectory) -> None:
        """Takes one step of every environment, [B, ...], and learns what it can from it."""
        self._learn(experience)

    def metrics(self) -> dict[str, float]:
        """Returns means since the last call, and how things stand; nothing that is not known."""
        sums, self._sums = self._sums, collections.defaultdict(float)
        exploration = self.agent.exploration
        metrics = {
            "epsilon": float(exploration.epsilon_at(exploration.steps)),
            "memory": float(self.agent.dnd.sizes.sum()),
        }
        if sums["written"]:
            metrics["known_states"] = sums["known"] / sums["written"]
        return metrics | self._more_metrics(sums)

    def begin_evaluation(self, seed: int) -> None:
        """Makes the chance in the agent's evaluation policy start from a seed."""
        self.agent.exploration.begin_evaluation(seed)

    def trackables(self) -> dict[str, Any]:
        """What `tf.train.Checkpoint` saves."""
        return self.agent.trackables()

    def arrays(self) -> dict[str, np.ndarray]:
        """What is saved beside it."""
        return {}

    def restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        """Takes what `arrays` returned; episodes that were under way then are not gone on with."""

    def _learn(self, experience: trajectory.Trajectory) -> None:
        self._observer(experience)

    def _more_metrics(self, sums: dict[str, float]) -> dict[str, float]:
        """Returns what a subclass adds, from what it summed up."""
        del sums
        return {}

    def _remember(self, tuples: NStepTuples) -> None:
        """Appends to the memory."""
        self._sums["known"] += self.agent.write(tuples)
        self._sums["written"] += len(tuples.actions)
