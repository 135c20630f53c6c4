"""What a checkpoint holds of a memory beside its tables: the trees of the neighbour indices."""

import collections
import io
import zipfile

import numpy as np
import tensorflow as tf

from nec_tf.memory.store import MemoryStore


class SavedTrees(tf.train.experimental.PythonState):
    """The trees of a store's indices; a restore announces new content of the tables.

    TensorFlow has no event for a restore; it restores the Python state of a checkpoint first,
    before the variables are assigned.
    """

    def __init__(self, store: MemoryStore) -> None:
        """Saves and restores the trees of one store."""
        self._store = store

    def serialize(self) -> bytes:
        """Returns all trees as an .npz file with the names `action/array`."""
        buffer = io.BytesIO()
        np.savez(
            buffer,
            **{
                f"{action}/{name}": array
                for action, tree in self._store.trees().items()
                for name, array in tree.items()
            },
        )
        return buffer.getvalue()

    def deserialize(self, string_value: bytes) -> None:
        """Called before the tables are assigned."""
        self._store.invalidate(_trees_in(string_value))


def _trees_in(content: bytes) -> dict[int, dict[str, np.ndarray]]:
    """Returns the trees by action; none if the checkpoint is from before they were saved."""
    trees: dict[int, dict[str, np.ndarray]] = collections.defaultdict(dict)
    if zipfile.is_zipfile(io.BytesIO(content)):
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            for name, array in arrays.items():
                action, _, of_tree = name.partition("/")
                trees[int(action)][of_tree] = array
    return dict(trees)
