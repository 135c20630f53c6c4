"""A3C as experiments run it: one actor-learner for each environment, in threads or in turn."""

import collections
import concurrent.futures
import itertools
from collections.abc import Iterator

import numpy as np
import tensorflow as tf
from tf_agents.environments import py_environment
from tf_agents.trajectories import time_step as ts
from tf_agents.trajectories import trajectory
from tf_agents.typing import types

from nec_tf.agents.a3c.agent import A3cAgent
from nec_tf.agents.a3c.config import A3cConfig
from nec_tf.agents.a3c.loss import A3cLoss
from nec_tf.agents.a3c.worker import Worker
from nec_tf.agents.learner import Learner, Observers

_ALGORITHM = "philox"  # of random numbers: `tf.random.Generator`'s default on all processors


class A3cLearner(Learner):
    """Runs the workers and waits for all of them at the end of each `run`.

    Threads, and not processes: environments and TensorFlow compute without Python's lock. Between
    two calls of `run` no worker runs; rollouts that are not complete go on in the next call.

    With `config.deterministic` the workers take turns, each up to its next update. The same seed
    then gives the same run; with threads it gives the same start only.
    """

    METRICS = ("entropy", "policy_loss", "value_loss", "value", "learning_rate")
    agent: A3cAgent

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec: types.NestedTensorSpec,
        embedding: tf.keras.Model,
        config: A3cConfig,
        seed: int,
    ) -> None:
        """Makes a learner without workers; arguments as in `A3cAgent`."""
        super().__init__(A3cAgent(time_step_spec, action_spec, embedding, config, seed))
        self._config = config
        self._workers: list[Worker] = []
        self._restored_states: np.ndarray | None = None

    def run(
        self,
        environment: py_environment.PyEnvironment,
        num_steps: int,
        time_step: ts.TimeStep | None = None,
        observers: Observers = (),
    ) -> ts.TimeStep:
        """Acts and learns in every member of a `GymnasiumEnvironment`, each at its own pace.

        Args:
            environment: A batch of environments that can be stepped one by one.
            num_steps: Steps of each member.
            time_step: None resets the environments; else they continue where they are.
            observers: Called with the steps, [B, ...], in order, after all workers have stopped.

        Returns:
            The time step to continue from.
        """
        if time_step is None:
            environment.reset()
        workers = self._workers_for(environment.batch_size)
        if time_step is None:
            for worker in workers:
                worker.restart()
        steps: list[list[trajectory.Trajectory]] = [[] for _ in workers]
        plays = [
            worker.play(environment, member, num_steps, steps[member])
            for member, worker in enumerate(workers)
        ]
        if self._config.deterministic or len(workers) == 1:
            for _ in itertools.zip_longest(*plays):  # one update of each worker
                pass
        else:
            _run_in_threads(plays)
        for worker in workers:
            self._add_up(worker.take_sums())
        for rows in zip(*steps, strict=True):
            step = tf.nest.map_structure(lambda *parts: np.concatenate(parts), *rows)
            for observe in observers:
                observe(step)
        return ts.TimeStep(*map(np.copy, environment.current_time_step()))

    def observe(self, step: trajectory.Trajectory) -> None:
        """Learns from one step of every environment, [B, ...], of a driver that acts on its own."""
        for member, worker in enumerate(self._workers_for(len(step.reward))):
            row = tf.nest.map_structure(lambda part, i=member: part[i : i + 1], step)
            if worker.update_due:
                worker.update(ts.TimeStep(row.step_type, row.reward, row.discount, row.observation))
                self._add_up(worker.take_sums())
            worker.append(row)

    def metrics(self) -> dict[str, float]:
        """Returns means of a step since the last call, and the learning rate."""
        sums = dict(self._sums)
        self._sums.clear()
        return self._metrics_from(sums)

    def begin_evaluation(self, seed: int) -> None:
        """Seeds the random numbers of the evaluation policy."""
        self.agent.evaluation_generator.reset_from_seed(seed)

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns what is saved beside the checkpoint: the workers' random states, [B, 3]."""
        states = [worker.generator.state.numpy() for worker in self._workers]
        return {"worker_states": np.array(states)} if states else {}

    def restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        """See `Learner`. New workers copy the restored weights."""
        self._workers = []
        self._restored_states = arrays.get("worker_states")

    def _metrics_from(self, sums: dict[str, float]) -> dict[str, float]:
        metrics = {"learning_rate": float(self.agent.learning_rate())}
        steps = sums.pop("steps", 0.0)
        return metrics | ({name: sums[name] / steps for name in sums} if steps else {})

    def _workers_for(self, count: int) -> list[Worker]:
        """Returns one worker for each of `count` environments; made once."""
        if len(self._workers) != count:
            self._workers = [Worker(self.agent, generator) for generator in self._generators(count)]
        return self._workers

    def _generators(self, count: int) -> list[tf.random.Generator]:
        """Returns the random numbers of each worker, as restored or new."""
        states = self._restored_states
        if states is None or len(states) != count:
            return self.agent.split_generator(count)
        return [tf.random.Generator.from_state(state, _ALGORITHM) for state in states]

    def _add_up(self, sums: A3cLoss) -> None:
        for name, value in sums._asdict().items():
            self._sums[name] += value


def _run_in_threads(plays: list[Iterator[None]]) -> None:
    """Runs each worker to its end in a thread of its own, and waits for all."""
    with concurrent.futures.ThreadPoolExecutor(len(plays), "a3c") as threads:
        futures = [threads.submit(collections.deque, play, 0) for play in plays]
    for future in futures:
        future.result()  # raises what the worker raised
