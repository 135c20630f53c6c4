"""From a run to what TF Serving loads, with the memory beside it."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from export.warmup import write_warmup
from nec_tf import memory_files
from nec_tf.dnd import Neighbours
from nec_tf.environments.gymnasium_env import GymnasiumEnvironment
from nec_tf.frozen_memory import Entries, FrozenMemory, FrozenNetwork, inverted_file
from nec_tf.n_step_driver import NStepDriver
from nec_tf.neighbours.in_graph import ExactSearch, InvertedFile, Search
from nec_tf.saved_policy import FrozenPolicy, save
from trainers.errors import UserError
from trainers.run import Run

LOOKUPS = ("ivf", "exact", "scann")
EXACT_BELOW = 5_000  # entries of the largest memory: comparing all is as fast
STATES = 256  # of the run, on which a lookup is measured
_FEWEST_PROBES = 4  # blocks of each action
_AGREEMENT = 0.99  # of actions with those of the exact lookup
_ENVS = 8  # that are played to visit them
_EVERY = 8  # steps from one of them to the next


def export(
    run: Run,
    output_dir: Path,
    lookup: str,
    recall: float,
    version: int | None,
    say: Callable[[str], None],
) -> Path:
    """Writes a new version and returns its folder.

    Args:
        run: What to export, at its newest checkpoint.
        output_dir: The folder that a server watches.
        lookup: One of `LOOKUPS`.
        recall: Share of the true neighbours that an inverted file has to find.
        version: Its number; None for one above the highest there.
        say: Hears how it goes.
    """
    agent = run.learner.agent
    if not agent.dnd.sizes.any():
        raise UserError(f"{run.folder.path} has nothing in its memory yet: train it further")
    say(f"visiting {STATES} states")
    states = visited_states(run)
    source = {"run_dir": str(run.folder.path), "frames": run.progress.frames}
    memory = memory_files.of_layer(agent.dnd, agent.embedding, {**source, **run.task.description})
    say(f"building the lookup of {len(memory):,} entries")
    network, measured = build_network(memory, agent, lookup, recall, states)
    memory.about["export"] = measured
    say("writing")
    number = next_version(output_dir) if version is None else version
    unfinished = output_dir / f"unfinished-{number}"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    policy = FrozenPolicy(agent.time_step_spec, agent.action_spec, network)
    save(policy, str(unfinished), run.progress.frames)
    write_warmup(unfinished, output_dir.resolve().name, states[:8])
    memory_files.save(memory, unfinished / "memory")
    return _put_in_place(unfinished, output_dir, number)


def build_network(
    memory: memory_files.Memory, agent: Any, lookup: str, recall: float, states: np.ndarray
) -> tuple[FrozenNetwork, dict[str, Any]]:
    """Returns the network with the lookup that was asked for, and how well it finds neighbours.

    Args:
        memory: The entries.
        agent: An agent with `dnd` and `embedding`.
        lookup: One of `LOOKUPS`; exact where the memory is small.
        recall: See `export`.
        states: To measure on, [n, ...].
    """
    rows = np.arange(1, 1 + len(memory))  # of the memory's files, counted from 1
    entries = Entries(memory.keys, memory.values, rows, memory.counts())
    dnd = agent.dnd
    keys = agent.embedding.predict(states, verbose=0)

    def frozen(search: Search) -> FrozenMemory:
        return FrozenMemory(entries, search, dnd.kernel, dnd.num_neighbours)

    exact = frozen(ExactSearch(entries.counts))
    truth = _neighbours(exact, keys)
    measured: dict[str, Any] = {"lookup": lookup, "states": len(states)}
    if lookup == "exact" or entries.counts.max() < EXACT_BELOW:
        chosen = exact
        measured |= {"lookup": "exact"}
    elif lookup == "scann":
        from nec_tf.neighbours.scann_ops import ScannOpsSearch

        chosen = frozen(ScannOpsSearch(entries.keys - entries.keys.mean(axis=0), entries.counts))
    else:
        search = inverted_file(entries, _FEWEST_PROBES)
        chosen = frozen(search)
        _choose_probes(search, chosen, keys, truth, recall)
        measured |= {"probes": search.probes, "blocks": search.num_blocks}
    found = _neighbours(chosen, keys)
    measured |= {"recall": _recall(found, truth), "action_agreement": _agreement(found, truth)}
    return FrozenNetwork(agent.embedding, chosen), measured


def _choose_probes(
    search: InvertedFile, memory: FrozenMemory, keys: np.ndarray, truth: Neighbours, recall: float
) -> None:
    """Raises the probes of a search until its memory finds and decides well enough.

    Args:
        search: What the memory looks up with.
        memory: Of the entries.
        keys: To look up, [B, key_size].
        truth: Their true neighbours.
        recall: Share of them to be found, over all actions; besides, `_AGREEMENT` of the actions
            have to be those of the exact lookup.
    """
    if not 0.0 < recall <= 1.0:
        raise UserError(f"--recall must be above 0 and at most 1, not {recall}")
    while search.probes < 3 * search.num_blocks:  # then it sees every list, and every block
        found = _neighbours(memory, keys)
        if _recall(found, truth) >= recall and _agreement(found, truth) >= _AGREEMENT:
            return
        search.probes = -(-search.probes * 8 // 7)


def visited_states(run: Run) -> np.ndarray:
    """Plays evaluation games and returns states that the policy came to, [STATES, ...]."""
    environment: GymnasiumEnvironment = run.task.environment(
        _ENVS, run.seed_for("export"), evaluation=True
    )
    run.learner.begin_evaluation(run.seed_for("export"))
    seen: list[np.ndarray] = []
    driver = NStepDriver(
        environment, run.learner.agent.policy, [lambda step: seen.append(step.observation)]
    )
    driver.run(_EVERY * (1 + -(-STATES // _ENVS)))
    environment.close()
    return np.concatenate(seen[_EVERY::_EVERY])[:STATES]


def next_version(output_dir: Path) -> int:
    """Returns one above the highest version in a folder."""
    folders = output_dir.iterdir() if output_dir.exists() else ()
    return max((int(path.name) for path in folders if path.name.isdigit()), default=0) + 1


def _put_in_place(unfinished: Path, output_dir: Path, number: int) -> Path:
    """Renames a finished version: a server sees all of it or nothing."""
    final = output_dir / str(number)
    if final.exists():
        raise UserError(f"{final} exists already: leave --version out for the next number")
    unfinished.rename(final)
    link = output_dir / "unfinished-memory"
    link.unlink(missing_ok=True)
    link.symlink_to(Path(final.name) / "memory")
    os.replace(link, output_dir / "memory")  # the newest memory, where people look for it
    return final


def _neighbours(memory: FrozenMemory, keys: np.ndarray) -> Neighbours:
    """Returns the neighbours of keys [B, key_size], in a graph traced for this once."""
    spec = tf.TensorSpec(keys.shape, keys.dtype)
    return tf.function(memory.neighbours).get_concrete_function(spec)(tf.constant(keys))


def _recall(found: Neighbours, truth: Neighbours) -> float:
    """Returns the share of the true neighbours that were found."""
    mine, true = (n.rows.numpy().reshape(-1, n.rows.shape[-1]) for n in (found, truth))
    hits = sum(
        len(set(some[some > 0].tolist()) & set(every.tolist()))
        for some, every in zip(mine, true, strict=True)
    )
    return hits / max(1, int((true > 0).sum()))


def _agreement(found: Neighbours, truth: Neighbours) -> float:
    """Returns how often the best action is the same."""
    best, exactly = (
        np.argmax(tf.reduce_sum(n.weights * n.values, axis=-1), axis=1) for n in (found, truth)
    )
    return float(np.mean(best == exactly))


def describe(folder: Path) -> str:
    """Returns a sentence on what was exported and how well it finds neighbours."""
    manifest = json.loads((folder / "memory" / "manifest.json").read_text())
    told = ", ".join(f"{name} {value}" for name, value in manifest["export"].items())
    return f"{folder}: {manifest['entries']:,} entries, {told}"
