"""Health of a memory, measured on states whose returns are known."""

import math
from typing import NamedTuple

import numpy as np

from nec_tf.memory.dnd import DifferentiableNeuralDictionary
from nec_tf.memory.entries import Entries


class Diagnostics(NamedTuple):
    """Means over some states; NaN if there was nothing to measure.

    Attributes:
        recall: Share of the p nearest neighbours that the index found.
        nearest_weight: Weight of the nearest neighbour; 1/p if all weigh the same.
        outermost: Median distance from a state to the outermost of its neighbours. Unrelated
            (orthogonal) keys of length `l` are `sqrt(2) l` apart; a figure near this means that a
            state has no near neighbours.
        key_drift: Distance from the stored key of a state to its key by the current network, in
            units of the median distance to its neighbours. Above 1, a lookup of the state no longer
            finds its own entry.
        q_bias: Mean of Q - return.
        q_correlation: Correlation of Q and return.
    """

    recall: float
    nearest_weight: float
    outermost: float
    key_drift: float
    q_bias: float
    q_correlation: float


def diagnose(
    dnd: DifferentiableNeuralDictionary,
    queries: np.ndarray,
    actions: np.ndarray,
    returns: np.ndarray,
    state_ids: np.ndarray,
) -> Diagnostics:
    """Looks up states in the memories of the actions taken; changes nothing.

    Args:
        dnd: The memory.
        queries: Keys of the states by the current network, [n, key_size].
        actions: Actions taken, int64 [n].
        returns: Returns of the states, [n].
        state_ids: Ids of the states, int64 [n].
    """
    found = dnd.neighbours(queries, actions)
    q = np.sum(found.weights * found.values, axis=(1, 2))
    stored = np.full(queries.shape, np.nan, np.float32)  # NaN: the state is not stored
    hits = total = 0
    for action in np.unique(actions):
        own, entries = actions == action, dnd.entries(action)  # one action at a time saves memory
        stored[own] = _keys_of(entries, state_ids[own])
        nearest = _nearest_rows(entries, queries[own], found.rows.shape[-1])
        hits += sum(map(_common, nearest, found.rows.numpy()[own, 0]))
        total += nearest.size
    typical = np.median(found.distances[:, 0], axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        drift = np.linalg.norm(stored - queries, axis=1) / typical
        correlation = np.corrcoef(q, returns)[0, 1] if len(q) > 1 else math.nan
    known = drift[np.isfinite(drift)]
    return Diagnostics(
        recall=hits / total if total else math.nan,
        nearest_weight=float(np.mean(np.max(found.weights, axis=(1, 2)))),
        outermost=float(np.median(np.max(found.distances, axis=(1, 2)))),
        key_drift=float(np.median(known)) if len(known) else math.nan,
        q_bias=float(np.mean(q - returns)),
        q_correlation=float(correlation),
    )


def _keys_of(entries: Entries, state_ids: np.ndarray) -> np.ndarray:
    """Returns the stored keys of states [n, key_size]; NaN if a state is not stored."""
    keys = np.full((len(state_ids), entries.keys.shape[1]), np.nan, np.float32)
    for key, state in zip(keys, state_ids, strict=True):
        found = np.flatnonzero(entries.state_ids == state)
        if len(found):
            key[:] = entries.keys[found[0]]
    return keys


def _nearest_rows(entries: Entries, queries: np.ndarray, p: int) -> np.ndarray:
    """Returns the rows of the p nearest entries, or of all if fewer, by comparing all keys."""
    p = min(p, len(entries))
    nearest = np.empty((len(queries), p), np.int64)
    for row, query in zip(nearest, queries, strict=True):
        d2 = np.sum((entries.keys - query) ** 2, axis=1)
        row[:] = entries.rows[np.argpartition(d2, p - 1)[:p]] if p else ()
    return nearest


def _common(one: np.ndarray, other: np.ndarray) -> int:
    return len(np.intersect1d(one, other))
