"""The checkpoints of a run: each is whole or not there, and damage is found before it is used.

checkpoints/frames-0000200000/   model.*        variables, as TensorFlow writes them
                                 arrays.npz     what is saved beside them: replay, random states
                                 progress.json  how far the run was, and that there is a manifest
                                 manifest.json  size and SHA-256 checksum of every other file
checkpoints/best/frames-...      the checkpoint of the best evaluation, by hard links
"""

import hashlib
import json
import os
import shutil
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import tensorflow as tf
from absl import logging

from nec_tf.experiments import run_files
from nec_tf.runtime import durable
from nec_tf.runtime.errors import DamagedCheckpoint

_KEPT = 2  # checkpoints: the newest, and the one before in case a disk damages the newest
_MANIFEST = "manifest.json"
_HAS_MANIFEST = "manifest"  # key of progress.json; checkpoints of older versions have neither
_DIGITS = 10  # of frames in a folder's name
# What reading a damaged file raises, in NumPy, JSON, TensorFlow and our own restore functions.
_DAMAGE = (
    OSError,
    EOFError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    RuntimeError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
    tf.errors.OpError,
)

Restored = TypeVar("Restored")


class State(NamedTuple):
    """What a checkpoint holds.

    Attributes:
        frames: Frames trained on.
        checkpoint: Variables.
        arrays: What is saved beside them.
        progress: Content of `progress.json`.
    """

    frames: int
    checkpoint: tf.train.Checkpoint
    arrays: dict[str, np.ndarray]
    progress: dict[str, Any]


