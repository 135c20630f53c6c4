"""Checks of memory files, which may come from elsewhere: all of them come before the first use.

Checksums only show that files are what their manifest says; the manifest itself may be wrong. So
names, places, shapes and types are checked here, and the content in `Entries.require_valid`.
"""

import hashlib
import math
import re
import stat
from pathlib import Path
from typing import Any

import numpy as np

from nec_tf.memory.entries import LARGEST_KEY
from nec_tf.runtime.errors import UserError

COLUMNS = ("keys", "values", "actions", "state_ids", "ages")
_INTEGERS = ("actions", "state_ids", "ages", "counts")
_NAME = re.compile(r"keys|values|actions|state_ids|ages|counts|encoder/\d{2,4}")
_LARGEST_HEADER = 1 << 16  # bytes of a .npy file before its numbers
_MOST_ACTIONS = 100_000  # a bound on what is allocated before the content is checked


class MemoryFilesError(UserError):
    """Files that are not a memory, or not a memory that fits; the message says why."""


def require_manifest(path: Path, manifest: Any) -> None:
    """Checks that a manifest has what the files of a memory need."""
    require(isinstance(manifest, dict), f"{path} is not a JSON object")
    configuration, columns = manifest.get("configuration"), manifest.get("columns")
    require(isinstance(configuration, dict), f"{path} has no configuration")
    require(isinstance(columns, dict), f"{path} has no columns")
    require("source" in manifest, f"{path} has no source")
    for name, most in (("num_actions", _MOST_ACTIONS), ("key_size", 1 << 20)):
        value = configuration.get(name)
        valid = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most
        require(valid, f"{path}: {name} must be an integer from 1 to {most}, not {value!r}")
    by_key = configuration.get("recognise_by_key")
    require(isinstance(by_key, bool), f"{path}: recognise_by_key must be true or false")
    for name in (*COLUMNS, "counts"):
        require(name in columns, f"{path} has no column {name}")
    for name, column in columns.items():
        require(_NAME.fullmatch(name) is not None, f"{path} names an unknown column {name!r}")
        known = isinstance(column, dict) and {"shape", "dtype", "sha256"} <= {*column}
        require(known, f"{path}: column {name} needs a shape, a dtype and a sha256")


def require_regular(folder: Path, path: Path) -> None:
    """Checks that a file is inside of its folder, and not a link, a device or a pipe."""
    inside = path.resolve().is_relative_to(folder.resolve())
    regular = stat.S_ISREG(path.lstat().st_mode)
    require(inside and regular, f"{path} is not a regular file inside of {folder}")


def read_column(folder: Path, name: str, column: dict[str, Any]) -> np.ndarray:
    """Returns a column, mapped from its file, once it is what the manifest says."""
    path = folder / f"{name}.npy"
    if not path.exists():
        raise MemoryFilesError(f"{path} is missing: copy the whole folder")
    require_regular(folder, path)
    _require_size(path, column)  # before a file that is far too large is read for its checksum
    if checksum(path) != column["sha256"]:
        raise MemoryFilesError(f"{path} is damaged: its checksum is not that of the manifest")
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise MemoryFilesError(f"{path} is not a NumPy array: {error}") from error
    require(isinstance(array, np.ndarray), f"{path} is an archive of arrays, not an array")
    found = [list(array.shape), str(array.dtype)]
    stated = [column["shape"], column["dtype"]]
    require(found == stated, f"{path} has shape and dtype {found}, and the manifest says {stated}")
    # Integers that fit into int64, so no uint64; complex numbers and texts for neither.
    kind = array.dtype.kind in "iu" and np.can_cast(array.dtype, np.int64)
    usable = kind if name in _INTEGERS else array.dtype.kind == "f"
    require(usable, f"{path} has the dtype {array.dtype}, which cannot be used")
    wanted = {"keys": 2}.get(name, 1)
    fits = name.startswith("encoder/") or array.ndim == wanted
    require(fits, f"{path} has {array.ndim} dimension(s) instead of {wanted}")
    return array


def _require_size(path: Path, column: dict[str, Any]) -> None:
    try:
        numbers = math.prod(column["shape"])
        largest = numbers * np.dtype(column["dtype"]).itemsize + _LARGEST_HEADER
        valid = path.stat().st_size <= largest
    except (TypeError, ValueError, OverflowError):
        valid = False
    require(valid, f"{path} is larger than the shape and the dtype of the manifest")


def require_counts(folder: Path, manifest: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Checks that lengths, counts and the number of entries agree."""
    entries = manifest.get("entries")
    lengths = {name: len(arrays[name]) for name in COLUMNS}
    agree = type(entries) is int and all(length == entries for length in lengths.values())
    require(agree, f"{folder}: the manifest says {entries} entries, the columns have {lengths}")
    configuration = manifest["configuration"]
    key_shape = (entries, configuration["key_size"])
    require(arrays["keys"].shape == key_shape, f"{folder}: keys must have the shape {key_shape}")
    counts, num_actions = arrays["counts"], configuration["num_actions"]
    actions = np.asarray(arrays["actions"])
    in_range = not entries or (actions.min() >= 0 and actions.max() < num_actions)
    require(in_range, f"{folder}: actions must be from 0 to {num_actions - 1}")
    own = np.bincount(actions, minlength=num_actions)
    require(np.array_equal(counts, own), f"{folder}: counts are not those of the actions")


def require_encoder(folder: Path, encoder: list[np.ndarray]) -> None:
    """Checks that the weights of the network are finite, and can make keys that are."""
    for number, weights in enumerate(encoder):
        usable = bool((np.abs(weights) <= LARGEST_KEY).all())  # False for NaN
        message = f"weights {number} of the network are not finite, or beyond {LARGEST_KEY:g}"
        require(usable, f"{folder}: {message}")


def require(valid: bool, message: str) -> None:
    """Raises `MemoryFilesError` with a message, unless `valid`."""
    if not valid:
        raise MemoryFilesError(message)


def checksum(path: Path) -> str:
    """Returns the SHA-256 checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
