"""The tree of a ScaNN searcher as arrays, so that a checkpoint can hold it.

Training a tree and assigning 500,000 keys to its leaves takes 2 to 3 s, reading it 0.3 s. ScaNN
writes and reads folders only, whose largest file holds the keys. The keys are in the tables of the
memory already; here the folder lives for a moment and the arrays are everything but the keys.
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from scann.scann_ops.py.scann_ops_pybind import ScannSearcher, scann_pybind

# ScaNN's names of its files, by what they hold.
_CONFIG = "scann_config.pb"
_ASSETS = "scann_assets.pbtxt"
_PARTITIONER = "serialized_partitioner.pb"
_TOKENS = "datapoint_to_token.npy"
_KEYS = "dataset.npy"
_KEYS_OF_8_BITS = "int8_dataset.npy"
_SCALES = "int8_multipliers.npy"
_NORMS = "dp_norms.npy"

_TREE = {"PARTITIONER": _PARTITIONER, "TOKENIZATION_NPY": _TOKENS}
_FLOATS = {"DATASET_NPY": _KEYS}
_8_BITS = {
    "INT8_DATASET_NPY": _KEYS_OF_8_BITS,
    "INT8_MULTIPLIERS_NPY": _SCALES,
    "INT8_NORMS_NPY": _NORMS,
}


def tree_of(searcher: Any) -> dict[str, np.ndarray]:
    """Returns the tree of a searcher.

    Returns:
        config, partitioner: ScaNN's own description of the search and of the leaves, uint8.
        leaves: The leaf of each key, unsigned integers [n].
        scales: 1 / step of the grid of 8-bit keys, [key_size]; [0] if keys are floats.
    """
    with tempfile.TemporaryDirectory(prefix="nec_tf-index-") as name:
        folder = Path(name)
        ScannSearcher(searcher).serialize(name)  # knows the arguments of its version of ScaNN
        leaves = np.load(folder / _TOKENS)
        scales = folder / _SCALES
        return {
            "config": np.fromfile(folder / _CONFIG, np.uint8),
            "partitioner": np.fromfile(folder / _PARTITIONER, np.uint8),
            "leaves": leaves.astype(np.min_scalar_type(int(leaves.max()))),
            "scales": np.load(scales) if scales.exists() else np.empty(0, np.float32),
        }


def searcher_of(tree: dict[str, np.ndarray], keys: np.ndarray) -> Any:
    """Returns a searcher with the given tree; the same as the one that the tree was taken from.

    Args:
        tree: The result of `tree_of`.
        keys: The keys in the searcher, float32 [n, key_size]; on the grid if there is one.
    """
    with tempfile.TemporaryDirectory(prefix="nec_tf-index-") as name:
        folder = Path(name)
        tree["config"].tofile(folder / _CONFIG)
        tree["partitioner"].tofile(folder / _PARTITIONER)
        np.save(folder / _TOKENS, tree["leaves"].astype(np.int32))
        scales = tree["scales"]
        if len(scales):
            np.save(folder / _KEYS_OF_8_BITS, np.rint(keys * scales).astype(np.int8))
            np.save(folder / _SCALES, scales)
            np.save(folder / _NORMS, np.sum(np.square(keys), axis=1, dtype=np.float32))
        else:
            np.save(folder / _KEYS, keys)
        assets = _TREE | (_8_BITS if len(scales) else _FLOATS)
        return scann_pybind.ScannNumpy(name, _description(folder, assets))


def _description(folder: Path, assets: dict[str, str]) -> str:
    return "".join(
        f'assets {{ asset_type: {kind} asset_path: "{folder / name}" }}\n'
        for kind, name in assets.items()
    )
