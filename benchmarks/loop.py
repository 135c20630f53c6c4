r"""How near the training loop comes to the speed of the parts that it cannot do without.

`python -m benchmarks.loop [--json] [--entries=0,50000,500000] [--num_envs=1,8]` plays Frostbite
with 18 actions whose memories hold so many keys of a real encoder, and measures in one process: the
whole loop (act, step, write, one update of 32 in 4 steps), and its irreducible work for as many
steps. Everything at one number of entries takes turns, so that a machine that is slow for a minute
is slow for all. 500,000 entries take about 10 GB. A row has:

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

import gc
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from absl import app, flags

from benchmarks.loop_summary import MOST_FOR_MFEC, bars, columns
from benchmarks.report import table

_JSON = flags.DEFINE_bool("json", False, "Print only JSON to stdout.")
_ENTRIES = flags.DEFINE_list("entries", ["0", "50000", "500000"], "Entries of each action.")
_NUM_ENVS = flags.DEFINE_list("num_envs", ["1", "8"], "Environments side by side.")
_AGENTS = flags.DEFINE_list("agents", ["nec", "mfec"], "Agents to measure.")
_STEPS = flags.DEFINE_integer("steps", 5_000, "Agent steps of each row.", lower_bound=100)


def main(argv: Sequence[str]) -> None:
    """Measures and prints."""
    del argv
    from benchmarks import loop_measure  # imports TensorFlow, which reads what `program` set

    rows: list[dict[str, Any]] = []
    for entries in map(int, _ENTRIES.value):
        agents = [name for name in _AGENTS.value if name != "mfec" or entries <= MOST_FOR_MFEC]
        print(f"{entries:,} entries: {', '.join(agents)}", file=sys.stderr)
        measured = [
            loop_measure.Row(subject, num_envs)
            for subject in [loop_measure.Subject(name, entries) for name in agents]
            for num_envs in map(int, _NUM_ENVS.value)
        ]
        for _ in range(loop_measure.TURNS):
            for row in measured:
                row.turn(_STEPS.value // loop_measure.TURNS)
        rows += [row.result() for row in measured]
        del measured
        gc.collect()  # agents refer to themselves in circles; the next ones want their memory
    rows.sort(key=lambda row: _AGENTS.value.index(row["agent"]))
    report: dict[str, Any] = {"rows": rows, "bars": bars(rows), "cores": os.cpu_count()}
    print(
        json.dumps(report, indent=1) if _JSON.value else table(rows, columns(rows), report["bars"])
    )


if __name__ == "__main__":
    app.run(main)
