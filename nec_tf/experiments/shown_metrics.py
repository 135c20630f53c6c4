"""Where metrics are shown while a run trains: TensorBoard, and Weights & Biases if asked for.

`metrics.csv` is the record of a run; what is shown here may be lost without harm.
"""

import os
import uuid
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from nec_tf.runtime.errors import UserError
from nec_tf.runtime.folders import require_local_folder


class Shown(Protocol):
    """Shows metrics."""

    def scalars(self, frames: int, metrics: dict[str, float]) -> None:
        """Shows numbers by name, `<group>/<metric>`, at `frames`."""

    def image(self, frames: int, name: str, image: np.ndarray) -> None:
        """Shows an image, uint8 [height, width, 1 or 3]."""

    def close(self) -> None:
        """Writes everything that is buffered; called once, at the end of a session."""


class TensorBoard:
    """Events in the folder `events` of a run."""

    def __init__(self, run_dir: Path) -> None:
        """Begins a file of events."""
        folder = run_dir / "events"
        require_local_folder("the folder of TensorBoard's events", folder)
        self._events = tf.summary.create_file_writer(str(folder))

    def scalars(self, frames: int, metrics: dict[str, float]) -> None:
        """See `Shown`."""
        with self._events.as_default(step=frames):
            for name, value in metrics.items():
                tf.summary.scalar(name, value)

    def image(self, frames: int, name: str, image: np.ndarray) -> None:
        """See `Shown`."""
        with self._events.as_default(step=frames):
            tf.summary.image(name, image[None])

    def close(self) -> None:
        """See `Shown`."""
        self._events.flush()


class Wandb:
    """A run of Weights & Biases; the package `wandb` is imported only here.

    A run that resumes continues its own: the file `wandb_id` keeps which one that is.
    """

    def __init__(self, run_dir: Path, config: dict[str, Any]) -> None:
        """Begins or continues a run; `WANDB_PROJECT` and `WANDB_MODE` are honoured.

        Raises:
            UserError: wandb refuses, such as without a login.
        """
        self._wandb = require_wandb()
        kept = run_dir / "wandb_id"
        if not kept.exists():
            kept.write_text(uuid.uuid4().hex[:12])
        try:
            self._run = self._wandb.init(
                project=os.environ.get("WANDB_PROJECT", "nec_tf"),
                id=kept.read_text().strip(),
                name=run_dir.name,
                dir=str(run_dir),
                config=config,
                resume="allow",
            )
        except self._wandb.errors.Error as error:
            raise UserError(
                f"wandb could not begin: {error}. Run `wandb login`, or set WANDB_MODE=offline to"
                " record without the network"
            ) from error
        # By frames, not by the number of calls: those after a lost session come a second time.
        self._run.define_metric("frames")
        self._run.define_metric("*", step_metric="frames")

    def scalars(self, frames: int, metrics: dict[str, float]) -> None:
        """See `Shown`."""
        self._run.log({"frames": frames, **metrics})

    def image(self, frames: int, name: str, image: np.ndarray) -> None:
        """See `Shown`."""
        self._run.log({"frames": frames, name: self._wandb.Image(image)})

    def close(self) -> None:
        """See `Shown`."""
        self._run.finish()


def require_wandb() -> Any:
    """Returns the module `wandb`.

    Raises:
        UserError: It is not installed.
    """
    try:
        import wandb
    except ModuleNotFoundError as error:
        if error.name != "wandb":
            raise
        raise UserError(
            "--wandb needs the package wandb, which is not installed: pip install 'nec_tf[wandb]'"
        ) from error
    return wandb
