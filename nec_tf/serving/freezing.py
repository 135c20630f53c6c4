"""Freezing: from a memory to a network of stock operations, and how well it finds neighbours."""

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
EXACT_BELOW = 5_000  # entries of the largest memory: comparing all is as fast
_FEWEST_PROBES = 4  # blocks of each action
_AGREEMENT = 0.99  # least share of actions that are those of the exact lookup


class Frozen(NamedTuple):
    """An agent as it leaves training.

    Attributes:
        policy: Greedy, of stock operations only.
        memory: Its memory, for files beside the policy; None for an agent without one.
        measured: How its lookup was built and how well it finds neighbours.
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
    """Returns the network with the requested lookup, and how well it finds neighbours.

    Args:
        memory: The entries.
        dnd: The layer that they come from: its kernel and number of neighbours.
        embedding: The network that made the keys.
        lookup: One of `LOOKUPS`; a small memory always gets the exact one.
        recall: Share of the true neighbours that an inverted file has to find.
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
    """Raises the probes of a search until its memory finds and decides well enough.

    Args:
        search: What the memory looks up with.
        memory: Of the entries.
        keys: To look up, [B, key_size].
        truth: Their true neighbours.
        recall: Share of them to be found, over all actions; besides, `_AGREEMENT` of the actions
            have to be those of the exact lookup.
    """
    while search.probes < 3 * search.num_blocks:  # then it sees every list, and every block
        found = _neighbours(memory, keys)
        if _recall(found, truth) >= recall and _agreement(found, truth) >= _AGREEMENT:
            return
        search.probes = -(-search.probes * 8 // 7)


def _neighbours(memory: FrozenMemory, keys: np.ndarray) -> Neighbours:
    """Returns the neighbours of keys [B, key_size], in a graph traced for this once."""
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
    """Returns how often the best action is the same."""
    best, exactly = (
        np.argmax(tf.reduce_sum(n.weights * n.values, axis=-1), axis=1) for n in (found, truth)
    )
    return float(np.mean(best == exactly))
