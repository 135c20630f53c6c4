"""Freezes a memory into a network of stock operations and measures the accuracy of its lookup."""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from nec_tf.memory.dnd import DifferentiableNeuralDictionary, Neighbours
from nec_tf.runtime.errors import UserError
from nec_tf.serving.frozen_memory import FrozenMemory, FrozenNetwork, inverted_file
from nec_tf.serving.frozen_policy import FrozenPolicy
from nec_tf.serving.graph_search import ExactSearch, InvertedFile, Search
from nec_tf.serving.memory_files import Memory

LOOKUPS = ("ivf", "exact", "scann")
EXACT_BELOW = 5_000  # entries of the largest memory; below, comparing all keys is as fast
_FEWEST_PROBES = 4  # blocks searched per action, to begin with
_AGREEMENT = 0.99  # smallest share of states with the same action as by the exact lookup


class Frozen(NamedTuple):
    """A frozen agent.

    Attributes:
        policy: Greedy policy of stock operations only.
        memory: Memory to save beside the policy; None for an agent without one.
        measured: Settings and accuracy of the lookup.
    """

    policy: FrozenPolicy
    memory: Memory | None
    measured: dict[str, Any]


def freeze_memory(
    memory: Memory,
    dnd: DifferentiableNeuralDictionary,
    embedding: tf.keras.Model,
    lookup: str,
    recall: float,
    states: np.ndarray,
) -> tuple[FrozenNetwork, dict[str, Any]]:
    """Returns the network with the requested lookup, and its settings and accuracy.

    Args:
        memory: The entries.
        dnd: The layer of the entries, for its kernel and number of neighbours.
        embedding: The network that made the keys.
        lookup: One of `LOOKUPS`; a small memory always gets "exact".
        recall: Smallest share of the true neighbours that an inverted file may find.
        states: States to measure on, [n, ...].
    """
    if lookup not in LOOKUPS:
        raise UserError(f"lookup must be {', '.join(LOOKUPS)}, not {lookup!r}")
    if not 0.0 < recall <= 1.0:
        raise UserError(f"recall must be above 0 and at most 1, not {recall}")
    entries, counts = memory.entries, memory.counts()
    keys = embedding.predict(states, verbose=0)

    def frozen(search: Search) -> FrozenMemory:
        return FrozenMemory(entries, search, dnd.kernel, dnd.num_neighbours)

    exact = frozen(ExactSearch(counts))
    truth = _neighbours(exact, keys)
    measured: dict[str, Any] = {"lookup": lookup, "states": len(states)}
    if lookup == "exact" or counts.max() < EXACT_BELOW:
        chosen = exact
        measured |= {"lookup": "exact"}
    elif lookup == "scann":
        from nec_tf.serving.scann_ops import ScannOpsSearch

        chosen = frozen(ScannOpsSearch(entries.keys - entries.keys.mean(axis=0), counts))
    else:
        search = inverted_file(entries, len(counts), _FEWEST_PROBES)
        chosen = frozen(search)
        _choose_probes(search, chosen, keys, truth, recall)
        measured |= {"probes": search.probes, "blocks": search.num_blocks}
    found = _neighbours(chosen, keys)
    measured |= {"recall": _recall(found, truth), "action_agreement": _agreement(found, truth)}
    return FrozenNetwork(embedding, chosen), measured


def _choose_probes(
    search: InvertedFile, memory: FrozenMemory, keys: np.ndarray, truth: Neighbours, recall: float
) -> None:
    """Increases the probes of a search until recall and chosen actions are good enough.

    Args:
        search: The search of `memory`.
        memory: The frozen memory.
        keys: Keys to look up, [B, key_size].
        truth: Their true neighbours.
        recall: Share of the true neighbours to be found, over all actions. The share of states with
            the same best action must also reach `_AGREEMENT`.
    """
    while search.probes < 3 * search.num_blocks:  # from there on it searches all lists and blocks
        found = _neighbours(memory, keys)
        if _recall(found, truth) >= recall and _agreement(found, truth) >= _AGREEMENT:
            return
        search.probes = -(-search.probes * 8 // 7)


def _neighbours(memory: FrozenMemory, keys: np.ndarray) -> Neighbours:
    """Returns the neighbours of keys [B, key_size], computed in a graph."""
    spec = tf.TensorSpec(keys.shape, keys.dtype)
    return tf.function(memory.neighbours).get_concrete_function(spec)(tf.constant(keys))


def _recall(found: Neighbours, truth: Neighbours) -> float:
    """Returns the share of the true neighbours that were found."""
    mine, true = (n.rows.numpy().reshape(-1, n.rows.shape[-1]) for n in (found, truth))
    hits = sum(
        len(set(some[some > 0].tolist()) & set(every.tolist()))
        for some, every in zip(mine, true, strict=True)
    )
    return hits / max(1, int((true > 0).sum()))


def _agreement(found: Neighbours, truth: Neighbours) -> float:
    """Returns the share of states with the same best action."""
    best, exactly = (
        np.argmax(tf.reduce_sum(n.weights * n.values, axis=-1), axis=1) for n in (found, truth)
    )
    return float(np.mean(best == exactly))
