"""The files of a small memory, and changes of them that keep their checksums right."""

import hashlib
import json

import numpy as np
from memories import assert_same_contents, contents, fill, make_dnd

from nec_tf.networks.encoders import mlp
from nec_tf.runtime.errors import UserError
from nec_tf.serving import memory_files


def make_memory(folder):
    """Saves a memory of 40 entries, two actions, keys of 3 numbers; returns its folder."""
    dnd = make_dnd(recognise_by_key=False, dtype="float32")
    fill(dnd, 20)
    memory = memory_files.of_layer(dnd, mlp((5,), 3, seed=1), {"run_dir": "elsewhere"})
    memory_files.save(memory, folder)
    return folder


def load(folder):
    """Loads a memory into a layer that holds another one; it must be unchanged if that fails."""
    dnd, embedding = make_dnd(recognise_by_key=False, dtype="float32"), mlp((5,), 3, seed=2)
    fill(dnd, 5, seed=9)
    before, weights = contents(dnd), embedding.get_weights()
    try:
        memory_files.fill_layer(memory_files.load(folder), dnd, embedding)
    except UserError:
        assert_same_contents(before, contents(dnd))
        for one, other in zip(weights, embedding.get_weights(), strict=True):
            np.testing.assert_array_equal(one, other)
        raise


def rewrite(folder, name, change):
    """Changes a column and gives the manifest the checksum, shape and dtype of the result."""
    path = folder / f"{name}.npy"
    array = change(np.load(path))
    np.save(path, array)
    edit(folder, lambda manifest: manifest["columns"][name].update(describe(path, array)))


def describe(path, array):
    checksum = hashlib.sha256(path.read_bytes()).hexdigest()
    return {"shape": list(array.shape), "dtype": str(array.dtype), "sha256": checksum}


def edit(folder, change):
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    changed = change(manifest)
    path.write_text(json.dumps(manifest if changed is None else changed))
