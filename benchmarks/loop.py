r"""How near the training loop comes to the speed of the parts that it cannot do without.

`python -m benchmarks.loop [--json] [--entries=0,50000,500000] [--num_envs=1,8]` plays Frostbite
with 18 actions whose memories hold so many keys of a real encoder, and measures in turns, in one
process: the whole loop (act, step, write, one update of 32 in 4 steps), and its irreducible work
for as many steps. 500,000 entries take about 10 GB. A row has:

  agent, num_envs, entries   What was measured; entries of each action.
  efficiency                 Irreducible time / loop time; irreducible are:
    emulator_ms              a step of the emulator with its preprocessing,
    forward_ms               a bare forward of the network for the states that are acted on,
    training_ms              a bare training step of the network on 32 states, a quarter of it;
                             all in milliseconds of an agent step.
  steps_per_s, frames_per_s  Of the loop.
  worst_step_s               The longest step of the loop, in a stretch in which the neighbour
                             indices of all actions come due to be built again at once.
  rss_gb                     Resident memory of the process.
  share_*                    Where the loop's time goes: emulator; act (network and lookup inside
                             TensorFlow); search (neighbour indices); train (waiting for gradients,
                             which a thread computes meanwhile, and applying them); write; index
                             (upkeep of the indices); replay; python (everything else).

MFEC is measured too, at up to 50,000 entries, since it should be several times faster than NEC.
"""

import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from absl import app, flags

from benchmarks.report import table
from trainers import program  # noqa: F401  TensorFlow then has as many threads as in a run

_JSON = flags.DEFINE_bool("json", False, "Print only JSON to stdout.")
_ENTRIES = flags.DEFINE_list("entries", ["0", "50000", "500000"], "Entries of each action.")
_NUM_ENVS = flags.DEFINE_list("num_envs", ["1", "8"], "Environments side by side.")
_AGENTS = flags.DEFINE_list("agents", ["nec", "mfec"], "Agents to measure.")
_STEPS = flags.DEFINE_integer("steps", 2_000, "Agent steps of each row.", lower_bound=100)

_MOST_FOR_MFEC = 50_000  # entries: its keys have to be made first


def main(argv: Sequence[str]) -> None:
    """Measures and prints."""
    del argv
    from benchmarks import loop_measure  # imports TensorFlow, which reads what `program` set

    rows: list[dict[str, Any]] = []
    for agent in _AGENTS.value:
        for entries in map(int, _ENTRIES.value):
            if agent == "mfec" and entries > _MOST_FOR_MFEC:
                continue
            subject = loop_measure.Subject(agent, entries)
            for num_envs in map(int, _NUM_ENVS.value):
                print(f"{agent}, {entries:,} entries, {num_envs} envs", file=sys.stderr)
                rows.append(subject.measure(num_envs, _STEPS.value))
                print(json.dumps(rows[-1]), file=sys.stderr)
            del subject
    report: dict[str, Any] = {"rows": rows, "bars": bars(rows), "cores": os.cpu_count()}
    print(
        json.dumps(report, indent=1) if _JSON.value else table(rows, _columns(rows), report["bars"])
    )


def bars(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns what the loop has to reach, and what it reached; None where it was not measured."""
    by = {(row["agent"], row["num_envs"], row["entries"]): row for row in rows}
    empty, full = by.get(("nec", 1, 0)), by.get(("nec", 1, 500_000))
    worst = [row["worst_step_s"] for row in rows if row["entries"] == 500_000]
    fps = {key: row["frames_per_s"] for key, row in by.items()}

    def ratio(one: tuple[str, int, int], other: tuple[str, int, int]) -> float | None:
        return fps[one] / fps[other] if one in fps and other in fps else None

    wanted = [
        ("efficiency at 500,000", full and full["efficiency"], "at_least", 0.7),
        ("efficiency at 0", empty and empty["efficiency"], "at_least", 0.8),
        ("frames/s, 500,000 to 0", ratio(("nec", 1, 500_000), ("nec", 1, 0)), "at_least", 0.75),
        ("worst step in s at 500,000", max(worst, default=None), "at_most", 2),
    ]
    for entries in sorted({row["entries"] for row in rows}):
        many, one, mfec = ("nec", 8, entries), ("nec", 1, entries), ("mfec", 1, entries)
        wanted.append((f"frames/s, 8 envs to 1, at {entries:,}", ratio(many, one), "at_least", 1.3))
        if entries <= _MOST_FOR_MFEC:
            wanted.append(
                (f"frames/s, MFEC to NEC, at {entries:,}", ratio(mfec, one), "at_least", 3)
            )
    return [{"name": name, "value": value, bound: limit} for name, value, bound, limit in wanted]


def _columns(rows: list[dict[str, Any]]) -> list[str]:
    return [name for name in rows[0] if all(name in row for row in rows)]


if __name__ == "__main__":
    app.run(main)
