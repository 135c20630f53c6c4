"""Prioritised Replay as experiments run it: algorithm 1 of Schaul et al. (2016)."""

import functools

import numpy as np
import tensorflow as tf
from tf_agents.trajectories import time_step as ts
from tf_agents.typing import types

from nec_tf.agents.dqn.learner import DqnLearner
from nec_tf.agents.prioritised.agent import DoubleDqnAgent
from nec_tf.agents.prioritised.config import PrioritisedConfig
from nec_tf.replay.prioritised_replay import PrioritisedReplay


class PrioritisedLearner(DqnLearner):
    """The learner of DQN, with another agent and another replay."""

    METRICS = (*DqnLearner.METRICS, "importance_exponent")
    replay: PrioritisedReplay
    _config: PrioritisedConfig

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec: types.NestedTensorSpec,
        embedding: tf.keras.Model,
        config: PrioritisedConfig,
        seed: int,
    ) -> None:
        """Makes a learner with an empty replay; arguments as in `DqnLearner`."""
        super().__init__(
            time_step_spec,
            action_spec,
            embedding,
            config,
            seed,
            make_agent=DoubleDqnAgent,
            make_replay=functools.partial(
                PrioritisedReplay, priority_exponent=config.priority_exponent
            ),
        )

    @property
    def importance_exponent(self) -> float:
        """Returns beta, which grows linearly with the steps from its initial value to 1."""
        start = self._config.importance_exponent
        done = min(self._steps / self._config.importance_until, 1.0)
        return start + (1.0 - start) * done

    def _metrics_from(self, sums: dict[str, float]) -> dict[str, float]:
        return super()._metrics_from(sums) | {"importance_exponent": self.importance_exponent}

    def _update(self) -> float:
        """Trains on steps drawn by priority, and gives them their new priorities."""
        steps = self.replay.draw(self._rng, self._config.batch_size)
        weights = self.replay.importance_weights(steps, self.importance_exponent)
        info = self._train(self.replay.get(steps), weights)
        errors = np.abs(info.extra.td_error.numpy()).astype(np.float64)
        self.replay.set_priorities(steps, errors + self._config.priority_floor)
        return float(info.loss)
