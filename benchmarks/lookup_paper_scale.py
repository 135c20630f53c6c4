"""One decision at the paper's scale: a lookup in 18 memories of 500,000 entries each."""

import time
from typing import Any

import numpy as np
import psutil
import tensorflow as tf

from benchmarks.lookup_measure import P, Settings, median_ms, resident_bytes, split
from nec_tf.memory.dnd import DifferentiableNeuralDictionary
from nec_tf.memory.state_ids import hash_states

NUM_ACTIONS = 18
_BYTES_PER_ENTRY = 1_000  # measured: 690 held, and 785 at the peak of a restore


def refusal(entries: int) -> str | None:
    """Returns why the measurement cannot be made here, if so."""
    needed = NUM_ACTIONS * entries * _BYTES_PER_ENTRY
    free = psutil.virtual_memory().available
    if free >= needed:
        return None
    return (
        f"--paper_scale needs about {needed / 1e9:.0f} GB of free memory for {NUM_ACTIONS} actions"
        f" of {entries:,} entries, and {free / 1e9:.0f} GB are free."
    )


def measure(settings: Settings) -> dict[str, Any]:
    """Returns the times of one decision, milliseconds, and what the memory took.

    Every action holds the same keys: what is looked up in one says nothing about another.
    """
    keys = split(settings)
    before, started = resident_bytes(), time.perf_counter()
    dnd = _fill(keys.stored)
    filled = time.perf_counter() - started
    decide = tf.function(lambda query: dnd.lookup(query[None]))
    queries, candidates = keys.queries, dnd._store.candidates(P)
    return {
        "actions": NUM_ACTIONS,
        "entries": settings.entries,
        "decision_ms": median_ms(decide, tf.constant(queries)),
        "index_ms": median_ms(
            lambda query: dnd._store.neighbours(query[None], None, candidates), queries
        ),
        "restore_s": filled,
        "bytes_per_entry": (resident_bytes() - before) / (NUM_ACTIONS * settings.entries),
    }


def _fill(keys: np.ndarray) -> DifferentiableNeuralDictionary:
    """Returns a layer with the keys in every memory, by the way that a restore takes."""
    count = len(keys)
    dnd = DifferentiableNeuralDictionary(NUM_ACTIONS, keys.shape[1], count)
    tables = dnd.tables
    tables.reserve(1 + NUM_ACTIONS * count)
    values, states = np.random.default_rng(0).normal(size=count), hash_states(keys)
    for action in range(NUM_ACTIONS):
        rows = 1 + action * count + np.arange(count)
        tables.put(tables.keys, rows, keys)
        tables.put(tables.values, rows, values)
        tables.put(tables.state_ids, rows, states)
        tables.put(tables.actions, rows, np.full(count, action))
    tables.size.assign(1 + NUM_ACTIONS * count)
    dnd._store.invalidate()
    assert (dnd.sizes == count).all(), "the memories did not take every key"
    return dnd
