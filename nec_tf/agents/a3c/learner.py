"""A3C as experiments run it: one actor-learner for each environment, in processes or in turn."""

import itertools
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging
from tf_agents.environments import py_environment
from tf_agents.trajectories import time_step as ts
from tf_agents.trajectories import trajectory
from tf_agents.typing import types

from nec_tf.agents.a3c.agent import A3cAgent
from nec_tf.agents.a3c.config import A3cConfig
from nec_tf.agents.a3c.policy import ALGORITHM
from nec_tf.agents.a3c.processes import ProcessWorkers
from nec_tf.agents.a3c.worker import InProcess, Played, Worker
from nec_tf.agents.learner import Learner, Observers

_NO_FACTORIES = (
    "A3C's workers take turns in one process, because environments were given as objects: give"
    " functions that build them to GymnasiumEnvironment for one process each"
)


class A3cLearner(Learner):
    """Runs the workers and waits for all of them at the end of each `run`.

    Each worker has its own process (`ProcessWorkers`). Between two calls of `run` no worker runs;
    rollouts that are not complete go on in the next call. Environments must be given as functions
    that build them, as the tasks of the registry are.

    With `config.deterministic`, or a single environment, the workers take turns in this process,
    each up to its next update. The same seed then gives the same run.
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
        self._workers: list[Worker] = []  # of this process
        self._processes: ProcessWorkers | None = None
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
        factories = [environment.member_factory(i) for i in range(environment.batch_size)]
        in_turn = self._config.deterministic or len(factories) == 1
        if not in_turn and None in factories:
            logging.log_first_n(logging.WARNING, _NO_FACTORIES, 1)
            in_turn = True
        play = self._play_in_turn if in_turn else self._play_in_processes
        played = play(environment, num_steps, time_step is None)
        for part in played:
            self._add_up(part.sums._asdict())
        for i in range(num_steps):
            step = tf.nest.map_structure(
                lambda *parts, i=i: np.stack([part[i] for part in parts]),
                *(part.steps for part in played),
            )
            for observe in observers:
                observe(step)
        together = zip(*(part.time_step for part in played), strict=True)
        return ts.TimeStep(*map(np.concatenate, together))

    def _play_in_turn(self, environment: Any, num_steps: int, reset: bool) -> list[Played]:
        """Plays with all workers in this thread, one update of each after the other."""
        workers = self._workers_for(environment.batch_size)
        if reset:
            environment.reset()
            for worker in workers:
                worker.restart()
        steps: list[list[trajectory.Trajectory]] = [[] for _ in workers]
        plays = [
            worker.play(environment, member, num_steps, steps[member])
            for member, worker in enumerate(workers)
        ]
        for _ in itertools.zip_longest(*plays):
            pass
        return [
            worker.played(environment, member, steps[member])
            for member, worker in enumerate(workers)
        ]

    def _play_in_processes(self, environment: Any, num_steps: int, reset: bool) -> list[Played]:
        """Plays with all workers at the same time, each in its process."""
        if self._processes is None:
            count = environment.batch_size
            states = np.stack([generator.state.numpy() for generator in self._generators(count)])
            factories = [environment.member_factory(i) for i in range(count)]
            self._processes = ProcessWorkers(self.agent, factories, states)
        return self._processes.run(num_steps, environment.take_seeds() if reset else None)

    def observe(self, step: trajectory.Trajectory) -> None:
        """Learns from one step of every environment, [B, ...], of a driver that acts on its own."""
        for member, worker in enumerate(self._workers_for(len(step.reward))):
            row = tf.nest.map_structure(lambda part, i=member: part[i : i + 1], step)
            if worker.update_due:
                worker.update(ts.TimeStep(row.step_type, row.reward, row.discount, row.observation))
                self._add_up(worker.take_sums()._asdict())
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
        if self._processes is not None:
            return {"worker_states": self._processes.states}
        states = [worker.generator.state.numpy() for worker in self._workers]
        return {"worker_states": np.array(states)} if states else {}

    def restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        """See `Learner`. New workers copy the restored weights."""
        self._workers = []
        self._processes = None
        self._restored_states = arrays.get("worker_states")

    def _metrics_from(self, sums: dict[str, float]) -> dict[str, float]:
        metrics = {"learning_rate": float(self.agent.learning_rate())}
        steps = sums.pop("steps", 0.0)
        return metrics | ({name: sums[name] / steps for name in sums} if steps else {})

    def _workers_for(self, count: int) -> list[Worker]:
        """Returns one worker for each of `count` environments; made once."""
        if len(self._workers) != count:
            self._workers = [self._worker(generator) for generator in self._generators(count)]
        return self._workers

    def _worker(self, generator: tf.random.Generator) -> Worker:
        network = tf.keras.models.clone_model(self.agent.network)
        exchange = InProcess(self.agent, network)
        return Worker(network, exchange, self._config.t_max, generator)

    def _generators(self, count: int) -> list[tf.random.Generator]:
        """Returns the random numbers of each worker, as restored or new."""
        states = self._restored_states
        if states is None or len(states) != count:
            return self.agent.split_generator(count)
        return [tf.random.Generator.from_state(state, ALGORITHM) for state in states]
