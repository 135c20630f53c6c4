"""NEC as a whole: Algorithm 1 of the paper, around its agent, its replay and its N-step window."""

import collections
import json
from typing import Any

import numpy as np
import tensorflow as tf
from tf_agents.trajectories import time_step as ts
from tf_agents.trajectories import trajectory
from tf_agents.typing import types
from tf_agents.utils import common

from nec_tf.n_step_driver import NStepObserver, NStepTuples, in_graphs
from nec_tf.nec_agent import Experience, NecAgent
from nec_tf.nec_config import NecConfig
from nec_tf.replay import Replay


class NecLearner:
    """Takes steps in, learns from them, and says how it is doing.

    Attributes:
        agent: Its policies act.
    """

    METRICS = ("epsilon", "memory", "replay", "loss", "q", "error", "known_states")

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec: types.NestedTensorSpec,
        embedding: tf.keras.Model,
        config: NecConfig,
        seed: int,
    ) -> None:
        """A learner that knows nothing yet; arguments as in `NecAgent`."""
        self.agent = NecAgent(time_step_spec, action_spec, embedding, config, seed)
        self._config = config
        observation = self.agent.time_step_spec.observation
        self._replay = Replay(
            config.replay_capacity, tuple(observation.shape), observation.dtype.as_numpy_dtype
        )
        self._observer = NStepObserver(config.horizon, config.discount, self._remember)
        self._rng = np.random.default_rng(seed)
        self._train = common.function(self.agent.train)
        self._steps = 0
        self._sums: dict[str, float] = collections.defaultdict(float)

    @in_graphs
    def observe(self, experience: trajectory.Trajectory) -> None:
        """Takes one step of every environment, [B, ...], and makes the updates that are due."""
        self._observer(experience)
        before = self._steps
        self._steps += int(np.sum(experience.step_type != ts.StepType.LAST))
        if len(self._replay) >= self._config.learning_starts:
            period = self._config.update_period
            for _ in range(self._steps // period - before // period):
                self._update()

    def metrics(self) -> dict[str, float]:
        """Returns means since the last call, and how things stand; nothing that is not known."""
        sums, self._sums = self._sums, collections.defaultdict(float)
        metrics = {
            "epsilon": float(self.agent.epsilon_at(self.agent.steps)),
            "memory": float(self.agent.dnd.sizes.sum()),
            "replay": float(len(self._replay)),
        }
        if sums["updates"]:
            for name in ("loss", "q", "error"):
                metrics[name] = sums[name] / sums["updates"]
        if sums["written"]:
            metrics["known_states"] = sums["known"] / sums["written"]
        return metrics

    def begin_evaluation(self, seed: int) -> None:
        """Makes the chance in the agent's evaluation policy start from a seed."""
        self.agent.evaluation_generator.reset_from_seed(seed)

    def trackables(self) -> dict[str, Any]:
        """What `tf.train.Checkpoint` saves."""
        return self.agent.trackables()

    def arrays(self) -> dict[str, np.ndarray]:
        """What is saved beside it: the replay, the source of its samples and a counter."""
        rng = json.dumps(self._rng.bit_generator.state)
        return {**self._replay.state(), "rng": np.array(rng), "steps": np.array(self._steps)}

    def restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        """Takes what `arrays` returned; episodes that were under way then are not gone on with."""
        self._replay.restore(arrays)
        self._rng.bit_generator.state = json.loads(str(arrays["rng"]))
        self._steps = int(arrays["steps"])

    def _remember(self, tuples: NStepTuples) -> None:
        """Appends to the memory and to the replay."""
        self._sums["known"] += self.agent.write(tuples)
        self._sums["written"] += len(tuples.actions)
        self._replay.add(tuples.stream, tuples.observations, tuples.actions, tuples.returns)

    def _update(self) -> None:
        """Trains on a random minibatch."""
        sample = self._replay.sample(self._rng, self._config.batch_size)
        valid = np.ones(self._config.batch_size, bool)
        info = self._train(Experience(*map(tf.convert_to_tensor, (*sample, valid))))
        self._sums["updates"] += 1
        self._sums["loss"] += float(info.loss)
        self._sums["q"] += float(info.extra.q)
        self._sums["error"] += float(info.extra.error)
