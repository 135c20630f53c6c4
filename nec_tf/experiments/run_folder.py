"""The folder of a run: its configuration and its metrics; `checkpoints.py` has the rest."""

import csv
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from nec_tf.experiments import durable
from nec_tf.runtime.errors import UserError

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
        durable.write_text(self.path / "config.json", json.dumps(config, indent=2) + "\n")

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


def _flat(config: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings of a configuration and of those within it, by name."""
    flat: dict[str, Any] = {}
    for name, value in config.items():
        flat |= _flat(value) if isinstance(value, dict) else {name: value}
    return flat
