"""NEC as a whole: Algorithm 1 of the paper, around its agent, its replay and its N-step window."""

import json

import numpy as np
import tensorflow as tf
from tf_agents.trajectories import time_step as ts
from tf_agents.trajectories import trajectory
from tf_agents.typing import types
from tf_agents.utils import common

from nec_tf.episodic_agent import Experience
from nec_tf.episodic_learner import EpisodicLearner
from nec_tf.n_step_driver import NStepTuples
from nec_tf.nec_agent import NecAgent
from nec_tf.nec_config import NecConfig
from nec_tf.replay import Replay


class NecLearner(EpisodicLearner):
    """Writes to the memory and to the replay, and trains on minibatches of the latter."""

    METRICS = (*EpisodicLearner.METRICS, "replay", "loss", "q", "error")

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec: types.NestedTensorSpec,
        embedding: tf.keras.Model,
        config: NecConfig,
        seed: int,
    ) -> None:
        """A learner that knows nothing yet; arguments as in `NecAgent`."""
        super().__init__(NecAgent(time_step_spec, action_spec, embedding, config, seed))
        self._config = config
        observation = self.agent.time_step_spec.observation
        self._replay = Replay(
            config.replay_capacity, tuple(observation.shape), observation.dtype.as_numpy_dtype
        )
        self._rng = np.random.default_rng(seed)
        self._train = common.function(self.agent.train)
        self._steps = 0

    def arrays(self) -> dict[str, np.ndarray]:
        """What is saved beside the checkpoint: the replay, the source of its samples, a counter."""
        rng = json.dumps(self._rng.bit_generator.state)
        return {**self._replay.state(), "rng": np.array(rng), "steps": np.array(self._steps)}

    def restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        """See `EpisodicLearner`."""
        self._replay.restore(arrays)
        self._rng.bit_generator.state = json.loads(str(arrays["rng"]))
        self._steps = int(arrays["steps"])

    def _learn(self, experience: trajectory.Trajectory) -> None:
        """Takes a step and makes the updates that are due."""
        super()._learn(experience)
        before = self._steps
        self._steps += int(np.sum(experience.step_type != ts.StepType.LAST))
        if len(self._replay) >= self._config.learning_starts:
            period = self._config.update_period
            for _ in range(self._steps // period - before // period):
                self._update()

    def _more_metrics(self, sums: dict[str, float]) -> dict[str, float]:
        updates = sums["updates"]
        means = {name: sums[name] / updates for name in ("loss", "q", "error")} if updates else {}
        return {"replay": float(len(self._replay)), **means}

    def _remember(self, tuples: NStepTuples) -> None:
        """Appends to the memory and to the replay."""
        super()._remember(tuples)
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
