"""A memory as files: one .npy file per column and a manifest in JSON.

  manifest.json   format, number of entries, columns with shapes, dtypes and SHA-256 checksums, the
                  configuration of the memory, fingerprint of its network, and its source
  keys.npy        float32 [n, key_size], `h_i`
  values.npy      float32 [n], `v_i`
  actions.npy     int64 [n], action of each entry; ascending
  counts.npy      int64 [A], number of entries of each action
  state_ids.npy   int64 [n], see `nec_tf.memory.state_ids`
  ages.npy        int64 [n], lookups and writes since the entry was last used
  encoder/*.npy   the weights of the embedding network, in the order of `embedding.get_weights()`

The .npy format is documented by NumPy and can be memory-mapped; nothing is pickled. Ages of
different runs can be compared, stamps cannot.
"""

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from nec_tf.memory.dnd import DifferentiableNeuralDictionary
from nec_tf.memory.entries import Entries
from nec_tf.serving.memory_checks import (
    COLUMNS,
    MemoryFilesError,
    checksum,
    read_column,
    require_counts,
    require_encoder,
    require_manifest,
    require_regular,
)

FORMAT = 1


@dataclasses.dataclass
class Memory:
    """A memory outside any layer, with the network that made its keys.

    Attributes:
        entries: The entries of all actions.
        encoder: The weights of the embedding network.
        about: Further content of the manifest: `configuration` and `source`.
    """

    entries: Entries
    encoder: list[np.ndarray]
    about: dict[str, Any]

    def __len__(self) -> int:
        """Returns the number of entries of all actions."""
        return len(self.entries)

    def counts(self) -> np.ndarray:
        """Returns the number of entries of each action, int64 [A]."""
        return self.entries.counts(self.about["configuration"]["num_actions"])


def of_layer(
    dnd: DifferentiableNeuralDictionary, embedding: tf.keras.Model, source: dict[str, Any]
) -> Memory:
    """Returns a copy of a layer's entries, ordered by action.

    Args:
        dnd: The layer.
        embedding: The network that made its keys.
        source: Origin for the manifest, such as a run and its frames.
    """
    entries = dataclasses.replace(dnd.entries(), rows=np.arange(1, 1 + int(dnd.sizes.sum())))
    about = {"configuration": dnd.get_config(), "source": source}
    return Memory(entries, embedding.get_weights(), about)


