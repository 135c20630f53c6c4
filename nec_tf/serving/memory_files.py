"""A memory as files that anything can read: one .npy for each column, and a manifest.

  manifest.json   format, number of entries, columns with shapes, dtypes and SHA-256 checksums, the
                  configuration of the memory, of which network its keys are, and where it is from
  keys.npy        float32 [n, key_size], `h_i`
  values.npy      float32 [n], `v_i`
  actions.npy     int64 [n], to whose memory the entry belongs; ascending
  counts.npy      int64 [A], entries of each action
  state_ids.npy   int64 [n], see `nec_tf.memory.state_ids`
  ages.npy        int64 [n], how many lookups and writes ago the entry was last used
  encoder/*.npy   the weights of the embedding network, in the order of `embedding.get_weights()`

The .npy format is documented by NumPy and can be mapped into memory; nothing is pickled. Ages, not
stamps: clocks of different runs cannot be compared, ages can.
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
        source: Where it comes from, such as a run and its frames.
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
    """Reads a memory, its columns mapped from their files, and checks that nothing is damaged."""
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
    try:
        manifest = json.loads(path.read_text())
    except ValueError as error:
        raise MemoryFilesError(f"{path} cannot be read: {error}") from error
    if isinstance(manifest, dict) and manifest.get("format") != FORMAT:
        raise MemoryFilesError(
            f"{path} has format {manifest.get('format')!r}, and this version reads {FORMAT}"
        )
    require_manifest(path, manifest)
    return manifest


def merge(memories: Sequence[Memory], capacity: int) -> Memory:
    """Returns one memory of the newest entries of several, at most `capacity` of each action.

    A state that several know is taken from where it was used last.

    Args:
        memories: Keys of one network; at least one memory.
        capacity: Of each action's memory.
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
    """Puts a memory and its network's weights into an empty layer and its embedding.

    Raises:
        MemoryFilesError: They do not fit; nothing is changed then.
    """
    saved = memory.about["configuration"]
    for name in ("num_actions", "key_size", "recognise_by_key"):
        if saved[name] != getattr(dnd, name):
            raise MemoryFilesError(
                f"the memory has {name}={saved[name]}, and here it is {getattr(dnd, name)}"
            )
    shapes = [weights.shape for weights in embedding.get_weights()]
    if [weights.shape for weights in memory.encoder] != shapes:
        raise MemoryFilesError(
            "the memory's network is another one: its weights have the shapes"
            f" {[list(w.shape) for w in memory.encoder]}, and here {list(map(list, shapes))}"
        )
    dnd.load_entries(memory.entries)  # checks them before it changes anything
    embedding.set_weights([np.array(weights) for weights in memory.encoder])


def fingerprint(weights: Sequence[np.ndarray]) -> str:
    """Returns a checksum of a network's weights: equal networks have equal ones."""
    digest = hashlib.sha256()
    for array in weights:
        digest.update(str((array.shape, str(array.dtype))).encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _entries(columns: dict[str, np.ndarray]) -> Entries:
    """Returns entries whose rows are those of the files, counted from 1."""
    return Entries(**columns, rows=np.arange(1, 1 + len(columns["values"])))


def _require_same_encoder(first: Memory, other: Memory) -> None:
    if fingerprint(first.encoder) != fingerprint(other.encoder):
        raise MemoryFilesError(
            "memories of different networks cannot be merged: their keys mean different things"
            f" ({first.about['source']} and {other.about['source']})"
        )
