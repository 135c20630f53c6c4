"""NEC as a whole: Algorithm 1 of the paper, see `NecLearner.run`."""

import functools
import json
import math

import numpy as np
import tensorflow as tf
from tf_agents.environments import py_environment
from tf_agents.trajectories import time_step as ts
from tf_agents.trajectories import trajectory
from tf_agents.typing import types

from nec_tf.agents.episodic_agent import Experience
from nec_tf.agents.episodic_learner import EpisodicLearner
from nec_tf.agents.learner import Observers
from nec_tf.agents.n_step_driver import numpy_action
from nec_tf.agents.n_step_window import NStepTuples, in_graphs
from nec_tf.agents.nec.agent import NecAgent
from nec_tf.agents.nec.config import NecLearnerConfig
from nec_tf.agents.nec.overlapped_updates import Minibatch, OverlappedUpdates
from nec_tf.memory.diagnostics import Diagnostics, diagnose
from nec_tf.memory.state_ids import hash_states
from nec_tf.replay.random_shifts import shifted
from nec_tf.replay.recent_ids import RecentIds
from nec_tf.replay.return_replay import Replay
from nec_tf.runtime.errors import UserError

_EMBEDDED = 64  # states that are embedded at a time
# With several environments several updates are due at once. So many groups of them may be computed
# beside a new one: with one group, all wait for the new one to look up; see docs/experiments.md.
_OVERLAPPED_GROUPS = 2
_DIAGNOSED = 64  # states whose lookups an evaluation diagnoses