class Checkpoints:
    """The folder `checkpoints` of a run."""

    def __init__(self, run_dir: Path) -> None:
        """Opens the folder; it is created by the first save."""
        self._run_dir = run_dir
        self._folder = run_dir / "checkpoints"
        self._best = self._folder / "best"

    def save(self, state: State, best: bool = False) -> None:
        """Writes a checkpoint and removes older ones.

        Args:
            state: What to save.
            best: Whether it is also kept as the checkpoint of the best evaluation, by hard links.
        """
        unfinished = self._write_aside(state)
        if best:
            # Before the checkpoint itself: after a kill between the two, `drop_bests_after`
            # removes it and the one before is still there.
            aside = self._best / "unfinished"
            shutil.rmtree(aside, ignore_errors=True)
            shutil.copytree(unfinished, aside, copy_function=_link)
            durable.replace_folder(aside, self._best / _name(state.frames))
        durable.replace_folder(unfinished, self._folder / _name(state.frames))
        for old in run_files.checkpoints(self._run_dir)[:-_KEPT]:
            durable.remove_folder(old)
        for old in durable.whole_folders(self._best, "frames-*")[:-1]:
            durable.remove_folder(old)

    def save_best(self, state: State) -> None:
        """Writes a checkpoint of the best evaluation when no other one is due."""
        unfinished = self._write_aside(state)
        self._best.mkdir(exist_ok=True)
        durable.replace_folder(unfinished, self._best / _name(state.frames))

    def drop_bests_after(self, frames: int) -> None:
        """Removes checkpoints of evaluations of a lost session, when a run resumes at `frames`."""
        for path in durable.whole_folders(self._best, "frames-*"):
            if path.name[-_DIGITS:] > _name(frames)[-_DIGITS:]:
                durable.remove_folder(path)

    def load(
        self,
        checkpoint: tf.train.Checkpoint,
        restore: Callable[[dict[str, np.ndarray], dict[str, Any]], Restored],
        which: str = "newest",
    ) -> Restored | None:
        """Restores a checkpoint; a damaged newest one is named, and the one before is used.

        Args:
            checkpoint: Variables to restore.
            restore: Called with the arrays and the progress of the checkpoint.
            which: One of `run_files.CHECKPOINTS`.

        Returns:
            What `restore` returned; None if there is no checkpoint.

        Raises:
            DamagedCheckpoint: There are checkpoints, and all are damaged.
        """
        tried: set[Path] = set()
        damaged = None
        # Listed anew after each failure: a training process may have replaced what a reader tried.
        while left := [path for path in self._candidates(which) if path not in tried]:
            folder = left[0]
            tried.add(folder)
            if damaged is not None:
                logging.warning("the checkpoint before it is used instead")
            try:
                return _read(folder, checkpoint, restore)
            except _DAMAGE as error:
                if not folder.exists():
                    continue
                reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
                logging.warning("the checkpoint %s is damaged: %s", folder, reason)
                damaged = folder, reason, error
        if damaged is None:
            return None
        folder, reason, cause = damaged
        advice = (
            "use --checkpoint=newest"
            if which == "best"
            else "there is no other one; choose another --run_dir to start again"
        )
        raise DamagedCheckpoint(
            f"the checkpoint {folder} is damaged or incomplete ({reason}), and {advice}"
        ) from cause

    def _candidates(self, which: str) -> list[Path]:
        """Returns the checkpoints to try, in this order."""
        if which == "newest":
            return run_files.checkpoints(self._run_dir)[::-1]
        best = run_files.best_checkpoint(self._run_dir)
        return [best] if best else []

    def _write_aside(self, state: State) -> Path:
        """Returns a folder with a whole checkpoint that does not have its name yet."""
        durable.clear_discarded(self._folder)
        unfinished = self._folder / "unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        try:
            state.checkpoint.write(str(unfinished / "model"))
            np.savez(unfinished / "arrays.npz", **state.arrays)
            progress = {**state.progress, "frames": state.frames, _HAS_MANIFEST: True}
            (unfinished / "progress.json").write_text(json.dumps(progress, indent=2) + "\n")
            manifest = {path.name: _describe(path) for path in sorted(unfinished.iterdir())}
            (unfinished / _MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")
        except (OSError, tf.errors.OpError) as error:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise DamagedCheckpoint(
                f"the checkpoint at {state.frames} frames could not be written to {self._run_dir}"
                f" ({error}); the one before is whole. Free some space and run the same command"
                " again"
            ) from error
        return unfinished


def _read(
    folder: Path,
    checkpoint: tf.train.Checkpoint,
    restore: Callable[[dict[str, np.ndarray], dict[str, Any]], Restored],
) -> Restored:
    """Restores one checkpoint; raises one of `_DAMAGE` if anything is wrong with it."""
    progress = json.loads((folder / "progress.json").read_text())
    if progress.pop(_HAS_MANIFEST, False) or (folder / _MANIFEST).exists():
        _require_manifest(folder)
    with np.load(folder / "arrays.npz", allow_pickle=False) as file:
        arrays = dict(file)
    checkpoint.read(str(folder / "model")).assert_existing_objects_matched()
    return restore(arrays, progress)


def _require_manifest(folder: Path) -> None:
    """Raises one of `_DAMAGE` unless the files of a checkpoint are those of its manifest."""
    manifest = json.loads((folder / _MANIFEST).read_text())
    files = {path.name for path in folder.iterdir()} - {_MANIFEST}
    if {*manifest} != files:
        raise ValueError(
            f"the manifest names {sorted(manifest)}, and the files are {sorted(files)}"
        )
    for name, wanted in manifest.items():
        if _describe(folder / name) != wanted:
            raise ValueError(f"{name} is not what was written")


def _describe(path: Path) -> dict[str, Any]:
    """Returns size and checksum of a file."""
    with path.open("rb") as file:
        checksum = hashlib.file_digest(file, "sha256").hexdigest()
    return {"bytes": path.stat().st_size, "sha256": checksum}


def _name(frames: int) -> str:
    return f"frames-{frames:0{_DIGITS}d}"


def _link(source: str, target: str) -> None:
    """Makes a hard link, or a copy on file systems that have none."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
