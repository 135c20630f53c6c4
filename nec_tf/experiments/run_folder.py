"""The folder of a run: configuration, metrics, checkpoints. Nothing in it is ever half written."""

import csv
import json
import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from nec_tf.experiments import run_files
from nec_tf.runtime.errors import DamagedCheckpoint, UserError

#: Checkpoints that can be loaded: the newest, and that of the best evaluation so far.
CHECKPOINTS = ("newest", "best")
_KEPT = 2  # checkpoints: the newest, and the one before in case a disk damages the newest
_MAY_CHANGE = ("frames",)


class RunFolder:
    """Where a run keeps what it leaves behind."""

    def __init__(self, path: str | Path, config: dict[str, Any]) -> None:
        """Opens a folder, new or of the same configuration.

        Raises:
            UserError: The folder belongs to a run of another configuration.
        """
        self.path = Path(path)
        self.path.mkdir(parents=True, exist_ok=True)
        self._require_same(config)
        _write_json(self.path / "config.json", config)

    def save_checkpoint(
        self,
        frames: int,
        checkpoint: tf.train.Checkpoint,
        arrays: dict[str, np.ndarray],
        progress: dict[str, Any],
        best: bool = False,
    ) -> None:
        """Writes a checkpoint aside and renames it into place once it is whole.

        Args:
            frames: Frames trained on.
            checkpoint: Variables.
            arrays: What is saved beside them.
            progress: Content of `progress.json`.
            best: Whether it is also kept as the checkpoint of the best evaluation, by hard links.
        """
        unfinished = self._write_aside(frames, checkpoint, arrays, progress)
        if best:
            # Before the checkpoint itself: after a kill between the two, `drop_bests_after`
            # removes it and the one before is still there.
            aside = self._best / "unfinished"
            shutil.rmtree(aside, ignore_errors=True)
            shutil.copytree(unfinished, aside, copy_function=_link)
            _replace_folder(aside, self._best / _name(frames))
        _replace_folder(unfinished, self._checkpoints / _name(frames))
        for old in run_files.checkpoints(self.path)[:-_KEPT]:
            shutil.rmtree(old)
        for old in sorted(self._best.glob("frames-*"))[:-1]:
            shutil.rmtree(old)

    def save_best(
        self,
        frames: int,
        checkpoint: tf.train.Checkpoint,
        arrays: dict[str, np.ndarray],
        progress: dict[str, Any],
    ) -> None:
        """Writes a checkpoint of the best evaluation when no other one is due. See above."""
        unfinished = self._write_aside(frames, checkpoint, arrays, progress)
        self._best.mkdir(exist_ok=True)
        _replace_folder(unfinished, self._best / _name(frames))

    def drop_bests_after(self, frames: int) -> None:
        """Removes checkpoints of evaluations of a lost session, when a run resumes at `frames`."""
        for path in self._best.glob("frames-*"):
            if path.name > _name(frames):
                shutil.rmtree(path)

    def load_checkpoint(
        self, checkpoint: tf.train.Checkpoint, which: str = "newest"
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]] | None:
        """Restores a checkpoint; returns its arrays and progress, None if there is none.

        Args:
            checkpoint: Variables to restore.
            which: One of `CHECKPOINTS`: the newest, or that of the best evaluation.
        """
        if which == "best":
            chosen = run_files.best_checkpoint(self.path)
        else:
            chosen = next(reversed(run_files.checkpoints(self.path)), None)
        if chosen is None:
            return None
        try:
            progress = json.loads((chosen / "progress.json").read_text())
            with np.load(chosen / "arrays.npz", allow_pickle=False) as file:
                arrays = dict(file)
            checkpoint.read(str(chosen / "model")).assert_existing_objects_matched()
        except (OSError, ValueError, LookupError, AssertionError, zipfile.BadZipFile) as error:
            raise self._damaged(chosen, error) from error
        except tf.errors.OpError as error:
            raise self._damaged(chosen, error) from error
        return arrays, progress

    @property
    def _checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def _best(self) -> Path:
        return self._checkpoints / "best"

    def _write_aside(
        self,
        frames: int,
        checkpoint: tf.train.Checkpoint,
        arrays: dict[str, np.ndarray],
        progress: dict[str, Any],
    ) -> Path:
        unfinished = self._checkpoints / "unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        try:
            checkpoint.write(str(unfinished / "model"))
            np.savez(unfinished / "arrays.npz", **arrays)
            _write_json(unfinished / "progress.json", {**progress, "frames": frames})
        except (OSError, tf.errors.OpError) as error:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise DamagedCheckpoint(
                f"the checkpoint at {frames} frames could not be written to {self.path} ({error});"
                " the one before is whole. Free some space and run the same command again"
            ) from error
        return unfinished

    def _damaged(self, folder: Path, error: Exception) -> DamagedCheckpoint:
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        return DamagedCheckpoint(
            f"the checkpoint {folder} is damaged or incomplete ({reason}); remove that folder to go"
            " on from the one before, or choose another --run_dir to start again"
        )

    def _require_same(self, config: dict[str, Any]) -> None:
        path = self.path / "config.json"
        if not path.exists():
            return
        try:
            before = json.loads(path.read_text())
        except ValueError as error:
            raise UserError(
                f"{path} is not readable as JSON ({error}); choose another --run_dir"
            ) from error
        before, now = _flat(before), _flat(json.loads(json.dumps(config)))
        different = [
            f"{name} was {before.get(name)!r} and is now {now.get(name)!r}"
            for name in sorted({*before, *now})
            if before.get(name) != now.get(name)
            and name not in _MAY_CHANGE
            # A setting that came after the run was begun, and that is left alone, is no difference.
            and (name in before or now[name])
        ]
        if different:
            raise UserError(
                f"{self.path} holds a run of another configuration: {'; '.join(different)}."
                " Give the same flags to go on with it, or another --run_dir to start a new one"
            )


