"""Exports an agent as numbered versions for TF Serving, each with its memory as files."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from nec_tf.runtime.errors import UserError
from nec_tf.runtime.folders import require_local_folder
from nec_tf.runtime.version import VERSION
from nec_tf.serving import checking, memory_files
from nec_tf.serving.freezing import Frozen
from nec_tf.serving.frozen_policy import save


class Freezable(Protocol):
    """An agent that can be exported; all agents of the registry can."""

    def freeze(self, lookup: str, recall: float, states: np.ndarray) -> Frozen:
        """Returns the policy, the memory and measurements."""


def export(
    agent: Freezable,
    states: np.ndarray,
    output_dir: Path,
    lookup: str = "ivf",
    recall: float = 0.99,
    version: int | None = None,
    source: dict[str, Any] | None = None,
    log: Callable[[str], None] = lambda text: None,
) -> Path:
    """Writes a new version and returns its folder.

    Args:
        agent: The agent to export.
        states: States that the agent visits, [n, ...]; the lookup is measured on them.
        output_dir: The folder that a server watches.
        lookup: One of `freezing.LOOKUPS`.
        recall: Smallest share of the true neighbours that an inverted file may find.
        version: Version number; None for the next one.
        source: Origin of the agent for the manifest, such as its run and `frames`.
        log: Called with a line of text before each stage.
    """
    if version is not None and version < 1:
        raise UserError(f"version must be at least 1, not {version}")
    if not 0.0 < recall <= 1.0:
        raise UserError(f"recall must be above 0 and at most 1, not {recall}")
    require_local_folder("output_dir", output_dir)
    source = source or {}
    number = next_version(output_dir) if version is None else version
    _require_new(output_dir / str(number))
    log("freezing the policy")
    frozen = agent.freeze(lookup, recall, states)
    log("writing")
    unfinished = output_dir / f"unfinished-{number}"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    save(frozen.policy, str(unfinished), source.get("frames", 0))
    _write_warmup(unfinished, output_dir.resolve().name, states[:8], log)
    checking.write(unfinished, frozen.policy, states)
    about: dict[str, Any] = {"export": frozen.measured, "source": source, "nec_tf": VERSION}
    if frozen.memory is not None:
        frozen.memory.about |= about
        memory_files.save(frozen.memory, unfinished / "memory")
        about["entries"] = len(frozen.memory)
    about["version"] = number
    about["megabytes"] = round(_size(unfinished) / 1e6, 3)
    log("measuring the latency")
    about["latency"] = checking.latency(unfinished, states[:1])
    (unfinished / "export.json").write_text(json.dumps(about, indent=1) + "\n")
    return _put_in_place(unfinished, output_dir, number)


def _write_warmup(
    folder: Path, model_name: str, states: np.ndarray, log: Callable[[str], None]
) -> None:
    """Writes warm-up requests, which need the messages of TF Serving, an optional package."""
    try:
        from nec_tf.serving.warmup import write_warmup
    except ModuleNotFoundError as error:
        if not str(error.name).startswith("tensorflow_serving"):
            raise
        log("without warm-up requests, for which pip install 'nec_tf[serving]' is missing")
        return
    write_warmup(folder, model_name, states)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def versions(output_dir: Path) -> list[Path]:
    """Returns the folders of the versions, the newest first."""
    folders = [path for path in output_dir.glob("*") if path.name.isdecimal()]
    return sorted(folders, key=lambda path: int(path.name), reverse=True)


def find_version(folder: Path) -> Path:
    """Returns a version: the folder itself, or the newest in it."""
    if (folder / "saved_model.pb").exists():
        return folder
    found = versions(folder)
    if not found:
        raise UserError(f"{folder} holds no export: name the folder that export wrote")
    return found[0]


def next_version(output_dir: Path) -> int:
    """Returns the number after the highest version in a folder."""
    return max((int(path.name) for path in versions(output_dir)), default=0) + 1


def _require_new(folder: Path) -> None:
    if folder.exists():
        raise UserError(f"{folder} exists already: leave --version out for the next number")


def _put_in_place(unfinished: Path, output_dir: Path, number: int) -> Path:
    """Renames a finished version, so that a server never sees an incomplete one."""
    final = output_dir / str(number)
    _require_new(final)
    unfinished.rename(final)
    if not (final / "memory").exists():
        return final
    link = output_dir / "unfinished-memory"
    link.unlink(missing_ok=True)
    link.symlink_to(Path(final.name) / "memory")
    os.replace(link, output_dir / "memory")  # always the newest memory
    return final


def describe(folder: Path) -> str:
    """Returns a line with the size of an export and the accuracy of its lookup."""
    about = json.loads((folder / "export.json").read_text())
    facts = ", ".join(f"{name} {value}" for name, value in about["export"].items())
    entries = f"{about['entries']:,} entries, " if "entries" in about else ""
    return f"{folder}: {entries}{facts}"
