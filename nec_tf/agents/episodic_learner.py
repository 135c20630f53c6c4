"""A learner around an episodic memory: writes N-step returns to the memory."""

from pathlib import Path

from tf_agents.trajectories import trajectory

from nec_tf.agents.episodic_agent import EpisodicAgent
from nec_tf.agents.learner import Learner
from nec_tf.agents.n_step_window import NStepTuples, NStepWindow, in_graphs
from nec_tf.memory import probe
from nec_tf.memory.state_ids import hash_states
from nec_tf.replay.kept_screens import ScreenWriter
from nec_tf.runtime.errors import UserError


class EpisodicLearner(Learner):
    """Writes to the memory and logs its size.

    Attributes:
        agent: An agent with a memory.
        window: The steps whose returns are not known yet.
    """

    METRICS = (*Learner.METRICS, "memory", "known_states", "rebuilds")
    agent: EpisodicAgent

    def __init__(self, agent: EpisodicAgent) -> None:
        """Makes a learner around a new agent."""
        super().__init__(agent)
        self.window = self.new_window()
        self._screens: ScreenWriter | None = None

    def keep_screens(self, folder: Path) -> None:
        """Keeps the screen of each state that is written from now on.

        Raises:
            UserError: Entries carry no ids of states.
        """
        if self.agent.config.recognise_by_key:
            raise UserError(
                "keep_screens finds screens by the ids of states, and with recognise_by_key there"
                " are none: leave one of the two out"
            )
        self._screens = ScreenWriter(folder)

    def new_window(self) -> NStepWindow:
        """Returns an empty window with the agent's settings of returns."""
        config = self.agent.config
        return NStepWindow(config.horizon, config.discount, greedy_returns=config.greedy_returns)

    @in_graphs
    def observe(self, step: trajectory.Trajectory) -> None:
        """Takes one step of every environment, [B, ...], and writes what is known now."""
        for tuples in self.window.add(step):
            self.append_to_memory(tuples)

    def append_to_memory(self, tuples: NStepTuples) -> None:
        """Writes (`h_t`, `Q^(N)`) to the memory of each action taken."""
        self._sums["known"] += self.agent.write(tuples)
        self._sums["written"] += len(tuples.actions)
        if self._screens is not None:
            self._screens.add(hash_states(tuples.observations), tuples.observations)

    def diagnose(self, seed: int) -> dict[str, float]:
        """Compares the indices with exact search; returns how many had to be rebuilt.

        An empty memory has no diagnostics.
        """
        if not self.agent.dnd.sizes.any():
            return {}
        damaged = probe.damaged_indices(self.agent.dnd, seed)
        if damaged:
            self.finish_updates()  # an index cannot change while an update reads it
            probe.repair(self.agent.dnd, damaged)
        return {"rebuilds": float(len(damaged))}

    def _metrics_from(self, sums: dict[str, float]) -> dict[str, float]:
        metrics = {"memory": float(self.agent.dnd.sizes.sum())}
        if sums["written"]:
            metrics["known_states"] = sums["known"] / sums["written"]
        return metrics
