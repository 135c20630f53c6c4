"""Overwrites a memory of one action again and again, and measures its recall on the way."""

import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from tqdm import tqdm

from nec_tf.memory.dnd import DifferentiableNeuralDictionary
from nec_tf.memory.probe import recall_for

_BATCH = 100  # entries of a write
_LOOKUPS = 10  # of each batch
_QUERIES = 64  # whose neighbours are compared with exact search
_SHIFT = 0.01  # standard deviation of a repeated key, relative to that of all keys


class Turnover(NamedTuple):
    """A measurement.

    Attributes:
        keys: Keys of a real encoder, [n, key_size]; the last `_QUERIES` are held out.
        writes: Entries to write.
        capacity: Entries of the memory.
        turn: Degrees by which keys turn over all writes.
        rows: Rows of the table.
    """

    keys: np.ndarray
    writes: int
    capacity: int
    turn: float = 0.0
    rows: int = 20


def measure(given: Turnover) -> Iterator[dict[str, Any]]:
    """Writes to a memory; yields a row from time to time."""
    stored, held_out = given.keys[:-_QUERIES], given.keys[-_QUERIES:]
    rng = np.random.default_rng(1)
    shift = _SHIFT * float(stored.std())
    dnd = DifferentiableNeuralDictionary(
        1, stored.shape[1], given.capacity, index="scann", recognise_by_key=False
    )
    (index,) = dnd.indices
    every = max(_BATCH, given.writes // given.rows // _BATCH * _BATCH)
    began = time.monotonic()
    with (
        mock.patch.object(index, "rebuild", wraps=index.rebuild) as rebuild,
        tqdm(total=given.writes, unit=" writes", unit_scale=True, file=sys.stderr) as bar,
    ):
        for first in range(0, given.writes, _BATCH):
            angle = given.turn * first / given.writes
            ids = np.arange(first, first + _BATCH)
            batch = stored[ids % len(stored)]
            if first + _BATCH > len(stored):
                batch = batch + rng.normal(0.0, shift, batch.shape).astype(np.float32)
            batch = turned(batch, angle)
            actions = np.zeros(_BATCH, np.int64)
            dnd(batch[:_LOOKUPS])  # marks the neighbours as used
            dnd.write(actions, batch, np.zeros(_BATCH, np.float32), ids)
            bar.update(_BATCH)
            if (first + _BATCH) % every == 0:
                chosen = rng.integers(0, dnd.sizes[0], _QUERIES)
                row = {
                    "writes": first + _BATCH,
                    "entries": int(dnd.sizes[0]),
                    "trainings": rebuild.call_count,
                    "recall_stored": round(recall_for(dnd, 0, dnd.entries(0).keys[chosen]), 4),
                    "recall_held_out": round(recall_for(dnd, 0, turned(held_out, angle)), 4),
                    "seconds": round(time.monotonic() - began),
                }
                bar.set_postfix(recall=f"{row['recall_held_out']:.4f}", refresh=False)
                yield row


def turned(keys: np.ndarray, degrees: float) -> np.ndarray:
    """Returns keys [n, key_size] with each pair of dimensions turned; key_size is even."""
    if not degrees:
        return keys
    sine, cosine = np.sin(np.radians(degrees)), np.cos(np.radians(degrees))
    even, odd = keys[:, 0::2], keys[:, 1::2]
    result = np.empty_like(keys)
    result[:, 0::2] = cosine * even - sine * odd
    result[:, 1::2] = sine * even + cosine * odd
    return result