class MetricsLog:
    """`metrics.csv` and TensorBoard. The file holds nothing that depends on the clock."""

    def __init__(self, folder: Path, columns: tuple[str, ...], frames: int) -> None:
        """Opens the log of a run that is at `frames`; later rows of an earlier try are dropped."""
        self._path = folder / "metrics.csv"
        self._columns = ("frames", *columns)
        rows = []
        if self._path.exists():
            with self._path.open() as file:
                rows = [row for row in csv.DictReader(file) if int(row["frames"]) <= frames]
        unfinished = self._path.with_suffix(".unfinished")
        with unfinished.open("w", newline="") as file:
            writer = csv.DictWriter(file, self._columns)
            writer.writeheader()
            writer.writerows(rows)
        os.replace(unfinished, self._path)  # a kill while rows are copied loses none
        self._events = tf.summary.create_file_writer(str(folder / "events"))

    def write(self, frames: int, metrics: dict[str, float], **only_shown: float) -> None:
        """Appends a row; what is `only_shown` goes to TensorBoard but not into the file."""
        with self._path.open("a", newline="") as file:
            csv.DictWriter(file, self._columns).writerow({"frames": frames, **metrics})
        with self._events.as_default(step=frames):
            for name, value in {**metrics, **only_shown}.items():
                tf.summary.scalar(name, value)

    def write_image(self, frames: int, name: str, image: np.ndarray) -> None:
        """Shows an image, uint8 [height, width, 1 or 3], in TensorBoard."""
        with self._events.as_default(step=frames):
            tf.summary.image(name, image[None])

    def flush(self) -> None:
        """Makes sure that TensorBoard sees everything."""
        self._events.flush()


def _name(frames: int) -> str:
    return f"frames-{frames:010d}"


def _replace_folder(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    source.rename(target)


def _link(source: str, target: str) -> None:
    """Makes a hard link, or a copy on file systems that have none."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _flat(config: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings of a configuration and of those within it, by name."""
    flat: dict[str, Any] = {}
    for name, value in config.items():
        flat |= _flat(value) if isinstance(value, dict) else {name: value}
    return flat


def _write_json(path: Path, content: dict[str, Any]) -> None:
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(content, indent=2) + "\n")
    os.replace(unfinished, path)
