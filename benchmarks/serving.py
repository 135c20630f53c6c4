r"""Speed of the decisions of an exported policy, through TensorFlow's C library as in a server.

`python -m benchmarks.serving [--json] [--entries=50000,500000] [--actions=18]`. The memory holds,
the same keys of a real encoder over real Atari frames for each action. Values differ between
actions: a linear function of the key plus as much noise, or with `--smooth=false` noise alone. Then
actions are nearly equal, and every missed neighbour matters. The decisions are for real frames that
are not in the memory. A row has:

  lookup                exact, or ivf: the default export, with probes chosen for --recall.
  entries               Entries of each action.
  p50_ms, p99_ms        Time of one decision for one state: network, lookup in every action, argmax.
  action_agreement      Share of actions that are those of the exact export.
  batch1_states_per_s   Decisions in a second with one state in a call,
  batch32_states_per_s  and with 32 states in a call.

Both exports of a size take turns, and so do both batch sizes, in one process: noise of the machine
affects both, and the layout of memory differs between processes.
"""

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from absl import app, flags

from benchmarks import real_keys, serving_models
from benchmarks.lookup_measure import distinct
from benchmarks.report import table
from nec_tf.serving import native

_JSON = flags.DEFINE_bool("json", False, "Print only JSON to stdout.")
_ENTRIES = flags.DEFINE_list("entries", ["50000", "500000"], "Entries of each action.")
_ACTIONS = flags.DEFINE_integer("actions", 18, "Number of actions.", lower_bound=1)
_SMOOTH = flags.DEFINE_bool("smooth", True, "Give near keys similar values.")
_RECALL = flags.DEFINE_float("recall", 0.99, "Recall of the inverted file.")
_STATES = flags.DEFINE_integer("states", 256, "Number of states.", lower_bound=32)
_ROUNDS = flags.DEFINE_integer("rounds", 2, "Turns of each export.", lower_bound=1)

LOOKUPS = ("exact", "ivf")
_CALLS = {"exact": 1, "ivf": 8}  # rounds over all states in a turn: about a minute for each export
_COLUMNS = ["lookup", "entries", "p50_ms", "p99_ms", "action_agreement"]
_COLUMNS += ["batch1_states_per_s", "batch32_states_per_s"]


def main(argv: Sequence[str]) -> None:
    """Measures and prints."""
    del argv
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    keys = distinct(real_keys.load(real_keys.STATES))
    states = serving_models.held_out_states(_STATES.value)
    rows = []
    for entries in map(int, _ENTRIES.value):
        with tempfile.TemporaryDirectory() as folder:
            np.save(Path(folder) / "keys.npy", keys[:entries])
            np.save(Path(folder) / "states.npy", states)
            print(f"exporting {_ACTIONS.value} x {entries:,} entries", file=sys.stderr)
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                arguments = Path(folder), _ACTIONS.value, _RECALL.value, _SMOOTH.value
                measured = pool.submit(serving_models.export_both, *arguments).result()
            rows += _measure(Path(folder), entries, states, measured)
    report: dict[str, Any] = {"rows": rows, "bars": bars(rows), "cores": os.cpu_count()}
    print(json.dumps(report, indent=1) if _JSON.value else table(rows, _COLUMNS, report["bars"]))


def _measure(
    folder: Path, entries: int, states: np.ndarray, measured: dict[str, Any]
) -> list[dict[str, Any]]:
    """Returns the rows of one size."""
    program = native.build(folder)
    singles: dict[str, list[np.ndarray]] = {lookup: [] for lookup in LOOKUPS}
    batches: dict[str, list[np.ndarray]] = {lookup: [] for lookup in LOOKUPS}
    actions: dict[str, np.ndarray] = {}
    for turn in range(_ROUNDS.value):
        for lookup in LOOKUPS:
            print(f"{lookup} {entries:,}, turn {turn + 1}", file=sys.stderr)
            decided = native.decide(program, folder / lookup, states, (1, 32), _CALLS[lookup])
            actions[lookup] = decided.actions
            singles[lookup].append(
                decided.milliseconds[1][8:]
            )  # without the first ones, which are slower
            batches[lookup].append(decided.milliseconds[32][1:])
    return [
        {
            "lookup": lookup,
            "entries": entries,
            "p50_ms": float(np.percentile(np.concatenate(singles[lookup]), 50)),
            "p99_ms": float(np.percentile(np.concatenate(singles[lookup]), 99)),
            "action_agreement": float(np.mean(actions[lookup] == actions["exact"])),
            "batch1_states_per_s": float(1e3 / np.mean(np.concatenate(singles[lookup]))),
            "batch32_states_per_s": float(32e3 / np.mean(np.concatenate(batches[lookup]))),
            **(measured if lookup == "ivf" else {}),
        }
        for lookup in LOOKUPS
    ]


def bars(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns each bar of the default export with its value; None if it was not measured."""
    by = {(row["lookup"], row["entries"]): row for row in rows}
    exact, large = by.get(("exact", 500_000)), by.get(("ivf", 500_000))
    small = by.get(("ivf", 50_000))
    faster = exact["p50_ms"] / large["p50_ms"] if exact and large else None
    batching = large["batch32_states_per_s"] / large["batch1_states_per_s"] if large else None
    growth = large["p50_ms"] / small["p50_ms"] if large and small else None
    agreement = large["action_agreement"] if large else None
    slowest = large["p99_ms"] if large else None
    return [
        {"name": "times faster than exact at 500,000", "value": faster, "at_least": 20, "goal": 40},
        {"name": "action agreement", "value": agreement, "at_least": 0.99},
        {"name": "batches of 32 to batches of 1", "value": batching, "at_least": 2},
        {"name": "p50, 500,000 to 50,000", "value": growth, "at_most": 3},
        {"name": "p99 in ms at 500,000, a goal", "value": slowest, "at_most": 10},
    ]


if __name__ == "__main__":
    app.run(main)
