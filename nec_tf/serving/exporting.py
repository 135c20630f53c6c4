"""Exports an agent as numbered versions for TF Serving, each with its memory as files."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from nec_tf.runtime import durable
from nec_tf.runtime.errors import UserError
from nec_tf.runtime.folders import require_local_folder
from nec_tf.runtime.version import VERSION
from nec_tf.serving import checking, memory_files
from nec_tf.serving.compacting import Compact, compacted
from nec_tf.serving.freezing import Frozen
from nec_tf.serving.frozen_policy import save


class Freezable(Protocol):
    """An agent that can be exported; all agents of the registry can.

    Attributes:
        time_step_spec: Time step spec of its environment.
    """

    time_step_spec: Any

    def freeze(self, lookup: str, recall: float, states: np.ndarray) -> Frozen:
        """Returns the policy, the memory and measurements."""


def export(
    agent: Freezable,
    output_dir: str | Path,
    states: Any = None,
    lookup: str = "ivf",
    recall: float = 0.99,
    version: int | None = None,
    compact: Compact | None = None,
    source: dict[str, Any] | None = None,
    log: Callable[[str], None] = lambda text: None,
) -> Path:
    """Writes the policy of an agent as a new version for TF Serving; returns its folder.

    For scripts with an agent of their own; `TrainedRun.export` does it for a run.

    >>> import nec_tf, numpy as np
    >>> from tf_agents.specs import array_spec
    >>> from tf_agents.trajectories.time_step import time_step_spec
    >>> agent = nec_tf.NecAgent(
    ...     time_step_spec(array_spec.ArraySpec([4], np.float32)),
    ...     array_spec.BoundedArraySpec([], np.int64, 0, 1),
    ...     nec_tf.encoders.mlp([4], key_size=8, seed=1),
    ...     nec_tf.NecConfig.small(key_size=8),
    ... )
    >>> states = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    >>> values, ids = np.arange(20.0), np.arange(20)
    >>> known = agent.dnd.write([0, 1] * 10, agent.embedding(states), values, ids)
    >>> nec_tf.export(agent, "exported/mine", states=states).name
    '1'

    Args:
        agent: The agent to export.
        output_dir: The folder that a server watches.
        states: Observations that the agent visits, [n, ...], such as 256 of its replay buffer.
            Lookup and latency are measured on them, and some are kept for `--check`.
        lookup: One of `freezing.LOOKUPS`; a compact export always compares all keys.
        recall: Smallest share of the true neighbours that an inverted file may find.
        version: Version number; None for the next one.
        compact: Stores keys in few bits and no memory files; None for a full export.
        source: Origin of the agent for the manifest, such as its run and `frames`. `evaluate.py`
            and `watch.py` play the task that it names: `{"env": "CartPole-v1"}`, or
            `{"game": "pong", "protocol": "paper"}`.
        log: Called with a line of text before each stage.

    Raises:
        UserError: An argument is not valid; nothing is written.
    """
    if version is not None and version < 1:
        raise UserError(f"version must be at least 1, not {version}")
    if not 0.0 < recall <= 1.0:
        raise UserError(f"recall must be above 0 and at most 1, not {recall}")
    require_local_folder("output_dir", output_dir)
    output_dir, states = Path(output_dir), _checked_states(agent, states)
    source = source or {}
    number = next_version(output_dir) if version is None else version
    _require_new(output_dir / str(number))
    log("freezing the policy")
    frozen = agent.freeze("exact" if compact else lookup, recall, states)
    if compact:
        log(f"rounding the keys to {compact.key_bits} bits")
        frozen = compacted(frozen, states, compact)
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
        if compact:  # what the memory files would say
            about["configuration"] = frozen.memory.about["configuration"]
        else:
            memory_files.save(frozen.memory, unfinished / "memory")
        about["entries"] = len(frozen.memory)
    about["version"] = number
    about["megabytes"] = round(_size(unfinished) / 1e6, 3)
    log("measuring the latency")
    about["latency"] = checking.latency(unfinished, states[:1])
    (unfinished / "export.json").write_text(json.dumps(about, indent=1) + "\n")
    return _put_in_place(unfinished, output_dir, number)


def _checked_states(agent: Freezable, states: Any) -> np.ndarray:
    """Returns states as an array, if they are observations of the agent."""
    spec = agent.time_step_spec.observation
    wanted = f"{spec.dtype.name} [n, {', '.join(map(str, spec.shape))}]"
    if states is None:
        raise UserError(
            f"states are required: observations that the agent visits, {wanted}, such as"
            " next(iter(replay_buffer.as_dataset(sample_batch_size=256)))[0].observation"
        )
    array = np.asarray(states)
    if array.shape[1:] != tuple(spec.shape) or array.dtype != spec.dtype.as_numpy_dtype:
        found = f"{array.dtype} {list(array.shape)}"
        raise UserError(f"states must be observations of the agent, {wanted}, not {found}")
    if not len(array):
        raise UserError("states must hold at least one observation")
    return array


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
        raise UserError(f"{folder} holds no export: `nec-tf export` writes one")
    return found[0]


def next_version(output_dir: Path) -> int:
    """Returns the number after the highest version in a folder."""
    return max((int(path.name) for path in versions(output_dir)), default=0) + 1


def _require_new(folder: Path) -> None:
    if folder.exists():
        raise UserError(f"{folder} exists already: leave --version out for the next number")


def _put_in_place(unfinished: Path, output_dir: Path, number: int) -> Path:
    """Renames a finished version, so that a server, or a power cut, leaves no incomplete one."""
    final = output_dir / str(number)
    _require_new(final)
    durable.sync_folder(unfinished)
    unfinished.rename(final)
    if (final / "memory").exists():
        link = output_dir / "unfinished-memory"
        link.unlink(missing_ok=True)
        link.symlink_to(Path(final.name) / "memory")
        os.replace(link, output_dir / "memory")  # always the newest memory
    durable.sync(output_dir)
    return final


def describe(folder: Path) -> str:
    """Returns a line with the size of an export and the accuracy of its lookup."""
    about = json.loads((folder / "export.json").read_text())
    facts = ", ".join(f"{name} {value}" for name, value in about["export"].items())
    entries = f"{about['entries']:,} entries, " if "entries" in about else ""
    return f"{folder}: {entries}{about['megabytes']} MB, {facts}"
