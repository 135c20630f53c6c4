"""The training loop and its irreducible parts, measured in turns; see `benchmarks.loop`."""

import collections
import contextlib
import functools
import itertools
import math
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import psutil
import tensorflow as tf
from tf_agents.trajectories import time_step as ts
from tf_agents.utils import common

from benchmarks import real_keys
from benchmarks.lookup_measure import distinct
from nec_tf.experiments.registry import find_agent, make_learner
from nec_tf.experiments.tasks import atari_task
from nec_tf.memory.entries import Entries
from nec_tf.networks.encoders import FixedLength
from nec_tf.networks.precision import copy_in_bfloat16

GAME = "frostbite"  # all 18 actions do something in it
NUM_ACTIONS = 18
_STATES_PER_KEY = 1.6  # encoded states for each distinct key: some states repeat
_REPLAY = 10_000  # states before the first update, so that samples miss the caches as in a run
_WARM_UP = 250  # calls: traces the graphs; the first writes come after N = 100 steps
_STALL_STEPS = 600  # agent steps; within them every action's memory is written


class Subject:
    """An agent whose memories hold real keys, and the loop around it."""

    def __init__(self, name: str, entries: int, precision: str = "auto") -> None:
        """Makes a learner and fills its memory and, for NEC, its replay.

        Args:
            name: Name of the agent in the registry.
            entries: Entries of each action.
            precision: That of NEC's updates, see `NecConfig`.
        """
        tf.keras.utils.set_random_seed(0)
        tf.config.experimental.enable_op_determinism()  # as in every run
        self.name = name
        self.entries = entries
        self.task = atari_task(GAME)
        self.trains = name == "nec"
        kind = find_agent(name)
        config = kind.config(
            **({"learning_starts": 1, "precision": precision} if self.trains else {})
        )
        self.precision = config.precision if self.trains else "float32"
        self.learner: Any = make_learner(
            kind, self.task, self.task.environment(1, seed=0), config, seed=0
        )
        agent = self.learner.agent
        agent.exploration.end()
        self.parts = _Parts()
        self.parts.add_callables_of(agent.collect_policy, "numpy_action", "act")
        if entries:
            _fill_memory(agent, name, entries)
        if self.trains:
            agent.embedding_replaced()  # keeps the mean screen: nothing is written again
            _fill_replay(self.learner.replay)


