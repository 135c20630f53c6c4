"""What a compact export keeps, and what it refuses."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import nec_tf
from nec_tf.runtime.errors import UserError
from nec_tf.serving.compacting import Compact, compacted
from nec_tf.serving.freezing import Frozen

OLD_RUN = Path(__file__).parents[1] / "data" / "run-4b4e278" / "nec"  # 600 steps of CartPole


@pytest.fixture(scope="module")
def frozen():
    """The agent of a run, frozen, and states to ask it about."""
    agent = nec_tf.load_run(OLD_RUN).agent
    states = np.random.default_rng(0).normal(0, 0.3, (64, 4)).astype(np.float32)
    return agent.freeze("exact", 0.99, states), states


@pytest.mark.parametrize("bits", [8, 4])
def test_what_rounding_changes_is_measured(frozen, bits):
    full, states = frozen
    small = compacted(full, states, Compact(bits))
    assert len(small.memory) == len(full.memory)
    mine, true = (np.asarray(one.policy.decide(tf.constant(states))[1]) for one in (small, full))
    difference = np.abs(mine - true)
    assert small.measured["largest_q_difference"] == pytest.approx(difference.max(), rel=1e-3)
    same = np.mean(mine.argmax(axis=1) == true.argmax(axis=1))
    assert small.measured["action_agreement"] == pytest.approx(same)
    assert same >= 0.9
    assert 0 < difference.mean() < 0.5 * true.std()
    assert small.measured["key_bits"] == bits


def test_the_most_recently_used_entries_are_kept(frozen):
    full, states = frozen
    small = compacted(full, states, Compact(8, most_entries=100))
    kept, entries = small.memory.entries, full.memory.entries
    assert len(kept) == 100
    assert np.sort(kept.ages).tolist() == np.sort(entries.ages)[:100].tolist()
    assert (np.diff(kept.actions) >= 0).all()
    known = {tuple(row) for row in np.column_stack([entries.keys, entries.values]).tolist()}
    assert {tuple(row) for row in np.column_stack([kept.keys, kept.values]).tolist()} <= known
    everything = compacted(full, states, Compact(8, most_entries=10_000))
    assert len(everything.memory) == len(entries)


def test_what_cannot_be_made_compact_is_refused(frozen):
    full, states = frozen
    with pytest.raises(UserError, match="no memory, so there is nothing"):
        compacted(Frozen(full.policy, None, {}), states, Compact())
    with pytest.raises(UserError, match="most_entries must be at least 1"):
        compacted(full, states, Compact(most_entries=0))
