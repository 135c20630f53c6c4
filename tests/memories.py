"""Memories to test with, and what can be seen of them from outside."""

import numpy as np
import tensorflow as tf

from nec_tf import DifferentiableNeuralDictionary


def make_dnd(**arguments):
    """A small, exact, float64 memory of two actions, unless told otherwise."""
    defaults = {
        "num_actions": 2,
        "key_size": 3,
        "capacity": 100,
        "num_neighbours": 4,
        "index": "exact",
        "dtype": "float64",
    }
    return DifferentiableNeuralDictionary(**{**defaults, **arguments})


def fill(dnd, count, seed=0):
    """Writes `count` random entries to each action, the second one's last; returns the writes."""
    rng = np.random.default_rng(seed)
    actions = np.repeat(np.arange(dnd.num_actions), count)
    keys = rng.normal(size=(len(actions), dnd.key_size))
    values = rng.normal(size=len(actions))
    ids = None if dnd.recognise_by_key else rng.integers(2**60, size=len(actions))
    dnd.write(actions, keys, values, ids)
    return actions, keys, values


def contents(dnd):
    """All that the tables hold, variable by variable, spare rows included."""
    return {name: variable.numpy() for name, variable in dnd.tables.by_name().items()}


def assert_same_contents(before, after):
    assert before.keys() == after.keys()
    for name in before:
        np.testing.assert_array_equal(before[name], after[name], err_msg=name)


def entries(dnd):
    """The entries of each action as (key, value) in the order of their rows."""
    tables = contents(dnd)
    found = [[] for _ in range(dnd.num_actions)]
    for row in range(1, int(tables["size"])):
        entry = (tuple(tables["keys"][row].tolist()), float(tables["values"][row]))
        found[tables["actions"][row]].append(entry)
    return found


def dense(gradient, rows):
    """A gradient of the tables with its slices summed, as far as rows are in use."""
    return tf.convert_to_tensor(gradient).numpy()[:rows]
