"""Workers in processes of their own: an emulator's step holds Python's lock, so threads wait."""

import contextlib
import multiprocessing
import multiprocessing.connection
import signal
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import cloudpickle
import numpy as np
import tensorflow as tf
from tf_agents.trajectories import trajectory

from nec_tf.agents.a3c.agent import A3cAgent
from nec_tf.agents.a3c.config import A3cConfig
from nec_tf.agents.a3c.gradients import clipped_gradients
from nec_tf.agents.a3c.loss import A3cLoss
from nec_tf.agents.a3c.policy import ALGORITHM
from nec_tf.agents.a3c.shared_weights import SharedWeights
from nec_tf.agents.a3c.worker import Members, Played, Worker
from nec_tf.runtime.errors import UserError
from nec_tf.runtime.graphs import Graph

_NOT_SHARED_YET = (-1, -1)  # steps and updates


class _Plan(NamedTuple):
    """What a process needs to make its worker."""

    network: str
    config: A3cConfig
    state: np.ndarray
    make_environment: Callable[[], Members]


class _Order(NamedTuple):
    """What a process has to do: `num_steps` steps, after a reset with `seed` if `reset`."""

    num_steps: int
    reset: bool
    seed: int | None


class _Failure(NamedTuple):
    """Why a process did not play: a message, and whether it is a sentence for the user."""

    message: str
    is_sentence: bool = False


class ProcessWorkers:
    """One process for each environment; between two calls of `run` none of them does anything.

    Attributes:
        states: Random states of the workers after the last `run`, [B, 3].
    """

    def __init__(
        self, agent: A3cAgent, make_environments: list[Callable[[], Members]], states: np.ndarray
    ) -> None:
        """Starts the processes.

        Args:
            agent: Its weights, statistics and counters are shared.
            make_environments: Returns an environment of one member, for each worker.
            states: Random states, [B, 3].
        """
        self._agent = agent
        self.states = states
        # Not forked: TensorFlow's threads would be missing in the copy.
        context = multiprocessing.get_context("spawn")
        with _signals_left_to_the_loop():  # its lock starts Python's resource tracker
            self._shared = SharedWeights(context, len(_flat(agent.network.trainable_variables)))
        self._shared.steps_and_updates = _NOT_SHARED_YET
        self._pipes: list[multiprocessing.connection.Connection] = []
        network = agent.network.to_json()
        for make_environment, state in zip(make_environments, states, strict=True):
            ours, theirs = context.Pipe()
            plan = cloudpickle.dumps(_Plan(network, agent.config, state, make_environment))
            process = context.Process(
                target=_serve, args=(theirs, self._shared, plan), name="a3c", daemon=True
            )
            with _signals_left_to_the_loop():
                process.start()
            theirs.close()  # so that a process that ends is noticed
            self._pipes.append(ours)

    def run(self, num_steps: int, seeds: list[int | None] | None) -> list[Played]:
        """Lets all workers play and waits for them.

        Args:
            num_steps: Steps of each worker.
            seeds: None continues the episodes; else the environments are reset first, each with its
                seed if that is not None.
        """
        self._share()
        for pipe, seed in zip(self._pipes, seeds or [None] * len(self._pipes), strict=True):
            with contextlib.suppress(OSError):  # of a process that ended: `_receive` says so
                pipe.send(_Order(num_steps, seeds is not None, seed))
        answers = [_receive(pipe) for pipe in self._pipes]
        self._take_back()
        played: list[Played] = []
        for answer in answers:
            if isinstance(answer, _Failure):
                if answer.is_sentence:
                    raise UserError(answer.message)
                raise RuntimeError(f"a worker of A3C failed:\n{answer.message}")
            played.append(answer)
        self.states = np.stack([part.state for part in played])
        return played

    def _share(self) -> None:
        """Copies the agent to the shared memory if the agent was restored or trained meanwhile."""
        agent, shared = self._agent, self._shared
        if shared.steps_and_updates == (int(agent.steps), int(agent.train_step_counter)):
            return  # as `_take_back` left it
        shared.weights[:] = _flat(agent.network.trainable_variables)
        shared.mean_squares[:] = _flat(agent.optimizer.mean_squares)
        shared.steps_and_updates = int(agent.steps), int(agent.train_step_counter)

    def _take_back(self) -> None:
        """Copies the shared memory to the agent, which evaluates, saves and exports."""
        agent, shared = self._agent, self._shared
        _assign(agent.network.trainable_variables, shared.weights)
        _assign(agent.optimizer.mean_squares, shared.mean_squares)
        steps, updates = shared.steps_and_updates
        agent.steps.assign(steps)
        agent.train_step_counter.assign(updates)


