"""One decision at the paper's scale: a lookup in 18 memories of 500,000 entries each."""

import gc
import tempfile
import time
from typing import Any

import numpy as np
import psutil
import tensorflow as tf

from benchmarks.lookup_measure import Keys, Settings, median_ms, resident_bytes, split
from nec_tf.memory.dnd import DifferentiableNeuralDictionary
from nec_tf.memory.entries import Entries
from nec_tf.memory.state_ids import hash_states

NUM_ACTIONS = 18
_BYTES_PER_ENTRY = 1_000  # measured: 690 held, and 785 at the peak of a restore


def refusal(entries: int) -> str | None:
    """Returns why this machine cannot make the measurement, or None if it can."""
    needed = NUM_ACTIONS * entries * _BYTES_PER_ENTRY
    free = psutil.virtual_memory().available
    if free >= needed:
        return None
    return (
        f"--paper_scale needs about {needed / 1e9:.0f} GB of free memory for {NUM_ACTIONS} actions"
        f" of {entries:,} entries, and {free / 1e9:.0f} GB are free."
    )


def measure(settings: Settings) -> dict[str, Any]:
    """Returns the time of one decision in milliseconds, and the size of the memory.

    Every action holds the same keys: a lookup in one memory does not affect another.
    """
    keys = split(settings)
    with tempfile.TemporaryDirectory() as folder:
        measured, path = _decisions(keys, folder)
        gc.collect()  # two memories at once would not fit
        return {**measured, "restore_s": _restore(path, len(keys.stored), keys.queries)}


def _decisions(keys: Keys, folder: str) -> tuple[dict[str, Any], str]:
    """Returns what is measured with a memory in place, and the path of its checkpoint."""
    before = resident_bytes()
    dnd, seconds = _fill(keys.stored)
    decide = tf.function(lambda query: dnd.lookup(query[None]))
    queries = keys.queries
    entries = len(keys.stored)
    measured = {
        "actions": NUM_ACTIONS,
        "entries": entries,
        "decision_ms": median_ms(decide, tf.constant(queries)),
        "index_ms": median_ms(lambda query: dnd.candidates(query[None]), queries),
        "load_s": seconds,
        "bytes_per_entry": (resident_bytes() - before) / (NUM_ACTIONS * entries),
    }
    return measured, tf.train.Checkpoint(dnd=dnd).write(f"{folder}/model")


def _layer(count: int, key_size: int) -> DifferentiableNeuralDictionary:
    """Returns an empty memory with room for so many entries of each action, as NEC makes it."""
    return DifferentiableNeuralDictionary(NUM_ACTIONS, key_size, count, recognise_by_key=False)


def _restore(path: str, count: int, queries: np.ndarray) -> float:
    """Returns the seconds until a memory from a checkpoint has answered its first query."""
    started = time.perf_counter()
    dnd = _layer(count, queries.shape[1])
    tf.train.Checkpoint(dnd=dnd).read(path).assert_existing_objects_matched()
    dnd.candidates(queries[:1])
    seconds = time.perf_counter() - started
    assert (dnd.sizes == count).all(), "the checkpoint did not hold every key"
    return seconds


def _fill(keys: np.ndarray) -> tuple[DifferentiableNeuralDictionary, float]:
    """Returns a layer with the keys in every memory, and the seconds that loading them took."""
    count = len(keys)
    dnd = _layer(count, keys.shape[1])
    rows = np.arange(NUM_ACTIONS * count)
    entries = Entries(
        actions=rows // count,
        keys=np.tile(keys, (NUM_ACTIONS, 1)),
        values=np.tile(np.random.default_rng(0).normal(size=count), NUM_ACTIONS),
        state_ids=np.tile(hash_states(keys), NUM_ACTIONS),
        ages=np.zeros_like(rows),
        rows=rows,
    )
    started = time.perf_counter()
    dnd.load_entries(entries)
    del entries  # 300 bytes an entry, before the indices need as much
    dnd.sync()
    seconds = time.perf_counter() - started
    assert (dnd.sizes == count).all(), "the memories did not take every key"
    return dnd, seconds
