"""Rows of `benchmarks.lookup` for our own layer, through its public methods."""

import time
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.lookup_measure import (
    FILL_BATCH,
    WRITE_BATCH,
    Keys,
    P,
    Settings,
    Stopwatch,
    Truth,
    batches,
    median_ms,
    resident_bytes,
    search_all,
    split,
)
from nec_tf.memory.dnd import DifferentiableNeuralDictionary
from nec_tf.memory.neighbours import NeighbourIndex, make_index
from nec_tf.memory.neighbours.scann_index import RETRAIN_CHANGES
from nec_tf.memory.row_rmsprop import RowRMSProp

VALUES_LEARNING_RATE = 1e-2
STATES_PER_STEP = 32  # a minibatch; paper, section 4
STEPS_PER_WRITE = 25  # an update every 4 agent steps (paper), a write about every 100 of them
_EXACT_SECONDS = 5.0  # for the gradient steps of the exact backend: at scale each takes seconds

NOTE = (
    f"exact: as many gradient steps as fit into {_EXACT_SECONDS:.0f} s (gradient_steps); its recall"
    " does not depend on them."
)


def measure(backend: str, settings: Settings) -> dict[str, Any]:
    """Returns the row of one of our backends, "scann" or "exact"; see `benchmarks.lookup`."""
    keys = split(settings)
    subject = _Subject(backend, keys, settings)
    row: dict[str, Any] = {"backend": backend, "entries": settings.entries, **subject.fill()}
    row |= subject.look_up()
    row["build_s"] = subject.build_seconds()
    row |= subject.train(settings.steps)
    moved = subject.live_keys()
    row |= subject.replace()
    _hand_over(settings, moved, subject.live_keys())
    return subject.charge_retrains(row)


def _hand_over(settings: Settings, moved: np.ndarray, replaced: np.ndarray) -> None:
    """Saves the keys as they were after the gradients and after the writes, for the rivals."""
    if not settings.moved_path.exists():
        np.savez(settings.moved_path, moved=moved, replaced=replaced)


