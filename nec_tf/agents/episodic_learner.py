"""A learner around an episodic memory: writes N-step returns to the memory."""

from tf_agents.trajectories import trajectory

from nec_tf.agents.episodic_agent import EpisodicAgent
from nec_tf.agents.learner import Learner
from nec_tf.agents.n_step_window import NStepTuples, NStepWindow, in_graphs


class EpisodicLearner(Learner):
    """Writes to the memory and logs its size.

    Attributes:
        agent: An agent with a memory.
        window: The steps whose returns are not known yet.
    """

    METRICS = (*Learner.METRICS, "memory", "known_states")
    agent: EpisodicAgent

    def __init__(self, agent: EpisodicAgent) -> None:
        """Makes a learner around a new agent."""
        super().__init__(agent)
        self.window = self.new_window()

    def new_window(self) -> NStepWindow:
        """Returns an empty window with the agent's horizon and discount."""
        return NStepWindow(self.agent.config.horizon, self.agent.config.discount)

    @in_graphs
    def observe(self, step: trajectory.Trajectory) -> None:
        """Takes one step of every environment, [B, ...], and writes what is known now."""
        for tuples in self.window.add(step):
            self.append_to_memory(tuples)

    def append_to_memory(self, tuples: NStepTuples) -> None:
        """Writes (`h_t`, `Q^(N)`) to the memory of each action taken."""
        self._sums["known"] += self.agent.write(tuples)
        self._sums["written"] += len(tuples.actions)

    def _metrics_from(self, sums: dict[str, float]) -> dict[str, float]:
        metrics = {"memory": float(self.agent.dnd.sizes.sum())}
        if sums["written"]:
            metrics["known_states"] = sums["known"] / sums["written"]
        return metrics