class _Shared:
    """An exchange with memory that processes share."""

    def __init__(self, network: tf.keras.Model, shared: SharedWeights, config: A3cConfig) -> None:
        self._variables = network.trainable_variables
        self._shared = shared
        self._config = config
        self._network = network
        self._gradient = Graph(self._gradient_in_graph)
        self._copy = Graph(lambda flat: _assign(self._variables, flat))

    def copy_weights(self) -> None:
        """See `Exchange`."""
        self._copy(self._shared.weights)

    def update(self, experience: trajectory.Trajectory) -> np.ndarray:
        """See `Exchange`."""
        parts, gradient = self._gradient(experience)
        parts = parts.numpy()
        steps = round(float(A3cLoss(*parts).steps))
        self._shared.apply(gradient.numpy(), steps, self._config)
        self.copy_weights()
        return parts

    def _gradient_in_graph(self, experience: trajectory.Trajectory) -> tuple[tf.Tensor, tf.Tensor]:
        info, gradients = clipped_gradients(self._network, experience, self._config)
        return tf.stack(info.extra), tf.concat([tf.reshape(g, [-1]) for g in gradients], axis=0)


def _serve(pipe: multiprocessing.connection.Connection, shared: SharedWeights, plan: bytes) -> None:
    """Plays as ordered until the pipe is closed; the body of a process."""
    # Blocked from the start on, unless Python's resource tracker unblocked them on the way.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    tf.config.threading.set_intra_op_parallelism_threads(1)  # the other cores have their workers
    tf.config.threading.set_inter_op_parallelism_threads(1)
    worker, environment = None, None
    while True:
        try:
            order = pipe.recv()
        except EOFError:
            return
        try:
            if worker is None or environment is None:
                worker, environment = _make(shared, cloudpickle.loads(plan))
            pipe.send(_play(worker, environment, order))
        except UserError as error:
            pipe.send(_Failure(str(error), is_sentence=True))
        except Exception:
            pipe.send(_Failure(traceback.format_exc()))


def _make(shared: SharedWeights, plan: _Plan) -> tuple[Worker, Members]:
    network = tf.keras.models.model_from_json(plan.network)
    generator = tf.random.Generator.from_state(plan.state, ALGORITHM)
    exchange = _Shared(network, shared, plan.config)
    return Worker(network, exchange, plan.config.t_max, generator), plan.make_environment()


def _play(worker: Worker, environment: Any, order: _Order) -> Played:
    if order.reset:
        if order.seed is not None:
            environment.seed(order.seed)
        environment.reset()
        worker.restart()
    steps: list[trajectory.Trajectory] = []
    for _ in worker.play(environment, 0, order.num_steps, steps):
        pass
    return worker.played(environment, 0, steps)


def _receive(pipe: multiprocessing.connection.Connection) -> Played | _Failure:
    try:
        return pipe.recv()
    except (EOFError, OSError):
        return _Failure("its process ended: it was killed, or its environment crashed")


@contextlib.contextmanager
def _signals_left_to_the_loop() -> Iterator[None]:
    """Lets processes that are started meanwhile ignore Ctrl-C and a closed terminal.

    Both reach all processes of a terminal, from their first moment on. The loop notes them and
    saves once all workers have stopped.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGHUP))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _flat(variables: list[tf.Variable]) -> np.ndarray:
    """Returns all numbers of variables, [size]."""
    return np.concatenate([variable.numpy().ravel() for variable in variables])


def _assign(variables: list[tf.Variable], flat: Any) -> None:
    """Assigns numbers [size] to variables."""
    start = 0
    for variable in variables:
        size = variable.shape.num_elements()
        variable.assign(tf.reshape(flat[start : start + size], variable.shape))
        start += size