class _Subject:
    """One action's memory; every method measures one operation on it."""

    def __init__(self, backend: str, keys: Keys, settings: Settings) -> None:
        _warm_up(backend, keys.queries)
        self._backend = backend
        self._keys = keys
        self._rng = np.random.default_rng(0)
        self._written = 0
        self._before = resident_bytes()
        self._dnd, self._optimizer = _memory(
            backend, keys.stored, settings.recognise_by_key, settings.keys_learning_rate
        )
        self._index = self._dnd.indices[0]
        self._num_candidates = self._dnd.candidates(keys.queries[:1]).shape[-1]
        self._upkeep = _Upkeep(self._index)

    def fill(self) -> dict[str, float]:
        """Writes the keys in batches, as an agent does, growing from nothing."""
        started = time.perf_counter()
        for batch in batches(self._keys.stored, FILL_BATCH):
            self._write(batch)
        seconds = time.perf_counter() - started
        size = int(self._dnd.sizes[0])
        assert size == len(self._keys.stored), f"{size} entries were kept: keys are not distinct"
        return {
            "fill_s": seconds,
            "append_ms": seconds / size * 1e3,
            "bytes_per_entry": (resident_bytes() - self._before) / size,
        }

    def look_up(self) -> dict[str, float]:
        """Measures recall and the time of one query: of the index alone, and of the layer."""
        _, times = search_all(self._search, self._keys.stored, self._keys.queries)
        look_up = tf.function(lambda query: self._dnd.lookup(query[None], [0], stamp=False))
        queries = tf.constant(self._keys.queries)
        return {
            "recall_at_50": self._recall(self._keys.stored),
            "spacing": Truth(self._keys.stored, self._keys.queries).spacing(),
            **times,
            "lookup_ms": median_ms(look_up, queries if self._fast else queries[:20]),
        }

    def build_seconds(self) -> float:
        """Times a build of the index from all keys at once, as after an import."""
        live = self.live_keys()
        index = make_index(self._backend, live.shape[1], P, np.float32)
        started = time.perf_counter()
        index.rebuild(live)
        return time.perf_counter() - started

    def train(self, steps: int) -> dict[str, float]:
        """Takes gradient steps on keys and values towards random targets."""
        step = _gradient_step(self._dnd, self._optimizer)
        step(*self._minibatch())  # traces
        before = self.live_keys()
        self._upkeep.reset()
        watch, taken = Stopwatch(), 0
        while taken < steps and (self._fast or watch.seconds < _EXACT_SECONDS):
            minibatch = self._minibatch()
            with watch.running():
                step(*minibatch)
                if self._dnd.recognise_by_key and taken % STEPS_PER_WRITE == 0:
                    self._write_known_state()
            taken += 1
        live = self.live_keys()
        drift = np.linalg.norm(live - before, axis=1)
        return {
            "recall_after_gradients": self._recall(live),
            "gradient_steps": taken,
            "gradient_step_ms": (watch.seconds - self._upkeep.seconds) / taken * 1e3,
            "keys_moved": int((drift > 0).sum()),
            "drift": float(np.median(drift[drift > 0])) if drift.any() else 0.0,
            "refreshed_per_step": self._upkeep.moved / taken,
            "retrains_in_steps": self._upkeep.retrains,
        }

    def replace(self) -> dict[str, float]:
        """Writes new keys into the full memory: each one evicts another."""
        self._upkeep.reset()
        watch = Stopwatch()
        for batch in batches(self._keys.new, WRITE_BATCH):
            with watch.running():
                self._write(batch)
        return {
            "recall_after_replacement": self._recall(self.live_keys()),
            "write_ms": (watch.seconds - self._upkeep.seconds) / len(self._keys.new) * 1e3,
            "retrains_in_writes": self._upkeep.retrains,
        }

    def charge_retrains(self, row: dict[str, Any]) -> dict[str, Any]:
        """Adds to the time of each change its share of the next retrain."""
        changes = RETRAIN_CHANGES * len(self._keys.stored)
        share = row["build_s"] / changes * 1e3 if self._fast else 0.0
        row["retrain_share_ms"] = share
        row["write_ms"] += share
        row["gradient_step_ms"] += share * row["refreshed_per_step"]
        return row

    def live_keys(self) -> np.ndarray:
        """Returns the keys as they are in the tables, [n, key_size], in the order of the slots."""
        return self._dnd.entries(0).keys

    @property
    def _fast(self) -> bool:
        return not self._index.is_exact

    def _search(self, query: np.ndarray) -> np.ndarray:
        """Searches the index for as many candidates as the layer requests; returns their slots."""
        return self._index.search(query[None], self._num_candidates)[0]

    def _recall(self, live: np.ndarray) -> float:
        """Returns the recall of a lookup now, among the live keys.

        With one action, slot n of the memory is row n + 1 of the tables.
        """
        rows = self._dnd.neighbours(self._keys.queries, np.zeros(len(self._keys.queries), int)).rows
        return Truth(live, self._keys.queries).recall(rows.numpy()[:, 0] - 1)

    def _write(self, keys: np.ndarray) -> None:
        ids = self._written + np.arange(len(keys))
        self._written += len(keys)
        self._dnd.write(
            np.zeros(len(keys), int),
            keys,
            self._rng.normal(size=len(keys)),
            None if self._dnd.recognise_by_key else ids,
        )

    def _write_known_state(self) -> None:
        """Updates an entry by its live key: a write computes the ids of all keys that moved."""
        rows = 1 + self._rng.integers(0, int(self._dnd.sizes[0]), 1)
        self._dnd.write([0], self._dnd.tables.read(self._dnd.tables.keys, rows), [0.0])

    def _minibatch(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Draws held-out states and target values for them."""
        chosen = self._rng.integers(0, len(self._keys.training), STATES_PER_STEP)
        targets = self._rng.normal(size=STATES_PER_STEP)
        return tf.constant(self._keys.training[chosen]), tf.constant(targets, tf.float32)


class _Upkeep:
    """Counts the calls of an index's `move` and `rebuild`.

    Attributes:
        moved: Keys moved.
        retrains: Rebuilds.
        seconds: Time spent in rebuilds.
    """

    def __init__(self, index: NeighbourIndex) -> None:
        self._original_rebuild, self._original_move = index.rebuild, index.move
        setattr(index, "rebuild", self._rebuild)  # noqa: B010  mypy refuses the assignment
        setattr(index, "move", self._move)  # noqa: B010
        self.reset()

    def reset(self) -> None:
        """Starts from 0."""
        self.moved, self.retrains, self._watch = 0, 0, Stopwatch()

    @property
    def seconds(self) -> float:
        """See the class."""
        return self._watch.seconds

    def _rebuild(self, keys: np.ndarray) -> None:
        self.retrains += 1
        with self._watch.running():
            self._original_rebuild(keys)

    def _move(self, slots: np.ndarray, keys: np.ndarray) -> None:
        self.moved += len(slots)
        self._original_move(slots, keys)


def _memory(
    backend: str, keys: np.ndarray, recognise_by_key: bool, keys_learning_rate: float
) -> tuple[DifferentiableNeuralDictionary, RowRMSProp]:
    """Returns an empty memory with room for the keys [n, key_size], and its optimizer."""
    dnd = DifferentiableNeuralDictionary(
        1, keys.shape[1], len(keys), P, index=backend, recognise_by_key=recognise_by_key
    )
    return dnd, RowRMSProp(dnd, keys_learning_rate, VALUES_LEARNING_RATE)


def _gradient_step(dnd: DifferentiableNeuralDictionary, optimizer: RowRMSProp) -> Any:
    """Returns a traced step: lookup of given actions, squared loss, gradients, row-wise RMSProp."""

    @tf.function
    def step(queries: tf.Tensor, targets: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            values = dnd.lookup(queries, tf.zeros([STATES_PER_STEP], tf.int64))
            loss = tf.reduce_sum(tf.square(targets - values))
        optimizer.apply(*tape.gradient(loss, [dnd.tables.keys, dnd.tables.values]))

    return step


def _warm_up(backend: str, keys: np.ndarray) -> None:
    """Does everything once in a small memory, so that no measurement includes a first call."""
    dnd, optimizer = _memory(backend, keys, recognise_by_key=True, keys_learning_rate=1e-3)
    dnd.write(np.zeros(len(keys), int), keys, np.zeros(len(keys)))
    minibatch = tf.constant(keys[:1].repeat(STATES_PER_STEP, axis=0))
    _gradient_step(dnd, optimizer)(minibatch, tf.ones([STATES_PER_STEP]))