def save(memory: Memory, folder: Path) -> None:
    """Writes a memory into a new folder."""
    (folder / "encoder").mkdir(parents=True)
    arrays = {name: getattr(memory.entries, name) for name in COLUMNS}
    arrays["counts"] = memory.counts()
    arrays |= {f"encoder/{i:02}": weights for i, weights in enumerate(memory.encoder)}
    columns = {}
    for name, array in arrays.items():
        path = folder / f"{name}.npy"
        np.save(path, array, allow_pickle=False)
        columns[name] = {
            "shape": list(array.shape),
            "dtype": str(array.dtype),
            "sha256": checksum(path),
        }
    manifest = {
        "format": FORMAT,
        "entries": len(memory),
        "encoder": fingerprint(memory.encoder),
        "columns": columns,
        **memory.about,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")


def load(folder: Path) -> Memory:
    """Reads and checks a memory; its columns are memory-mapped from their files."""
    manifest = read_manifest(folder)
    columns = manifest["columns"]
    arrays = {name: read_column(folder, name, column) for name, column in columns.items()}
    require_counts(folder, manifest, arrays)
    encoder = [arrays[name] for name in sorted(arrays) if name.startswith("encoder/")]
    require_encoder(folder, encoder)
    if fingerprint(encoder) != manifest.get("encoder"):
        raise MemoryFilesError(f"{folder}: the weights are not those of the manifest's network")
    configuration = manifest["configuration"]
    entries = _entries({name: arrays[name] for name in COLUMNS})
    entries.require_valid(configuration["num_actions"], configuration["key_size"])
    about = {name: manifest[name] for name in ("configuration", "source")}
    return Memory(entries, encoder, about)


def read_manifest(folder: Path) -> dict[str, Any]:
    """Returns the manifest of a memory."""
    path = folder / "manifest.json"
    if not path.exists():
        raise MemoryFilesError(f"{folder} holds no memory: there is no manifest.json")
    require_regular(folder, path)
    try:
        manifest = json.loads(path.read_text())
    except (ValueError, RecursionError) as error:
        raise MemoryFilesError(f"{path} cannot be read: {error}") from error
    stated = manifest.get("format") if isinstance(manifest, dict) else FORMAT
    if type(stated) is not int or stated != FORMAT:
        raise MemoryFilesError(f"{path} has format {stated!r}, and this version reads {FORMAT}")
    require_manifest(path, manifest)
    return manifest


def merge(memories: Sequence[Memory], capacity: int) -> Memory:
    """Merges memories: keeps the newest entries, at most `capacity` of each action.

    Of entries of the same state and action, the most recently used is kept.

    Args:
        memories: At least one; all keys must be of the same network.
        capacity: Largest number of entries of each action.
    """
    first = memories[0]
    for other in memories[1:]:
        _require_same_encoder(first, other)
    columns = {
        name: np.concatenate([getattr(memory.entries, name) for memory in memories])
        for name in COLUMNS
    }
    newest_first = np.lexsort((columns["ages"], columns["actions"]))
    states = np.stack([columns["actions"], columns["state_ids"]], axis=1)[newest_first]
    _, once = np.unique(states, axis=0, return_index=True)
    kept = newest_first[np.sort(once)]
    place = np.arange(len(kept)) - np.searchsorted(
        columns["actions"][kept], columns["actions"][kept]
    )
    kept = kept[place < capacity]
    sources = [memory.about["source"] for memory in memories]
    return Memory(
        _entries({name: column[kept] for name, column in columns.items()}),
        encoder=first.encoder,
        about={**first.about, "source": sources[0] if len(sources) == 1 else {"merged": sources}},
    )


def fill_layer(
    memory: Memory, dnd: DifferentiableNeuralDictionary, embedding: tf.keras.Model
) -> None:
    """Replaces the content of a layer and the weights of its embedding by those of a memory.

    Raises:
        MemoryFilesError: They do not fit; nothing is changed.
    """
    saved = memory.about["configuration"]
    for name in ("num_actions", "key_size", "recognise_by_key"):
        if saved[name] != getattr(dnd, name):
            raise MemoryFilesError(
                f"the memory has {name}={saved[name]}, but the agent has {getattr(dnd, name)}"
            )
    shapes = [weights.shape for weights in embedding.get_weights()]
    if [weights.shape for weights in memory.encoder] != shapes:
        raise MemoryFilesError(
            "the memory is of another network: its weights have the shapes"
            f" {[list(w.shape) for w in memory.encoder]}, those of the agent"
            f" {list(map(list, shapes))}"
        )
    dnd.load_entries(memory.entries)  # checks them before it changes anything
    embedding.set_weights([np.array(weights) for weights in memory.encoder])


def fingerprint(weights: Sequence[np.ndarray]) -> str:
    """Returns a SHA-256 checksum of a network's weights."""
    digest = hashlib.sha256()
    for array in weights:
        digest.update(str((array.shape, str(array.dtype))).encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _entries(columns: dict[str, np.ndarray]) -> Entries:
    """Returns entries with rows 1 to n, their places in the files plus 1."""
    return Entries(**columns, rows=np.arange(1, 1 + len(columns["values"])))


def _require_same_encoder(first: Memory, other: Memory) -> None:
    if fingerprint(first.encoder) != fingerprint(other.encoder):
        raise MemoryFilesError(
            "memories of different networks cannot be merged: their keys are not comparable"
            f" ({first.about['source']} and {other.about['source']}). Each run trains a network of"
            " its own, so only memories of one network merge: name one of them, and train with it"
            " (--init_memory)"
        )
