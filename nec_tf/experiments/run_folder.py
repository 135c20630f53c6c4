"""The folder of a run: its configuration. `checkpoints.py` and `metrics_log.py` have the rest."""

import dataclasses
import json
from pathlib import Path
from typing import Any

from nec_tf.experiments.run_files import BEFORE_RECORDED, checkpoints, read_object, whole_rows
from nec_tf.experiments.settings import Settings
from nec_tf.runtime import durable
from nec_tf.runtime.errors import UserError

_DEFAULTS = {field.name: field.default for field in dataclasses.fields(Settings)}
# None of these decides a number.
_MAY_CHANGE = ("frames", "checkpoint_every_minutes", "keep_screens", "wandb")


class RunFolder:
    """The folder of a run and its `config.json`."""

    def __init__(self, path: str | Path, config: dict[str, Any]) -> None:
        """Opens a folder, new or of the same configuration. Writes nothing.

        The configuration of a run in which nothing was trained yet, such as one whose environment
        failed at once, may be replaced.

        Raises:
            UserError: The folder belongs to a run of another configuration.
        """
        self.path = Path(path)
        self._config = config
        self._require_same(config)

    def write_config(self) -> None:
        """Makes the folder and writes `config.json`."""
        self.path.mkdir(parents=True, exist_ok=True)
        durable.write_text(self.path / "config.json", json.dumps(self._config, indent=2) + "\n")

    def _require_same(self, config: dict[str, Any]) -> None:
        path = self.path / "config.json"
        if not path.exists():
            return
        before, now = _flat(read_object(path)), _flat(json.loads(json.dumps(config)))
        before = {name: old for name, old in BEFORE_RECORDED.items() if name in now} | before
        trained = _was_trained(self.path)
        different = [
            f"{name} was {before.get(name)!r} and is now {now.get(name)!r}"
            for name in sorted({*before, *now})
            if before.get(name) != now.get(name)
            and name not in _MAY_CHANGE
            and (trained or name not in before)  # without a setting it is of another version
            # A setting that is newer than the run, and is at its default, is no difference.
            and (name in before or (now[name] and now[name] != _DEFAULTS.get(name)))
        ]
        if different:
            raise UserError(
                f"{self.path} holds a run of another configuration: {'; '.join(different)}."
                " Give the same settings to resume it, or another --run_dir to start a new one"
            )


def _was_trained(path: Path) -> bool:
    """Returns whether a run has a checkpoint or a row of metrics."""
    return bool(checkpoints(path)) or bool(whole_rows(path / "metrics.csv")[0])


def _flat(config: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings of a configuration and of those within it, by name."""
    flat: dict[str, Any] = {}
    for name, value in config.items():
        flat |= _flat(value) if isinstance(value, dict) else {name: value}
    return flat
