"""NEC as a whole: Algorithm 1 of the paper, around its agent, its replay and its N-step window.

An update takes as long as several steps. Its gradients are computed by a thread of its own, from
the network and the memory as they are when it is due, while the environment is stepped on; they are
applied when the update after the next is due (several environments make several due at a time: then
when the third group after it is), or before the memory is written. What acts in between acts on the
network before the update. When which of this happens is counted in steps and never asks how long
something took: the same seed gives the same run.
"""

import functools
import json
import math

import numpy as np
import tensorflow as tf
from tf_agents.trajectories import time_step as ts
from tf_agents.trajectories import trajectory
from tf_agents.typing import types

from nec_tf import embeddings
from nec_tf.episodic_agent import Experience
from nec_tf.episodic_learner import EpisodicLearner
from nec_tf.mechanics import Mechanics, inspect
from nec_tf.n_step_driver import NStepTuples
from nec_tf.nec_agent import NecAgent
from nec_tf.nec_config import NecConfig
from nec_tf.replay import Replay
from nec_tf.updates import UpdatesUnderWay

_EMBEDDED = 64  # states at a time
# Groups of updates that are under way beside a new one, where several environments make several
# due at a time: with one, everybody waits for the new ones to look up; see docs/experiments.md.
_GROUPS_UNDER_WAY = 2
_INSPECTED = 64  # states whose lookups an evaluation looks into


class NecLearner(EpisodicLearner):
    """Writes to the memory and to the replay, and trains on minibatches of the latter."""

    METRICS = (*EpisodicLearner.METRICS, "replay", "loss", "q", "error", *Mechanics._fields)

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec: types.NestedTensorSpec,
        embedding: tf.keras.Model,
        config: NecConfig,
        seed: int,
    ) -> None:
        """A learner that knows nothing yet; arguments as in `NecAgent`."""
        if config.key_length:
            embedding = embeddings.of_length(embedding, config.key_length)
        super().__init__(NecAgent(time_step_spec, action_spec, embedding, config, seed))
        self._config = config
        observation = self.agent.time_step_spec.observation
        self._replay = Replay(
            config.replay_capacity, tuple(observation.shape), observation.dtype.as_numpy_dtype
        )
        self._rng = np.random.default_rng(seed)
        self._updates = UpdatesUnderWay(self.agent)
        self._steps = 0
        self._mechanics: dict[str, float] = {}

    def begin_evaluation(self, seed: int) -> None:
        """See `EpisodicLearner`; also looks into the memory, for the next `metrics`."""
        super().begin_evaluation(seed)
        if len(self._replay):
            sample = self._replay.sample(np.random.default_rng(seed), _INSPECTED)
            mechanics = inspect(self.agent, sample)._asdict()
            self._mechanics = {k: v for k, v in mechanics.items() if math.isfinite(v)}

    def arrays(self) -> dict[str, np.ndarray]:
        """What is saved beside the checkpoint: the replay, the source of its samples, a counter.

        Updates that are under way are finished first.
        """
        self._finish_updates()
        return {
            **self._replay.state(),
            "rng": np.array(json.dumps(self._rng.bit_generator.state)),
            "steps": np.array(self._steps),
        }

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
        period = self._config.update_period
        due = self._steps // period - before // period
        if due and len(self._replay) >= self._config.learning_starts:
            if not self.agent.screens_centred:
                self._centre_screens()
            self._begin_updates(due)

    def _more_metrics(self, sums: dict[str, float]) -> dict[str, float]:
        updates = sums["updates"]
        means = {name: sums[name] / updates for name in ("loss", "q", "error")} if updates else {}
        mechanics, self._mechanics = self._mechanics, {}
        return {"replay": float(len(self._replay)), **means, **mechanics}

    def _remember(self, tuples: NStepTuples) -> None:
        """Appends to the memory and to the replay."""
        self._finish_updates()
        super()._remember(tuples)
        self._replay.add(tuples.stream, tuples.observations, tuples.actions, tuples.returns)

    def _centre_screens(self) -> None:
        """Takes the mean of all states so far off, and writes them again with their new keys."""
        agent = self.agent
        agent.centre_screens(sample.observations for sample in self._replay.in_batches(_EMBEDDED))
        agent.dnd.clear()
        for sample in self._replay.in_batches(_EMBEDDED):
            keys = self._embed(sample.observations)
            agent.write(NStepTuples(0, *sample, keys))
        self._observer.replace_keys(self._embed)

    def _embed(self, observations: np.ndarray) -> np.ndarray:
        return self.agent.embedding(observations, training=False).numpy()

    def _begin_updates(self, count: int) -> None:
        """Begins to compute gradients of random minibatches; finishes those that are due by now."""
        drawn = [self._replay.draw(self._rng, self._config.batch_size) for _ in range(count)]
        self._finish_updates(all_but=count if count == 1 else _GROUPS_UNDER_WAY * count)
        self._updates.begin([functools.partial(self._minibatch, states) for states in drawn])

    def _minibatch(self, states: np.ndarray) -> Experience:
        return Experience(*self._replay.get(states), np.ones(len(states), bool))

    def _finish_updates(self, all_but: int = 0) -> None:
        """Applies the gradients that are under way, the oldest first, but for so many."""
        while len(self._updates) > all_but:
            info = self._updates.finish_oldest()
            self._sums["updates"] += 1
            self._sums["loss"] += float(info.loss)
            self._sums["q"] += float(info.extra.q)
            self._sums["error"] += float(info.extra.error)
