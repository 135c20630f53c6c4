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
from nec_tf.n_step_driver import NStepDriver
from trainers.registry import find_agent, make_learner
from trainers.tasks import atari_task

GAME = "frostbite"  # all 18 actions do something in it
NUM_ACTIONS = 18
_SPARE_KEYS = 1.6  # states to encode for each key that is wanted: some come again
_REPLAY = 10_000  # states before the first update, so that samples come from all over memory
_TURNS = 5
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
        self._name = name
        self._entries = entries
        self._task = atari_task(GAME)
        self._trains = name == "nec"
        kind = find_agent(name)
        config = kind.config(**({"learning_starts": 1} if self._trains else {}))
        self._learner: Any = make_learner(
            kind, self._task, self._task.environment(1, seed=0), config, seed=0
        )
        self._agent = self._learner.agent
        self._agent.end_exploration()
        if entries:
            _fill_memory(self._agent, name, entries)
        if self._trains:
            _fill_replay(self._learner._replay)

    def measure(self, num_envs: int, steps: int) -> dict[str, Any]:
        """Returns a row of the benchmark, over so many agent steps."""
        environment = self._task.environment(num_envs, seed=1)
        driver = NStepDriver(environment, self._agent.collect_policy, [self._learner.observe])
        loop = _Loop(driver)
        bare = _Bare(self._agent.embedding, self._task.environment(num_envs, seed=2))
        updates = num_envs / self._agent.config.update_period if self._trains else 0.0
        calls = steps // _TURNS // num_envs
        parts = _Parts()
        with parts.timed(self._what_is_timed(driver, environment)):
            loop.run(_WARM_UP)
            bare.run(8, updates)
            parts.seconds.clear()
            bare.seconds.clear()
            seconds = []
            for _ in range(_TURNS):
                seconds += loop.run(calls)
                bare.run(calls, updates)
        total, taken = sum(seconds), len(seconds) * num_envs
        shares = {f"share_{part}": spent / total for part, spent in parts.seconds.items()}
        return {
            "agent": self._name,
            "num_envs": num_envs,
            "entries": self._entries,
            "efficiency": sum(bare.seconds.values()) / total,
            "steps_per_s": taken / total,
            "frames_per_s": self._task.frames_per_step * taken / total,
            "worst_step_s": max(*seconds, self._worst_stall(loop, num_envs)),
            "rss_gb": psutil.Process().memory_info().rss / 1e9,
            **{f"{part}_ms": 1e3 * spent / taken for part, spent in bare.seconds.items()},
            **shares,
            "share_python": 1.0 - sum(shares.values()),
        }

    def _worst_stall(self, loop: "_Loop", num_envs: int) -> float:
        """Returns the longest call while every action's index comes due to be built again."""
        for memory in self._agent.dnd._store._memories:
            if memory.index._trained_on:
                memory.index._moved = 1 << 40
        return max(loop.run(-(-_STALL_STEPS // num_envs)))

    def _what_is_timed(self, driver: NStepDriver, environment: Any) -> list[tuple[Any, str, str]]:
        """Returns methods to time, by object and name, each with the part it belongs to."""
        store = self._agent.dnd._store
        timed = [
            (environment, "step", "emulator"),
            (driver, "_act", "act"),
            (store, "neighbours", "search"),
            (store, "settle", "index"),
            (self._agent, "write", "write"),
        ]
        timed += [(memory, "tell_index", "index") for memory in store._memories]
        if self._trains:
            timed += [
                (self._learner, "_begin_updates", "train"),
                (self._learner, "_finish_updates", "train"),
            ]
            timed += [(self._learner._replay, "add", "replay")]
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
