"""The training loop and its irreducible parts, timed in turns; see `benchmarks.loop`."""

import collections
import contextlib
import functools
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import psutil
import tensorflow as tf
from tf_agents.utils import common

from benchmarks import real_keys
from benchmarks.lookup_measure import distinct
from nec_tf.agents.n_step_driver import NStepDriver
from nec_tf.agents.n_step_window import NStepObserver
from nec_tf.experiments.registry import find_agent, make_learner
from nec_tf.experiments.tasks import atari_task
from nec_tf.networks.encoders import FixedLength

GAME = "frostbite"  # all 18 actions do something in it
NUM_ACTIONS = 18
_SPARE_KEYS = 1.6  # states to encode for each key that is wanted: some come again
_REPLAY = 10_000  # states before the first update, so that samples come from all over memory
TURNS = 5
_WARM_UP = 250  # calls: graphs are traced, and the first writes come after N steps
_STALL_STEPS = 600  # agent steps, in which every action's memory is written


class Subject:
    """An agent whose memories hold real keys, and the loop around it."""

    def __init__(self, name: str, entries: int) -> None:
        """Fills the memory of an agent, and its replay where it has one.

        Args:
            name: Of the agent, in the registry.
            entries: Of each action.
        """
        tf.keras.utils.set_random_seed(0)
        tf.config.experimental.enable_op_determinism()  # as in every run
        self.name = name
        self.entries = entries
        self.task = atari_task(GAME)
        self.trains = name == "nec"
        kind = find_agent(name)
        config = kind.config(**({"learning_starts": 1} if self.trains else {}))
        self.learner: Any = make_learner(
            kind, self.task, self.task.environment(1, seed=0), config, seed=0
        )
        agent = self.learner.agent
        agent.exploration.end()
        if entries:
            _fill_memory(agent, name, entries)
        if self.trains:
            agent.embedding_replaced()  # its mean screen stays as it is: nothing is written again
            _fill_replay(self.learner.replay)


