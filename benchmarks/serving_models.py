"""The SavedModels that `benchmarks.serving` measures, over a large memory of real keys."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts

from benchmarks import real_keys
from nec_tf.memory.dnd import DifferentiableNeuralDictionary
from nec_tf.memory.entries import Entries
from nec_tf.serving.freezing import freeze_memory
from nec_tf.serving.frozen_policy import FrozenPolicy, save
from nec_tf.serving.memory_files import Memory

_EVERY = 40  # steps between two states, so that they differ


def held_out_states(count: int) -> np.ndarray:
    """Returns states of other games than those of the keys, uint8 [count, 84, 84, 4]."""
    played = itertools.islice(real_keys.states(seed=1), _EVERY, None, _EVERY)
    states: list[np.ndarray] = []
    for batch in played:
        states.extend(batch)
        if len(states) >= count:
            break
    return np.stack(states[:count])


def export_both(folder: Path, num_actions: int, recall: float, smooth: bool) -> dict[str, Any]:
    """Writes the exact and the default export of `keys.npy` to the folder.

    Args:
        folder: Holds `keys.npy` [n, key_size] and `states.npy` [m, 84, 84, 4]; gets `exact`, `ivf`.
        num_actions: Every action holds the same keys.
        recall: Share of the true neighbours that the inverted file has to find.
        smooth: Whether near keys have similar values.

    Returns:
        How the default export was built and how well it finds neighbours.
    """
    keys, states = np.load(folder / "keys.npy"), np.load(folder / "states.npy")
    none = np.empty(0, np.int64)
    entries = Entries(
        actions=np.repeat(np.arange(num_actions), len(keys)),
        keys=np.concatenate([keys] * num_actions),
        values=_values(keys, num_actions, smooth),
        state_ids=none,
        ages=none,
        rows=np.arange(1, 1 + num_actions * len(keys)),
    )
    memory = Memory(entries, encoder=[], about={"configuration": {"num_actions": num_actions}})
    dnd = DifferentiableNeuralDictionary(num_actions, keys.shape[1])
    embedding = real_keys.encoder()
    time_step_spec = ts.time_step_spec(tf.TensorSpec([84, 84, 4], tf.uint8))
    action_spec = tensor_spec.BoundedTensorSpec([], tf.int64, 0, num_actions - 1)
    measured: dict[str, Any] = {}
    for lookup in ("exact", "ivf"):
        network, measured = freeze_memory(memory, dnd, embedding, lookup, recall, states)
        policy = FrozenPolicy(time_step_spec, action_spec, network)
        save(policy, str(folder / lookup), frames=0)
    return measured | {"lookup": "ivf"}


def _values(keys: np.ndarray, num_actions: int, smooth: bool) -> np.ndarray:
    """Returns values of keys [n, key_size] for each action, float32 [num_actions * n].

    Smooth values are a linear function of the key with random weights, plus as much noise.
    """
    rng = np.random.default_rng(0)
    values = rng.normal(size=(num_actions, len(keys)))
    if smooth:
        outputs = rng.normal(size=(num_actions, keys.shape[1])) @ (keys - keys.mean(axis=0)).T
        values += outputs / outputs.std(axis=1, keepdims=True)
    return values.astype(np.float32).reshape(-1)
