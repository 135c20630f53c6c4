"""Neighbour search with ScaNN's own TensorFlow operations, for servers that link them.

Every searcher gets a unique `shared_name`: two searchers without one in the same SavedModel mix up
their keys.
"""

import itertools
import uuid

import numpy as np
import tensorflow as tf
from scann.scann_ops.py import scann_ops

from nec_tf.memory import lookup
from nec_tf.memory.neighbours.scann_index import tree_settings
from nec_tf.serving.graph_search import SPARE

_USUAL_P = 50  # neighbours that a searcher is tuned for; a search may request another number


class ScannOpsSearch(tf.Module):
    """A `Search` (`nec_tf.serving.graph_search`) with one ScaNN searcher per action."""

    def __init__(self, keys: np.ndarray, counts: np.ndarray) -> None:
        """Builds the searchers.

        Args:
            keys: [n, key_size], ordered by action.
            counts: Number of entries of each action, [A].
        """
        super().__init__(name="scann_ops_search")
        self.order = np.arange(-1, counts.sum())
        self._starts = [1, *(1 + np.cumsum(counts)).tolist()]
        unique = uuid.uuid4().hex
        self._names = [f"nec_tf-{unique}-{action}" for action in range(len(counts))]
        self._states = [
            _build(np.ascontiguousarray(keys[start - 1 : end - 1], np.float32))
            for start, end in itertools.pairwise(self._starts)
        ]

    def __call__(
        self, keys: tf.Tensor, squares: tf.Tensor, queries: tf.Tensor, p: int
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """See `Search`."""
        del squares
        found = []
        ranges = itertools.pairwise(self._starts)
        for (start, end), state, name in zip(ranges, self._states, self._names, strict=True):
            count = min(p + SPARE, end - start)
            if count == 0:
                found.append(tf.zeros([tf.shape(queries)[0], p + SPARE], tf.int32))
                continue
            handle = scann_ops.tensors_to_scann(*_tensors(state), shared_name=name)
            near, distances = scann_ops.scann_search_batched(handle, queries, count, -1, -1, False)
            places = tf.where(tf.math.is_nan(distances), 0, start + tf.cast(near, tf.int32))
            missing = p + SPARE - tf.shape(places)[1]
            found.append(tf.pad(places, [[0, 0], [0, missing]]))
        return lookup.nearest(keys, queries, tf.stack(found, axis=1), p)


def _build(keys: np.ndarray) -> scann_ops.ScannState | None:
    """Returns a searcher as variables, which a SavedModel can hold; None if there are no keys."""
    if len(keys) == 0:
        return None
    builder = scann_ops.builder(keys, _USUAL_P, "squared_l2").score_brute_force()
    settings = tree_settings(len(keys), _USUAL_P)
    if settings:
        builder = builder.tree(**settings)
    return builder.build().serialize_to_module()


def _tensors(saved: scann_ops.ScannState) -> list[tf.Variable]:
    return [
        saved.dataset,
        saved.scann_config,
        saved.serialized_partitioner,
        saved.datapoint_to_token,
        saved.ah_codebook,
        saved.hashed_dataset,
        saved.int8_dataset,
        saved.int8_multipliers,
        saved.dp_norms,
    ]
