"""Metrics of a run: `metrics.csv`, and where they are shown."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from absl import logging

from nec_tf.experiments.evaluation import EVALUATION_COLUMNS
from nec_tf.experiments.run_files import whole_rows
from nec_tf.experiments.shown_metrics import Shown
from nec_tf.memory.diagnostics import Diagnostics
from nec_tf.runtime import durable

_OF_THE_MEMORY = ("memory", "known_states", "rebuilds", *Diagnostics._fields)


class MetricsLog:
    """Writes `metrics.csv`, in which nothing depends on the clock, and shows the same metrics."""

    def __init__(
        self, folder: Path, columns: tuple[str, ...], frames: int, shown: Sequence[Shown] = ()
    ) -> None:
        """Opens the log of a run that is at `frames`; drops later rows of a lost session."""
        self._path = folder / "metrics.csv"
        self._columns = ("frames", *columns)
        rows = self._read()
        content = io.StringIO(newline="")
        writer = csv.DictWriter(content, self._columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(row for row in rows if int(row["frames"]) <= frames)
        durable.write_text(self._path, content.getvalue())
        self._shown = shown

    def _read(self) -> list[dict[str, str]]:
        """Returns the rows that are there; warns of what is lost."""
        rows, lost, unfinished = whole_rows(self._path)
        lost += unfinished
        if lost:
            logging.warning("%s: %d unreadable row(s) at its end were dropped", self._path, lost)
        if unknown := {*(rows[0] if rows else ())} - {*self._columns}:
            logging.warning(
                "%s: columns with unknown names were dropped: %s", self._path, sorted(unknown)
            )
        return rows

    def write(self, frames: int, metrics: dict[str, float], **only_shown: float) -> None:
        """Appends a row; `only_shown` metrics are shown and not in the file."""
        with self._path.open("a", newline="") as file:
            csv.DictWriter(file, self._columns).writerow({"frames": frames, **metrics})
        grouped = {f"{_group(name)}/{name}": v for name, v in {**metrics, **only_shown}.items()}
        for place in self._shown:
            place.scalars(frames, grouped)

    def write_image(self, frames: int, name: str, image: np.ndarray) -> None:
        """Shows an image, uint8 [height, width, 1 or 3]."""
        for place in self._shown:
            place.image(frames, name, image)

    def sync(self) -> None:
        """Waits until all rows are on the disk; call it before a checkpoint is saved."""
        durable.sync(self._path)

    def close(self) -> None:
        """Ends showing metrics; call it at the end of a session."""
        for place in self._shown:
            place.close()


def _group(metric: str) -> str:
    """Returns the group in which a metric is shown."""
    if metric in EVALUATION_COLUMNS:
        return "evaluation"
    if metric in _OF_THE_MEMORY:
        return "memory"
    return "speed" if metric.endswith("_per_second") else "train"