class Row:
    """A number of environments side by side, measured in turns with others."""

    def __init__(self, subject: Subject, num_envs: int) -> None:
        """Makes the environments and takes the first steps, in which graphs are traced."""
        self._subject = subject
        self._num_envs = num_envs
        self._learner, self._agent = subject.learner, subject.learner.agent
        config = self._agent.config
        self._observer = NStepObserver(config.horizon, config.discount, self._learner._remember)
        self._environment = subject.task.environment(num_envs, seed=1)
        self._driver = NStepDriver(
            self._environment, self._agent.collect_policy, [self._learner.observe]
        )
        self._loop = _Loop(self._driver)
        self._bare = _Bare(self._agent.embedding, subject.task.environment(num_envs, seed=2))
        self._updates = num_envs / config.update_period if subject.trains else 0.0
        self._parts = _Parts()
        self._seconds: list[float] = []
        self._calls = 0
        self.turn(_WARM_UP * num_envs)
        self._parts.seconds.clear()
        self._bare.seconds.clear()
        self._seconds, self._calls = [], 0

    def turn(self, steps: int) -> None:
        """Takes so many agent steps with the loop, then does the irreducible work of as many."""
        calls = steps // self._num_envs
        self._learner._observer = self._observer  # other rows have windows of their own
        with self._parts.timed(self._what_is_timed()):
            self._seconds += self._loop.run(calls)
            if self._subject.trains:
                started = time.perf_counter()
                self._learner._finish_updates()
                self._seconds.append(time.perf_counter() - started)
        self._bare.run(calls, self._updates)
        self._calls += calls

    def result(self) -> dict[str, Any]:
        """Returns what was measured."""
        total, taken = sum(self._seconds), self._calls * self._num_envs
        shares = {f"share_{part}": spent / total for part, spent in self._parts.seconds.items()}
        bare = self._bare.seconds
        return {
            "agent": self._subject.name,
            "num_envs": self._num_envs,
            "entries": self._subject.entries,
            "efficiency": sum(bare.values()) / total,
            "steps_per_s": taken / total,
            "frames_per_s": self._subject.task.frames_per_step * taken / total,
            "worst_step_s": max(*self._seconds, self._worst_stall()),
            "rss_gb": psutil.Process().memory_info().rss / 1e9,
            **{f"{part}_ms": 1e3 * spent / taken for part, spent in bare.items()},
            **shares,
            "share_python": 1.0 - sum(shares.values()),
        }

    def _worst_stall(self) -> float:
        """Returns the longest call while every action's index comes due to be built again."""
        self._learner._observer = self._observer
        for memory in self._agent.dnd._store._memories:
            if memory.index._trained_on:
                memory.index._moved = 1 << 40
        return max(self._loop.run(-(-_STALL_STEPS // self._num_envs)))

    def _what_is_timed(self) -> list[tuple[Any, str, str]]:
        """Returns methods to time, by object and name, each with the part it belongs to."""
        store = self._agent.dnd._store
        timed = [
            (self._environment, "step", "emulator"),
            (self._driver, "_act", "act"),
            (store, "neighbours", "search"),
            (store, "sync", "index"),
            (self._agent, "write", "write"),
        ]
        timed += [(memory, "tell_index", "index") for memory in store._memories]
        if self._subject.trains:
            timed += [
                (self._learner, "_begin_updates", "train"),
                (self._learner, "_finish_updates", "train"),
            ]
            timed += [(self._learner.replay, "add", "replay")]
        return timed


class _Loop:
    """The driver, called for one step at a time."""

    def __init__(self, driver: NStepDriver) -> None:
        self._driver = driver
        self._time_step: Any = None

    def run(self, calls: int) -> list[float]:
        """Returns the seconds of each call."""
        seconds = []
        for _ in range(calls):
            started = time.perf_counter()
            self._time_step = self._driver.run(1, self._time_step)
            seconds.append(time.perf_counter() - started)
        return seconds


class _Bare:
    """What no loop can do without: emulator, network forwards, network training steps.

    Attributes:
        seconds: Spent so far, by part.
    """

    def __init__(self, embedding: tf.keras.Model, environment: Any) -> None:
        self.seconds: dict[str, float] = collections.defaultdict(float)
        self._environment = environment
        self._observation = environment.reset().observation
        self._rng = np.random.default_rng(0)
        self._due = 0.0
        network = tf.keras.models.clone_model(embedding)
        self._forward = common.function(functools.partial(network, training=False))
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
        """Does the work of so many calls of the driver, with so many updates for each."""
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
    """Time spent in methods, less what they spend in others that are timed too.

    Attributes:
        seconds: By part.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = collections.defaultdict(float)
        self._inner = [0.0]

    @contextlib.contextmanager
    def timed(self, methods: list[tuple[Any, str, str]]) -> Iterator[None]:
        """Times methods, given as object, name and part, as long as the context lasts."""
        originals = [getattr(owner, name) for owner, name, _ in methods]
        for (owner, name, part), original in zip(methods, originals, strict=True):
            setattr(owner, name, self._wrap(original, part))
        yield
        for (owner, name, _), original in zip(methods, originals, strict=True):
            setattr(owner, name, original)

    def _wrap(self, method: Callable[..., Any], part: str) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            if threading.current_thread() is not threading.main_thread():
                return method(*args, **kwargs)  # the loop does not wait for it here
            self._inner.append(0.0)
            started = time.perf_counter()
            try:
                return method(*args, **kwargs)
            finally:
                spent = time.perf_counter() - started
                self.seconds[part] += spent - self._inner.pop()
                self._inner[-1] += spent

        return wrapped


def _fill_memory(agent: Any, name: str, entries: int) -> None:
    """Gives every action the same keys of real states; states and values are made up."""
    if name == "nec":
        weights, keys = real_keys.encoder().get_weights(), real_keys.load(real_keys.STATES)
        agent.embedding.set_weights(weights)
        if agent.config.key_length:  # as the agent's own network makes them
            keys = FixedLength(agent.config.key_length)(keys).numpy()
    else:
        keys = real_keys.collect(int(_SPARE_KEYS * entries), agent.embedding, GAME)
    keys = distinct(keys)[:entries]
    if len(keys) < entries:
        raise ValueError(f"{entries} entries need as many distinct keys, and there are {len(keys)}")
    count = NUM_ACTIONS * entries
    agent.dnd.load_entries(
        np.repeat(np.arange(NUM_ACTIONS), entries),
        np.tile(keys, (NUM_ACTIONS, 1)),
        np.random.default_rng(0).normal(size=count).astype(np.float32),
        np.arange(count),
        np.arange(count)[::-1].copy(),
    )
    assert (agent.dnd.sizes == entries).all(), "the memories did not take every key"


def _fill_replay(replay: Any) -> None:
    rng = np.random.default_rng(0)
    for states in itertools.islice(real_keys.states(GAME, seed=4), _REPLAY // 8):
        for stream, state in enumerate(states):
            replay.add(stream, state[None], rng.integers(0, NUM_ACTIONS, 1), rng.normal(size=1))
