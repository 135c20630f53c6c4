"""Recall of an index that is too large to be retrained, over millions of writes and evictions.

`python -m benchmarks.turnover [--writes=5000000] [--capacity=350000] [--turn=90] [--json]` writes
keys of a real encoder over real Atari frames to the memory of one action. Above 300,000 keys its
tree is never trained again. Each batch of writes is preceded by lookups of some of its states, as
an agent acts before it writes, so the eviction is by last use. States that come again get a new id
and are moved a little, so that each is a new entry.

An encoder that learns makes other keys of the same frames. `--turn` imitates it: keys are turned by
so many degrees from the first write to the last, each of 32 pairs of dimensions by itself, so that
the tree holds keys of all angles that are still stored.

A row has the recall against exact search: of 64 stored keys, and of 64 held-out states as the
encoder makes their keys now. It fails if one is below 0.9, from which on a run rebuilds an index.
"""

import json
import sys
from collections.abc import Sequence

from absl import app, flags

from benchmarks import real_keys
from benchmarks.report import table
from benchmarks.turnover_measure import Turnover, measure
from nec_tf.memory.probe import LEAST_RECALL

_WRITES = flags.DEFINE_integer("writes", 5_000_000, "Entries to write.", lower_bound=1_000)
_CAPACITY = flags.DEFINE_integer("capacity", 350_000, "Entries of the memory.", lower_bound=100)
_STATES = flags.DEFINE_integer(
    "states", real_keys.STATES, "States of a real game, encoded once.", lower_bound=1_000
)
_TURN = flags.DEFINE_float("turn", 0.0, "Degrees by which keys turn over all writes.")
_ROWS = flags.DEFINE_integer("rows", 20, "Rows of the table.", lower_bound=1)
_JSON = flags.DEFINE_bool("json", False, "Print only JSON to stdout.")
_COLUMNS = ["writes", "entries", "trainings", "recall_stored", "recall_held_out", "seconds"]


def main(argv: Sequence[str]) -> None:
    """Measures and prints; exits with 1 if the recall was too low."""
    del argv
    keys = real_keys.load(_STATES.value)
    given = Turnover(keys, _WRITES.value, _CAPACITY.value, _TURN.value, _ROWS.value)
    rows = list(measure(given))
    least = min(min(row["recall_stored"], row["recall_held_out"]) for row in rows)
    report = {
        "rows": rows,
        "least_recall": least,
        "capacity": _CAPACITY.value,
        "turn": _TURN.value,
        "states": _STATES.value,
        "keys": "Nature DQN encoder, random weights, Frostbite played at random",
    }
    bars = [{"name": "least recall", "value": f"{least:.4f}"}]
    shown = [{name: f"{value:,}" for name, value in row.items()} for row in rows]
    print(json.dumps(report, indent=1) if _JSON.value else table(shown, _COLUMNS, bars))
    if least < LEAST_RECALL:
        sys.exit(f"a recall of {least:.4f} is below {LEAST_RECALL}")


if __name__ == "__main__":
    app.run(main)
