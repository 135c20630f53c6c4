"""NEC as a whole: Algorithm 1 of the paper, around its agent, its replay and its N-step window.

An update takes as long as several steps. Its gradients are computed by a thread of their own, from
the network and the memory as they are when it is due, while the environment is stepped on; they are
applied when the next update is due, or before the memory is written. What acts in between acts on
the network before the update. Updates are due in pairs, and those that are due at once start from
the same network. When which of this happens is counted in steps and never asks how long something
took: the same seed gives the same run.
"""

import json
import math
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import tensorflow as tf
from tf_agents.trajectories import time_step as ts
from tf_agents.trajectories import trajectory
from tf_agents.typing import types

from nec_tf import embeddings
from nec_tf.episodic_agent import Experience
from nec_tf.episodic_learner import EpisodicLearner
from nec_tf.graphs import Graph
from nec_tf.mechanics import Mechanics, inspect
from nec_tf.n_step_driver import NStepTuples
from nec_tf.nec_agent import Gradients, NecAgent
from nec_tf.nec_config import NecConfig
from nec_tf.replay import Replay

# Updates that begin together, each in a thread of its own: every eighth step two instead of every
# fourth step one. Two cores are then busy all the time, where one update alone kept acting waiting
# for its end: 11.4 to 13.7 ms a step instead of 15.4 to 16.2 (measured, see docs/results.md).
_AT_ONCE = 2
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
        # One thread for each: with more, those of two updates and of acting stood in each other's
        # way on two cores (measured, see docs/results.md).
        self._gradients = Graph(self.agent.gradients, inline=True)
        self._in_turn = [Graph(self._apply_in_turn) for _ in range(_AT_ONCE)]  # of 1, 2, ...
        self._worker = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="update")
        self._pending: list[Future] = []
        self._rng_before: Mapping[str, Any] = {}  # the pending updates drew their minibatches
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

        Pending updates are saved as ones that are still to be begun.
        """
        pending = len(self._pending)
        rng = self._rng_before if pending else self._rng.bit_generator.state
        return {
            **self._replay.state(),
            "rng": np.array(json.dumps(rng)),
            "steps": np.array(self._steps),
            "pending": np.array(pending),
        }

    def restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        """See `EpisodicLearner`."""
        self._replay.restore(arrays)
        self._rng.bit_generator.state = json.loads(str(arrays["rng"]))
        self._steps = int(arrays["steps"])
        self._begin_updates(int(arrays.get("pending", 0)))

    def _learn(self, experience: trajectory.Trajectory) -> None:
        """Takes a step and makes the updates that are due."""
        super()._learn(experience)
        before = self._steps
        self._steps += int(np.sum(experience.step_type != ts.StepType.LAST))
        if len(self._replay) >= self._config.learning_starts:
            period = self._config.update_period * _AT_ONCE
            self._begin_updates((self._steps // period - before // period) * _AT_ONCE)

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

    def _begin_updates(self, count: int) -> None:
        """Begins to compute gradients of random minibatches; nothing they read may change."""
        if not count:
            return
        self._finish_updates()
        self.agent.dnd.settle()
        self._rng_before = self._rng.bit_generator.state
        size = self._config.batch_size
        for _ in range(count):
            experience = Experience(*self._replay.sample(self._rng, size), np.ones(size, bool))
            self._pending.append(self._worker.submit(self._gradients, experience))

    def _finish_updates(self) -> None:
        """Applies the gradients that are under way, if there are any."""
        # All of them first: what one moves, another may still be reading.
        computed = [update.result() for update in self._pending]
        self._pending = []
        for first in range(0, len(computed), _AT_ONCE):
            self._apply([gradients for _, gradients in computed[first : first + _AT_ONCE]])
        for info, _ in computed:
            self._sums["updates"] += 1
            self._sums["loss"] += float(info.loss)
            self._sums["q"] += float(info.extra.q)
            self._sums["error"] += float(info.extra.error)

    def _apply(self, updates: list[Gradients]) -> None:
        """Applies at most `_AT_ONCE` updates, in one graph: variables do not wait for others."""
        self._in_turn[len(updates) - 1](*updates)

    def _apply_in_turn(self, *updates: Gradients) -> None:
        for gradients in updates:
            self.agent.apply(gradients)
