"""Exports an agent as numbered versions for TF Serving, each with its memory as files."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from nec_tf.runtime.errors import UserError
from nec_tf.serving import memory_files
from nec_tf.serving.freezing import Frozen
from nec_tf.serving.frozen_policy import save
from nec_tf.serving.warmup import write_warmup


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
    source = source or {}
    log("freezing the policy")
    frozen = agent.freeze(lookup, recall, states)
    log("writing")
    number = next_version(output_dir) if version is None else version
    unfinished = output_dir / f"unfinished-{number}"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    save(frozen.policy, str(unfinished), source.get("frames", 0))
    write_warmup(unfinished, output_dir.resolve().name, states[:8])
    about: dict[str, Any] = {"export": frozen.measured, "source": source}
    if frozen.memory is not None:
        frozen.memory.about |= about
        memory_files.save(frozen.memory, unfinished / "memory")
        about["entries"] = len(frozen.memory)
    (unfinished / "export.json").write_text(json.dumps(about, indent=1) + "\n")
    return _put_in_place(unfinished, output_dir, number)


def next_version(output_dir: Path) -> int:
    """Returns the number after the highest version in a folder."""
    folders = output_dir.iterdir() if output_dir.exists() else ()
    return max((int(path.name) for path in folders if path.name.isdigit()), default=0) + 1


def _put_in_place(unfinished: Path, output_dir: Path, number: int) -> Path:
    """Renames a finished version, so that a server never sees an incomplete one."""
    final = output_dir / str(number)
    if final.exists():
        raise UserError(f"{final} exists already: leave --version out for the next number")
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
