"""What `benchmarks.serving` decides with: SavedModels over a large memory of real keys."""

import itertools
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts

from benchmarks import real_keys
from nec_tf.memory import kernels
from nec_tf.memory.dnd import NUM_NEIGHBOURS
from nec_tf.serving.exporting import build_network
from nec_tf.serving.frozen_policy import FrozenPolicy, save
from nec_tf.serving.memory_files import Memory

_EVERY = 40  # steps between two states, so that they differ


class _Dictionary(NamedTuple):
    kernel: kernels.Kernel
    num_neighbours: int


class _Agent(NamedTuple):
    """What an export asks of an agent."""

    dnd: _Dictionary
    embedding: tf.keras.Model


def held_out_states(count: int) -> np.ndarray:
    """Returns states of games that the keys are not from, uint8 [count, 84, 84, 4]."""
    played = itertools.islice(real_keys.states(seed=1), _EVERY, None, _EVERY)
    states: list[np.ndarray] = []
    for batch in played:
        states.extend(batch)
        if len(states) >= count:
            break
    return np.stack(states[:count])


def export_both(folder: Path, num_actions: int, recall: float, smooth: bool) -> dict[str, Any]:
    """Writes the exact and the default export of `keys.npy` in the folder; returns its measures."""
    keys, states = np.load(folder / "keys.npy"), np.load(folder / "states.npy")
    count = len(keys)
    memory = Memory(
        keys=np.concatenate([keys] * num_actions),
        values=_values(keys, num_actions, smooth),
        actions=np.repeat(np.arange(num_actions), count),
        state_ids=np.empty(0, np.int64),
        ages=np.empty(0, np.int64),
        encoder=[],
        about={"configuration": {"num_actions": num_actions}},
    )
    agent = _Agent(_Dictionary(kernels.InverseDistance(), NUM_NEIGHBOURS), real_keys.encoder())
    time_step_spec = ts.time_step_spec(tf.TensorSpec([84, 84, 4], tf.uint8))
    action_spec = tensor_spec.BoundedTensorSpec([], tf.int64, 0, num_actions - 1)
    measured: dict[str, Any] = {}
    for lookup in ("exact", "ivf"):
        network, measured = build_network(memory, agent, lookup, recall, states)
        policy = FrozenPolicy(time_step_spec, action_spec, network)
        save(policy, str(folder / lookup), frames=0)
    return measured | {"lookup": "ivf"}


def _values(keys: np.ndarray, num_actions: int, smooth: bool) -> np.ndarray:
    """Returns values of keys [n, key_size] for each action, [num_actions * n].

    Smooth ones are what a linear layer of random weights makes of the keys, and as much noise.
    """
    rng = np.random.default_rng(0)
    values = rng.normal(size=(num_actions, len(keys)))
    if smooth:
        outputs = rng.normal(size=(num_actions, keys.shape[1])) @ (keys - keys.mean(axis=0)).T
        values += outputs / outputs.std(axis=1, keepdims=True)
    return values.astype(np.float32).reshape(-1)
