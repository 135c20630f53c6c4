"""Compares neighbour indices with exact search; an index that finds too little is rebuilt."""

import numpy as np
from absl import logging

from nec_tf.memory.dnd import DifferentiableNeuralDictionary

LEAST_RECALL = 0.9  # healthy indices find 0.99 and more (docs/algorithm.md)
_STATES = 8  # of each action
_CANDIDATES = 4  # times p, by rounded distances; exact distances decide among them


def damaged_indices(dnd: DifferentiableNeuralDictionary, seed: int) -> dict[int, float]:
    """Returns the actions whose index finds less than `LEAST_RECALL`, and its recall.

    Changes nothing. Queries are stored keys.

    Args:
        dnd: The memory.
        seed: Random seed of the choice of states.
    """
    rng = np.random.default_rng(seed)
    recalls = {}
    for action, size in enumerate(dnd.sizes.tolist()):
        if size:
            keys = dnd.entries(action).keys
            recalls[action] = _recall(dnd, action, keys, keys[rng.integers(0, size, _STATES)])
    return {action: recall for action, recall in recalls.items() if recall < LEAST_RECALL}


def repair(dnd: DifferentiableNeuralDictionary, damaged: dict[int, float]) -> None:
    """Rebuilds indices that `damaged_indices` returned, with a warning for each."""
    for action, recall in damaged.items():
        dnd.rebuild_index(action)
        logging.warning(
            "the neighbour index of action %d found %.0f%% of the neighbours and was rebuilt",
            action,
            100 * recall,
        )


def recall_for(
    dnd: DifferentiableNeuralDictionary,
    action: int,
    queries: np.ndarray,
) -> float:
    """Returns the share of the p nearest neighbours that the index of an action finds.

    Args:
        dnd: The memory; this action's must not be empty.
        action: The action.
        queries: What is looked up, [B, key_size].
    """
    return _recall(dnd, action, dnd.entries(action).keys, queries)


def _recall(
    dnd: DifferentiableNeuralDictionary, action: int, keys: np.ndarray, queries: np.ndarray
) -> float:
    found = dnd.neighbours(queries, np.full(len(queries), action))
    p = min(dnd.num_neighbours, len(keys))
    outermost = _nearest_distances(keys, queries, p)[:, -1:]
    present = found.rows.numpy()[:, 0] > 0
    # By distance, not by row: equal keys replace each other.
    near = found.distances.numpy()[:, 0] <= outermost * (1 + 1e-4) + 1e-6
    return float(np.mean(np.sum(present & near, axis=1) / p))


def _nearest_distances(keys: np.ndarray, queries: np.ndarray, p: int) -> np.ndarray:
    """Returns the distances to the p nearest keys, ascending, [B, p]."""
    few = min(_CANDIDATES * p, len(keys))
    rounded = np.einsum("nd,nd->n", keys, keys)[:, None] - 2.0 * keys @ queries.T
    distances = np.empty((len(queries), p), keys.dtype)
    for row, query, d2 in zip(distances, queries, rounded.T, strict=True):
        near = np.argpartition(d2, few - 1)[:few]
        row[:] = np.sort(np.linalg.norm(keys[near] - query, axis=1))[:p]
    return distances
