r"""Speed and recall of neighbour search, on keys of a real encoder over real Atari frames.

`python -m benchmarks.lookup [--json] [--entries=10000,100000] [--backends=scann,exact]`. One
action's memory is filled, looked up, trained and overwritten. Each row has its own process. A row
has:

  recall_at_50              Share of the 50 nearest live keys that a search finds; the queries are
                            held-out keys.
  recall_after_gradients    The same after --steps gradient steps on keys, through the layer: lookup
                            of 32 held-out states under a GradientTape, RowRMSProp.
  recall_after_replacement  The same after these steps and writes that replace 20% of the entries.
  query_ms                  Median time of one query of the index alone, and of NumPy's fastest
  numpy_query_ms            exact search (expanded square, precomputed norms, argpartition). They
                            take turns of 20 queries.
  query_cold_ms             Median of the first query of each turn: NumPy has just read all keys, so
                            the caches are cold, which does not happen in a training loop.
  lookup_ms                 Median time of one query through the layer in a tf.function.
  write_ms                  Time of an entry written to a full memory, in batches of 100: eviction,
                            tables, index, and its share of retraining.
  append_ms                 Time of an entry while the memory is filled in batches of 2,000,
                            including all retrains.
  gradient_step_ms          Time of a gradient step of 32 states: lookup, gradients, RMSProp,
                            refresh of the index, and its share of retraining; with
                            --recognise_by_key, also one write every 25 steps, which computes new
                            ids of the moved keys.
  bytes_per_entry           Growth of the process during the fill, with the optimizer's moments.
  build_s                   Time to build an index from all keys at once, as after an import.

The share of retraining: ScaNN's tree of n keys is retrained after about 4 n changes (moved or
replaced keys), whether or not that happens during a measurement. So the time of retrains is left
out, and build_s / 4 n is added for each change.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from absl import app, flags
from tqdm import tqdm

from benchmarks import lookup_ours, lookup_paper_scale, lookup_rivals, real_keys
from benchmarks.lookup_measure import REPLACED, WRITE_BATCH, P, Settings, distinct
from benchmarks.lookup_summary import bars, table

OURS = ("scann", "exact")

_JSON = flags.DEFINE_bool("json", False, "Print only JSON to stdout.")
_ENTRIES = flags.DEFINE_list(
    "entries", ["10000", "50000", "100000", "500000"], "Sizes of the memory."
)
_BACKENDS = flags.DEFINE_list("backends", [*OURS, *lookup_rivals.RIVALS], "Indices to measure.")
_STEPS = flags.DEFINE_integer("steps", 2_000, "Gradient steps.", lower_bound=1)
_QUERIES = flags.DEFINE_integer("queries", 200, "Held-out keys to look up.", lower_bound=1)
_STATES = flags.DEFINE_integer(
    "states", real_keys.STATES, "States to encode, once; about a fifth of the keys repeat."
)
_RATE = flags.DEFINE_float(
    "keys_learning_rate", 1e-3, "Learning rate of the keys; the default is ten times NEC's."
)
_BY_KEY = flags.DEFINE_bool(
    "recognise_by_key",
    False,
    "Recognise states by their keys, as in the paper, not by ids, as our NEC agent does.",
)
_PAPER_SCALE = flags.DEFINE_bool(
    "paper_scale", False, "Also time one decision with 18 actions of the largest size (9 GB)."
)


def main(argv: Sequence[str]) -> None:
    """Measures and prints."""
    del argv
    sizes = [int(size) for size in _ENTRIES.value]
    backends = _available(_BACKENDS.value)
    refusal = lookup_paper_scale.refusal(max(sizes)) if _PAPER_SCALE.value else None
    if refusal:
        raise app.UsageError(refusal)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # ScaNN logs every training
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        keys = distinct(real_keys.load(_STATES.value))
        np.save(Path(folder) / "keys.npy", keys)
        rows = _measure_rows(sizes, backends, Path(folder))
        decision = _measure_decision(max(sizes), Path(folder)) if _PAPER_SCALE.value else None
    report = {
        "rows": rows,
        "bars": bars(rows),
        "decision": decision,
        **_metadata(backends, keys.shape),
        "seconds": time.perf_counter() - started,
    }
    print(json.dumps(report, indent=1) if _JSON.value else table(report))


def _available(asked: Sequence[str]) -> list[str]:
    """Returns the backends to measure, ours first; warns of those that are not installed."""
    known = [*OURS, *lookup_rivals.RIVALS]
    unknown = [name for name in asked if name not in known]
    if unknown:
        raise app.UsageError(f"--backends: {', '.join(unknown)} is not one of {', '.join(known)}")
    if not set(asked) & set(OURS):
        raise app.UsageError("--backends: rivals search keys that ours has moved; add scann")
    missing = [b for b in asked if b not in OURS and not lookup_rivals.is_installed(b)]
    for name in missing:
        print(
            f"WARNING: {name} IS LEFT OUT: {lookup_rivals.RIVALS[name].module} is not installed."
            " `make benchmark` installs it.",
            file=sys.stderr,
        )
    return [name for name in known if name in asked and name not in missing]


def _measure_rows(sizes: list[int], backends: list[str], folder: Path) -> list[dict[str, Any]]:
    """Returns a row for each size and backend, each measured in its own process."""
    rows = []
    with tqdm(total=len(sizes) * len(backends), unit="row", file=sys.stderr) as progress:
        for size in sizes:
            for backend in backends:
                progress.set_description(f"{backend} {size:,}")
                module = lookup_ours if backend in OURS else lookup_rivals
                rows.append(_in_own_process(module.measure, backend, _settings(size, folder)))
                progress.update()
    return rows


def _measure_decision(size: int, folder: Path) -> dict[str, Any]:
    print(f"filling {lookup_paper_scale.NUM_ACTIONS} memories of {size:,}", file=sys.stderr)
    return _in_own_process(lookup_paper_scale.measure, _settings(size, folder))


def _settings(size: int, folder: Path) -> Settings:
    moved = folder / f"moved-{size}.npz"
    keys = folder / "keys.npy"
    return Settings(keys, size, _STEPS.value, _QUERIES.value, moved, _BY_KEY.value, _RATE.value)


def _in_own_process(function: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def _metadata(backends: list[str], keys_shape: tuple[int, ...]) -> dict[str, Any]:
    """Returns the settings of the measurement."""
    return {
        "keys": "Nature DQN encoder, random weights, Frostbite played at random",
        "states": _STATES.value,
        "distinct_keys": keys_shape[0],
        "key_size": keys_shape[1],
        "neighbours": P,
        "queries": _QUERIES.value,
        "gradient_steps": _STEPS.value,
        "states_per_step": lookup_ours.STATES_PER_STEP,
        "recognise_by_key": _BY_KEY.value,
        "keys_learning_rate": _RATE.value,
        "values_learning_rate": lookup_ours.VALUES_LEARNING_RATE,
        "write_batch": WRITE_BATCH,
        "replaced": REPLACED,
        "cores": os.cpu_count(),
        "notes": [lookup_ours.NOTE]
        + [lookup_rivals.RIVALS[name].note for name in backends if name not in OURS],
    }


if __name__ == "__main__":
    app.run(main)