class NecLearner(EpisodicLearner):
    """Writes to the memory and to the replay, and trains on minibatches from the replay.

    An update takes as long as several steps, so its gradients are computed in another thread while
    the environments are stepped (`OverlappedUpdates`). They are applied when the update after the
    next is due, or before the memory is written. This is counted in steps and does not depend on
    how long anything takes: the same seed gives the same run.

    Attributes:
        replay: `D`, the newest (state, action, return) tuples.
    """

    METRICS = (*EpisodicLearner.METRICS, "replay", "loss", "q", "error", *Diagnostics._fields)
    agent: NecAgent

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec: types.NestedTensorSpec,
        embedding: tf.keras.Model,
        config: NecLearnerConfig,
        seed: int,
    ) -> None:
        """Makes a learner with an empty memory and replay; arguments as in `NecAgent`."""
        super().__init__(NecAgent(time_step_spec, action_spec, embedding, config, seed))
        self._config = config
        observation = self.agent.time_step_spec.observation
        self.replay = Replay(
            config.replay_capacity, tuple(observation.shape), observation.dtype.as_numpy_dtype
        )
        self._ids = RecentIds(config.replay_capacity if config.left_out_steps else 0)
        if config.random_shifts and self.agent.mean_screen() is None:
            raise UserError("random_shifts needs observations that are screens")
        self._rng = np.random.default_rng(seed)
        self._updates = OverlappedUpdates(self.agent)
        # For each batch size: a graph is traced for one shape.
        self._act = functools.cache(lambda batch: numpy_action(self.agent.collect_policy))
        self._steps = 0

    def run(
        self,
        environment: py_environment.PyEnvironment,
        num_steps: int,
        time_step: ts.TimeStep | None = None,
        observers: Observers = (),
    ) -> ts.TimeStep:
        """Algorithm 1 of the paper. Arguments as in `Learner.run`."""
        act = self._act(environment.batch_size)
        time_step = environment.reset() if time_step is None else time_step
        for _ in range(num_steps):
            # Look up Q(s_t, a) in the memory M_a of every action; act epsilon-greedily.
            acted = act(time_step)
            # Take the action a_t; receive the reward r_t and the next state s_{t+1}.
            next_time_step = environment.step(acted.action)
            step = trajectory.from_transition(time_step, acted, next_time_step)
            for observe in observers:
                observe(step)
            # The N-step returns Q^(N)(s_t, a_t) that are known now, N steps after their states.
            for tuples in self.window.add(step):
                self.append_to_memory(tuples)  # (h_t, Q^(N)) to M_{a_t}
                self.append_to_replay(tuples)  # (s_t, a_t, Q^(N)) to D
            # Train on a random minibatch from D: the network, and the keys and values of M.
            self.train_when_due(step)
            time_step = next_time_step
        return time_step

    @in_graphs
    def observe(self, step: trajectory.Trajectory) -> None:
        """Does what `run` does after a step, for drivers that act and step on their own."""
        for tuples in self.window.add(step):
            self.append_to_memory(tuples)
            self.append_to_replay(tuples)
        self.train_when_due(step)

    def append_to_memory(self, tuples: NStepTuples) -> None:
        """Writes (`h_t`, `Q^(N)`) to the memory of each action taken."""
        self.finish_updates()  # nothing may change the memory while an update reads it
        super().append_to_memory(tuples)

    def append_to_replay(self, tuples: NStepTuples) -> None:
        """Appends (`s_t`, `a_t`, `Q^(N)`) to the replay."""
        self.replay.add(tuples.stream, tuples.observations, tuples.actions, tuples.returns)
        if self._config.left_out_steps:
            self._ids.add(hash_states(tuples.observations))

    def train_when_due(self, step: trajectory.Trajectory) -> None:
        """Counts the steps of a batch of environments and begins the updates that are due."""
        before = self._steps
        self._steps += int(np.sum(step.step_type != ts.StepType.LAST))
        period = self._config.update_period
        due = self._steps // period - before // period
        if due and len(self.replay) >= self._config.learning_starts:
            if not self.agent.screens_centred:
                self._centre_screens()
            self._begin_updates(due)

    def finish_updates(self) -> None:
        """Applies all updates whose gradients are being computed."""
        self._finish_all_but(0)

    def diagnose(self, seed: int) -> dict[str, float]:
        """Returns the health of the memory on states drawn from the replay; unknowns left out."""
        rebuilt = super().diagnose(seed)
        if not len(self.replay):
            return rebuilt
        sample = self.replay.sample(np.random.default_rng(seed), _DIAGNOSED)
        keys = self._embed(sample.observations)
        ids = hash_states(sample.observations)
        found = diagnose(self.agent.dnd, keys, sample.actions, sample.returns, ids)
        known = {name: value for name, value in found._asdict().items() if math.isfinite(value)}
        return rebuilt | known

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns what is saved beside the checkpoint: replay, random state and step counter."""
        return {
            **self.replay.state(),
            **(self._ids.state() if self._config.left_out_steps else {}),
            "rng": np.array(json.dumps(self._rng.bit_generator.state)),
            "steps": np.array(self._steps),
        }

    def restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        """See `Learner`."""
        self.replay.restore(arrays)
        if self._config.left_out_steps:
            self._ids.restore(arrays)
        self._rng.bit_generator.state = json.loads(str(arrays["rng"]))
        self._steps = int(arrays["steps"])

    def _metrics_from(self, sums: dict[str, float]) -> dict[str, float]:
        updates = sums["updates"]
        means = {name: sums[name] / updates for name in ("loss", "q", "error")} if updates else {}
        return {**super()._metrics_from(sums), "replay": float(len(self.replay)), **means}

    def _centre_screens(self) -> None:
        """Subtracts the mean of all states so far, and writes them again with their new keys."""
        agent = self.agent
        agent.centre_screens(sample.observations for sample in self.replay.in_batches(_EMBEDDED))
        agent.dnd.clear()
        for sample in self.replay.in_batches(_EMBEDDED):
            keys = self._embed(sample.observations)
            agent.write(NStepTuples(0, *sample, keys))
        self.window.replace_keys(self._embed)

    def _embed(self, observations: np.ndarray) -> np.ndarray:
        return self.agent.averaged_network(observations, training=False).numpy()

    def _begin_updates(self, count: int) -> None:
        """Begins to compute gradients of random minibatches; applies those that are due by now."""
        drawn = [self._draw() for _ in range(count)]
        self._finish_all_but(count if count == 1 else _OVERLAPPED_GROUPS * count)
        self._updates.begin([functools.partial(self._minibatch, *draw) for draw in drawn])

    def _draw(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Draws the states of a minibatch, [B], and the shifts of their screens, [B, 2]."""
        states = self.replay.draw(self._rng, self._config.batch_size)
        most = self._config.random_shifts
        shifts = self._rng.integers(-most, most + 1, [len(states), 2]) if most else None
        return states, shifts

    def _minibatch(self, states: np.ndarray, shifts: np.ndarray | None) -> Minibatch:
        sample = self.replay.get(states)
        mean = self.agent.mean_screen()
        if shifts is not None and mean is not None:
            screens = shifted(sample.observations, mean, shifts)
            sample = sample._replace(observations=screens)
        left_out = self._ids.around(states, self._config.left_out_steps)
        return Minibatch(Experience(*sample, np.ones(len(states), bool)), left_out)

    def _finish_all_but(self, count: int) -> None:
        """Applies the oldest updates until `count` are left."""
        while len(self._updates) > count:
            info = self._updates.finish_oldest()
            loss, q, error = float(info.loss), float(info.extra.q), float(info.extra.error)
            self._add_up({"updates": 1.0, "loss": loss, "q": q, "error": error})
