"""Makes a frozen agent small, and measures what that changes."""

import dataclasses
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from nec_tf.memory import kernels
from nec_tf.memory.entries import Entries
from nec_tf.runtime.errors import UserError
from nec_tf.serving.compact_memory import CompactMemory
from nec_tf.serving.freezing import Frozen
from nec_tf.serving.frozen_memory import FrozenNetwork
from nec_tf.serving.frozen_policy import FrozenPolicy
from nec_tf.serving.memory_files import Memory

_BATCH = 32  # states answered at once


class Compact(NamedTuple):
    """How small an export is made, for `nec_tf.export` and `TrainedRun.export`.

    >>> import nec_tf
    >>> nec_tf.Compact(key_bits=4)
    Compact(key_bits=4, most_entries=None)

    Attributes:
        key_bits: Bits of each number of a key, 8 or 4.
        most_entries: Entries of all actions to keep, the most recently used ones; None for all.
    """

    key_bits: int = 8
    most_entries: int | None = None


def compacted(frozen: Frozen, states: np.ndarray, settings: Compact) -> Frozen:
    """Returns a frozen agent with keys of few bits.

    Args:
        frozen: The agent, with an exact lookup.
        states: States that it visits, [n, ...]; both are compared on them.
        settings: How small.

    Returns:
        The agent; `measured` has the share of states with the same action and the differences of
        Q-values.

    Raises:
        UserError: It has no memory, or a setting is not valid.
    """
    if frozen.memory is None:
        raise UserError("this agent has no memory, so there is nothing to make compact")
    if settings.most_entries is not None and settings.most_entries < 1:
        raise UserError(f"most_entries must be at least 1, not {settings.most_entries}")
    entries = _most_recently_used(frozen.memory.entries, settings.most_entries)
    configuration = frozen.memory.about["configuration"]
    memory = CompactMemory(
        entries,
        configuration["num_actions"],
        kernels.get(configuration["kernel"]),
        configuration["num_neighbours"],
        settings.key_bits,
    )
    full = frozen.policy
    assert isinstance(full.network, FrozenNetwork)  # as that of every agent with a memory
    network = FrozenNetwork(full.network.embedding, memory)
    policy = FrozenPolicy(full.time_step_spec, full.action_spec, network)
    measured = {"lookup": "exact", "states": len(states), "key_bits": settings.key_bits}
    measured |= _difference(policy, full, states)
    kept = Memory(entries, frozen.memory.encoder, frozen.memory.about)
    return Frozen(policy, kept, measured)


def _most_recently_used(entries: Entries, most: int | None) -> Entries:
    """Returns at most `most` entries, in the order that they had."""
    if most is None or len(entries) <= most:
        return entries
    kept = np.sort(np.argsort(entries.ages, kind="stable")[:most])
    columns = dataclasses.asdict(entries)
    return Entries(**{name: column[kept] for name, column in columns.items()})


def _difference(small: FrozenPolicy, full: FrozenPolicy, states: np.ndarray) -> dict[str, Any]:
    """Returns the share of equal actions, and differences of Q-values in states [n, ...]."""
    mine, true = (_q_values(policy, states) for policy in (small, full))
    difference = np.abs(mine - true)
    return {
        "action_agreement": float(np.mean(mine.argmax(axis=1) == true.argmax(axis=1))),
        "largest_q_difference": float(difference.max()),
        "mean_q_difference": float(difference.mean()),
    }


def _q_values(policy: FrozenPolicy, states: np.ndarray) -> np.ndarray:
    """Returns Q-values [n, A] of states [n, ...]."""
    decide = tf.function(policy.decide, reduce_retracing=True)
    batches = (states[start : start + _BATCH] for start in range(0, len(states), _BATCH))
    return np.concatenate([decide(tf.constant(batch))[1].numpy() for batch in batches])
