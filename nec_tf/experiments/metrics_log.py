"""Metrics of a run: `metrics.csv`, and TensorBoard's events."""

import csv
import os
from pathlib import Path

import numpy as np
import tensorflow as tf

from nec_tf.experiments.evaluation import EVALUATION_COLUMNS
from nec_tf.memory.diagnostics import Diagnostics

_OF_THE_MEMORY = ("memory", "known_states", *Diagnostics._fields)


class MetricsLog:
    """Writes `metrics.csv`, in which nothing depends on the clock, and TensorBoard events."""

    def __init__(self, folder: Path, columns: tuple[str, ...], frames: int) -> None:
        """Opens the log of a run that is at `frames`; drops later rows of a lost session."""
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
        """Appends a row; `only_shown` metrics go to TensorBoard but not into the file."""
        with self._path.open("a", newline="") as file:
            csv.DictWriter(file, self._columns).writerow({"frames": frames, **metrics})
        with self._events.as_default(step=frames):
            for name, value in {**metrics, **only_shown}.items():
                tf.summary.scalar(f"{_group(name)}/{name}", value)

    def write_image(self, frames: int, name: str, image: np.ndarray) -> None:
        """Shows an image, uint8 [height, width, 1 or 3], in TensorBoard."""
        with self._events.as_default(step=frames):
            tf.summary.image(name, image[None])

    def flush(self) -> None:
        """Writes everything that is buffered for TensorBoard."""
        self._events.flush()


def _group(metric: str) -> str:
    """Returns the group in which TensorBoard shows a metric."""
    if metric in EVALUATION_COLUMNS:
        return "evaluation"
    if metric in _OF_THE_MEMORY:
        return "memory"
    return "speed" if metric.endswith("_per_second") else "train"