class Row:
    """The loop of one agent with some number of environments."""

    def __init__(self, subject: Subject, num_envs: int) -> None:
        """Makes the environments and takes the first steps, which trace the graphs."""
        self._subject = subject
        self._num_envs = num_envs
        self._learner, self._agent = subject.learner, subject.learner.agent
        self._window = self._learner.new_window()
        self._environment = subject.task.environment(num_envs, seed=1)
        self._time_step: ts.TimeStep | None = None
        self._bare = _Bare(
            self._agent.embedding, subject.task.environment(num_envs, seed=2), subject.precision
        )
        period = self._agent.config.update_period if subject.trains else math.inf
        self._updates = num_envs / period  # for each call
        self._reset()
        self.turn(_WARM_UP * num_envs)
        self._reset()

    def _reset(self) -> None:
        self._in_parts: dict[str, float] = collections.defaultdict(float)
        self._seconds: list[float] = []  # of each call
        self._calls = 0
        self._bare.seconds.clear()

    def turn(self, steps: int) -> None:
        """Takes `steps` agent steps with the loop, then does the irreducible work of as many."""
        calls = steps // self._num_envs
        with self._subject.parts.timed(self._timed_methods(), self._in_parts):
            self._seconds += self._run(calls)
            if self._subject.trains:
                started = time.perf_counter()
                self._learner.finish_updates()
                self._seconds.append(time.perf_counter() - started)
        self._bare.run(calls, self._updates)
        self._calls += calls

    def result(self) -> dict[str, Any]:
        """Returns the row's figures, see `benchmarks.loop`."""
        total, taken = sum(self._seconds), self._calls * self._num_envs
        shares = {f"share_{part}": spent / total for part, spent in self._in_parts.items()}
        bare = self._bare.seconds
        return {
            "agent": self._subject.name,
            "num_envs": self._num_envs,
            "entries": self._subject.entries,
            "precision": self._subject.precision,
            "efficiency": sum(bare.values()) / total,
            "steps_per_s": taken / total,
            "frames_per_s": self._subject.task.frames_per_step * taken / total,
            "worst_step_s": max(*self._seconds, self._worst_stall()),
            "rss_gb": psutil.Process().memory_info().rss / 1e9,
            **{f"{part}_ms": 1e3 * spent / taken for part, spent in bare.items()},
            **shares,
            "share_python": 1.0 - sum(shares.values()),
        }

    def _run(self, calls: int) -> list[float]:
        """Returns the seconds of each call of the loop, which takes one step of every environment.

        All rows of a subject share its learner, and each has its own window.
        """
        self._learner.window = self._window
        seconds = []
        for _ in range(calls):
            started = time.perf_counter()
            self._time_step = self._learner.run(self._environment, 1, self._time_step)
            seconds.append(time.perf_counter() - started)
        return seconds

    def _worst_stall(self) -> float:
        """Returns the longest call, in seconds, while every action's index is due for a rebuild."""
        for index in self._agent.dnd.indices:
            index.request_rebuild()
        return max(self._run(-(-_STALL_STEPS // self._num_envs)))

    def _timed_methods(self) -> list[tuple[Any, str, str]]:
        """Returns methods to time: object, name of the method, part of the loop's time."""
        dnd = self._agent.dnd
        timed = [
            (self._environment, "step", "emulator"),
            (dnd, "candidates", "search"),
            (dnd, "sync", "index"),
            (self._agent, "write", "write"),
        ]
        for index in dnd.indices:
            timed += [(index, method, "index") for method in ("append", "move", "rebuild")]
        if self._subject.trains:
            timed += [
                (self._learner, "train_when_due", "train"),
                (self._learner, "finish_updates", "train"),
                (self._learner.replay, "add", "replay"),
            ]
        return timed


class _Bare:
    """The irreducible work: emulator, forward passes and training steps of the network.

    Attributes:
        seconds: Time so far, by part.
    """

    def __init__(self, embedding: tf.keras.Model, environment: Any, precision: str) -> None:
        self.seconds: dict[str, float] = collections.defaultdict(float)
        self._environment = environment
        self._observation = environment.reset().observation
        self._rng = np.random.default_rng(0)
        self._due = 0.0
        acting = tf.keras.models.clone_model(embedding)
        self._forward = common.function(functools.partial(acting, training=False))
        network = copy_in_bfloat16(embedding) if precision == "bfloat16" else acting
        optimizer = tf.compat.v1.train.RMSPropOptimizer(1e-6)

        def train(observations: tf.Tensor) -> None:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(network(observations, training=True)))
            variables = network.trainable_variables
            gradients = tape.gradient(loss, variables)
            optimizer.apply_gradients(zip(gradients, variables, strict=True))

        self._train = common.function(train)
        self._batch = tf.constant(next(real_keys.states(GAME, seed=3)).repeat(4, axis=0))

    def run(self, calls: int, updates: float) -> None:
        """Does the work of `calls` calls of the loop, with `updates` updates for each."""
        with self._time("emulator"):
            for _ in range(calls):
                action = self._rng.integers(0, NUM_ACTIONS, len(self._observation))
                self._environment.step(action)
        with self._time("forward"):
            for _ in range(calls):
                self._forward(tf.convert_to_tensor(self._observation)).numpy()
        self._due += updates * calls
        with self._time("training"):
            for _ in range(int(self._due)):
                self._train(self._batch)
        self._due -= int(self._due)

    @contextlib.contextmanager
    def _time(self, part: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds[part] += time.perf_counter() - started


class _Parts:
    """Measures time spent in methods, less the time that they spend in other timed methods."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] | None = None  # None while nothing is timed
        self._inner = [0.0]  # time in timed methods, for each level of calls

    @contextlib.contextmanager
    def timed(self, methods: list[tuple[Any, str, str]], seconds: dict[str, float]) -> Iterator:
        """Adds the time spent in methods to `seconds`, by part, until the context ends.

        Args:
            methods: Object, name of its method, part.
            seconds: Time by part.
        """
        for owner, name, part in methods:
            setattr(owner, name, self._wrap(getattr(owner, name), part))
        self._seconds = seconds
        yield
        self._seconds = None
        for owner, name, _ in methods:
            delattr(owner, name)  # the method of the class appears again

    def add_callables_of(self, owner: Any, name: str, part: str) -> None:
        """Times all callables that a method returns from now on."""
        make = getattr(owner, name)
        setattr(owner, name, lambda: self._wrap(make(), part))

    def _wrap(self, function: Callable[..., Any], part: str) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            seconds = self._seconds
            if seconds is None or threading.current_thread() is not threading.main_thread():
                return function(*args, **kwargs)  # in another thread, the loop does not wait here
            self._inner.append(0.0)
            started = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                spent = time.perf_counter() - started
                seconds[part] += spent - self._inner.pop()
                self._inner[-1] += spent

        return wrapped


def _fill_memory(agent: Any, name: str, entries: int) -> None:
    """Loads the same keys of real states for every action, with random values."""
    if name == "nec":
        weights, keys = real_keys.encoder().get_weights(), real_keys.load(real_keys.STATES)
        agent.embedding.set_weights(weights)
        if agent.config.key_length:  # the agent's network makes keys of this length
            keys = FixedLength(agent.config.key_length)(keys).numpy()
    else:
        keys = real_keys.collect(int(_STATES_PER_KEY * entries), agent.embedding, GAME)
    keys = distinct(keys)[:entries]
    if len(keys) < entries:
        raise ValueError(f"{entries} entries need as many distinct keys, and there are {len(keys)}")
    count = NUM_ACTIONS * entries
    agent.dnd.load_entries(
        Entries(
            actions=np.repeat(np.arange(NUM_ACTIONS), entries),
            keys=np.tile(keys, (NUM_ACTIONS, 1)),
            values=np.random.default_rng(0).normal(size=count).astype(np.float32),
            state_ids=np.arange(count),
            ages=np.arange(count)[::-1].copy(),
            rows=np.arange(1, 1 + count),
        )
    )
    assert (agent.dnd.sizes == entries).all(), "the memories did not take every key"


def _fill_replay(replay: Any) -> None:
    rng = np.random.default_rng(0)
    for states in itertools.islice(real_keys.states(GAME, seed=4), _REPLAY // 8):
        for stream, state in enumerate(states):
            replay.add(stream, state[None], rng.integers(0, NUM_ACTIONS, 1), rng.normal(size=1))
