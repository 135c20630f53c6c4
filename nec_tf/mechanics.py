"""Whether the parts of a memory do what they should, on states of which the returns are known."""

import math
from typing import NamedTuple

import numpy as np

from nec_tf.dnd import DifferentiableNeuralDictionary
from nec_tf.episodic_agent import EpisodicAgent
from nec_tf.recognition import identify
from nec_tf.replay import Sample


class Mechanics(NamedTuple):
    """Means over some states; NaN where there was nothing to tell.

    Attributes:
        recall: Share of the p nearest neighbours that the index found.
        nearest_weight: Weight of the nearest neighbour; 1/p where all count the same.
        outermost: Median distance from a state to the outermost of its neighbours. Keys of length
            `l` that have nothing in common are `sqrt(2) l` apart: so far off, nobody is near.
        key_drift: How far the stored key of a state is from what the network makes of the state
            now, in units of its median distance from its neighbours. Beyond 1, the memory is no
            longer found where it was put.
        q_bias: Q less the return that the state had.
        q_correlation: Between Q and these returns.
    """

    recall: float
    nearest_weight: float
    outermost: float
    key_drift: float
    q_bias: float
    q_correlation: float


def inspect(agent: EpisodicAgent, sample: Sample) -> Mechanics:
    """Looks up states in the memories of the actions taken; leaves no trace."""
    queries = agent.embedding(sample.observations, training=False).numpy()
    found = agent.dnd.neighbours(queries, sample.actions)
    q = np.sum(found.weights * found.values, axis=(1, 2))
    memory = _Entries(agent.dnd)
    stored = memory.keys_of(identify(sample.observations), sample.actions)
    typical = np.median(found.distances[:, 0], axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        drift = np.linalg.norm(stored - queries, axis=1) / typical
        correlation = np.corrcoef(q, sample.returns)[0, 1] if len(q) > 1 else math.nan
    known = drift[np.isfinite(drift)]
    return Mechanics(
        recall=memory.recall(queries, sample.actions, found.rows.numpy()[:, 0]),
        nearest_weight=float(np.mean(np.max(found.weights, axis=(1, 2)))),
        outermost=float(np.median(np.max(found.distances, axis=(1, 2)))),
        key_drift=float(np.median(known)) if len(known) else math.nan,
        q_bias=float(np.mean(q - sample.returns)),
        q_correlation=float(correlation),
    )


class _Entries:
    """What is in the tables, read out; only rows of one action at a time."""

    def __init__(self, dnd: DifferentiableNeuralDictionary) -> None:
        self._tables = dnd.tables
        rows = np.arange(1, int(dnd.tables.size))
        self._actions = dnd.tables.read(dnd.tables.actions, rows)
        self._ids = dnd.tables.read(dnd.tables.state_ids, rows)

    def keys_of(self, ids: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Returns the stored keys of states [n, key_size]; NaN where there is none."""
        keys = np.full((len(ids), self._tables.keys.shape[1]), np.nan, np.float32)
        for i, (state, action) in enumerate(zip(ids, actions, strict=True)):
            rows = 1 + np.flatnonzero((self._ids == state) & (self._actions == action))
            if len(rows):
                keys[i] = self._tables.read(self._tables.keys, rows[:1])[0]
        return keys

    def recall(self, queries: np.ndarray, actions: np.ndarray, found: np.ndarray) -> float:
        """Returns the share of the nearest rows, by comparing all keys, that are among `found`."""
        hits = wanted = 0
        for action in np.unique(actions):
            rows = 1 + np.flatnonzero(self._actions == action)
            keys = self._tables.read(self._tables.keys, rows)
            for query, answer in zip(
                queries[actions == action], found[actions == action], strict=True
            ):
                d2 = np.sum((keys - query) ** 2, axis=1)
                p = min(found.shape[1], len(rows))
                nearest = rows[np.argpartition(d2, p - 1)[:p]] if p else rows
                hits += len(np.intersect1d(nearest, answer))
                wanted += p
        return hits / wanted if wanted else math.nan
