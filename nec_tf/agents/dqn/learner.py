"""DQN as experiments run it: steps go to the replay, and every few steps it trains."""

import json
from collections.abc import Callable

import numpy as np
import tensorflow as tf
from tf_agents.trajectories import time_step as ts
from tf_agents.trajectories import trajectory
from tf_agents.typing import types

from nec_tf.agents.dqn.agent import DqnAgent
from nec_tf.agents.dqn.config import DqnConfig
from nec_tf.agents.learner import Learner
from nec_tf.replay.step_replay import StepReplay
from nec_tf.runtime.graphs import Graph


class DqnLearner(Learner):
    """Clips rewards, appends steps to the replay, and trains on minibatches of them.

    Attributes:
        replay: The steps that it trains on.
    """

    METRICS = (*Learner.METRICS, "replay", "loss")
    agent: DqnAgent
    replay: StepReplay

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec: types.NestedTensorSpec,
        embedding: tf.keras.Model,
        config: DqnConfig,
        seed: int,
        *,
        make_agent: Callable[..., DqnAgent] = DqnAgent,
        make_replay: Callable[..., StepReplay] = StepReplay,
    ) -> None:
        """Makes a learner with an empty replay.

        Args:
            time_step_spec: As in `DqnAgent`.
            action_spec: As in `DqnAgent`.
            embedding: As in `DqnAgent`.
            config: Settings.
            seed: Random seed of the agent and of the minibatches.
            make_agent: Takes what `DqnAgent` takes, and returns the agent.
            make_replay: Takes what `StepReplay` takes, and returns the replay.
        """
        updates = tf.Variable(0, trainable=False, dtype=tf.int64, name="updates")
        super().__init__(make_agent(time_step_spec, action_spec, embedding, config, seed, updates))
        self._config = config
        observation = self.agent.time_step_spec.observation
        self.replay = make_replay(
            config.replay_capacity, tuple(observation.shape), observation.dtype.as_numpy_dtype
        )
        self._rng = np.random.default_rng(seed)
        self._train = Graph(self.agent.train)
        self._steps = 0

    def observe(self, step: trajectory.Trajectory) -> None:
        """Takes one step of every environment, [B, ...], and makes the updates that are due."""
        clipped = np.clip(step.reward, -1.0, 1.0)  # Nature DQN
        self.replay.add(step._replace(reward=clipped))
        before = self._steps
        self._steps += int(np.sum(step.step_type != ts.StepType.LAST))
        period = self._config.update_period
        if before >= self._config.learning_starts:  # the steps before have a successor now
            for _ in range(self._steps // period - before // period):
                self._add_up({"updates": 1.0, "loss": self._update()})

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns what is saved beside the checkpoint: replay, random state and step counter."""
        rng = np.array(json.dumps(self._rng.bit_generator.state))
        return {**self.replay.state(), "rng": rng, "steps": np.array(self._steps)}

    def restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        """See `Learner`."""
        self.replay.restore(arrays)
        self.replay.end_streams()
        self._rng.bit_generator.state = json.loads(str(arrays["rng"]))
        self._steps = int(arrays["steps"])

    def _metrics_from(self, sums: dict[str, float]) -> dict[str, float]:
        metrics = {"replay": float(len(self.replay))}
        return metrics | ({"loss": sums["loss"] / sums["updates"]} if sums["updates"] else {})

    def _update(self) -> float:
        """Trains on a random minibatch and returns the loss."""
        info = self._train(self.replay.sample(self._rng, self._config.batch_size))
        return float(info.loss)
