"""How close the training loop comes to the speed of its irreducible parts.

`python -m benchmarks.loop [--json] [--entries=0,50000,500000] [--num_envs=1,8]` plays Frostbite
with 18 actions. The memory of each action holds `entries` keys of a real encoder. One process
measures the whole loop (act, step, write, one update of 32 states every 4 steps) and the
irreducible work of as many steps. All rows with the same number of entries take turns, so that a
slow minute of the machine affects all of them. 500,000 entries take about 10 GB. A row has:

  agent, num_envs, entries   The agent, its environments and the entries of each action.
  precision                  That of the updates; --precisions=float32,bfloat16 measures both.
  efficiency                 Irreducible time / loop time. The irreducible time is the sum of
    emulator_ms              a step of the emulator with its preprocessing,
    forward_ms               a forward pass of the network for the states that are acted on,
    training_ms              a quarter of a training step of the network on 32 states, in the
                             same precision;
                             all in milliseconds for each agent step.
  steps_per_s, frames_per_s  Speed of the loop.
  worst_step_s               The longest step of the loop, also while the neighbour indices of all
                             actions are due for a rebuild.
  rss_gb                     Resident memory of the process.
  share_*                    Where the loop's time goes: emulator; act (network and lookup inside
                             TensorFlow); search (lookups in the neighbour indices); train (waiting
                             for gradients, which threads compute meanwhile, and applying them);
                             write; index (changes of the indices); replay; python (the rest).

MFEC is measured at up to 50,000 entries.

Then `--compare` agents, all by default, train on Pong in turns with Stable-Baselines3's DQN
(`benchmarks.loop_agents`; left out if `make benchmark` did not install it). A row of `compared` has
frames_per_s of all turns, and of the slowest and the fastest one. `--entries=` measures only this.
"""

import gc
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from absl import app, flags

from nec_tf.runtime import startup

startup.configure(restart=__name__ == "__main__")  # as in a run, before TensorFlow is imported

from benchmarks.loop_summary import MOST_FOR_MFEC, TURNS, bars, columns
from benchmarks.report import table
from nec_tf.experiments.registry import AGENTS

_JSON = flags.DEFINE_bool("json", False, "Print only JSON to stdout.")
_ENTRIES = flags.DEFINE_list("entries", ["0", "50000", "500000"], "Entries of each action.")
_NUM_ENVS = flags.DEFINE_list("num_envs", ["1", "8"], "Numbers of environments.")
_PRECISIONS = flags.DEFINE_list(
    "precisions", ["auto"], "Precisions of NEC's updates to measure; auto: see train_atari.py."
)
_AGENTS = flags.DEFINE_list("agents", ["nec", "mfec"], "Agents to measure.")
_COMPARE = flags.DEFINE_list("compare", list(AGENTS), "Agents to compare on Pong.")
_STEPS = flags.DEFINE_integer("steps", 5_000, "Agent steps of each row.", lower_bound=100)


def main(argv: Sequence[str]) -> None:
    """Measures and prints."""
    del argv
    from benchmarks import loop_agents  # imports TensorFlow: --help does not need it

    rows = _rows_with_memories([int(entries) for entries in _ENTRIES.value if entries])
    print(f"on {loop_agents.GAME}: {', '.join(_COMPARE.value)}", file=sys.stderr)
    compared = loop_agents.measure(_COMPARE.value, TURNS, _STEPS.value // TURNS)
    tables = {"rows": bars(rows), "compared": loop_agents.bars(compared)}
    report: dict[str, Any] = {
        "rows": rows,
        "compared": compared,
        "bars": [bar for each in tables.values() for bar in each],
        "cores": os.cpu_count(),
    }
    if _JSON.value:
        print(json.dumps(report, indent=1))
    else:
        measured = [name for name in tables if report[name]]
        print(*(table(report[n], columns(report[n]), tables[n]) for n in measured), sep="\n\n")


def _rows_with_memories(sizes: list[int]) -> list[dict[str, Any]]:
    """Returns the rows of agents with so many entries of each action."""
    from benchmarks import loop_measure

    rows: list[dict[str, Any]] = []
    for entries in sizes:
        agents = [name for name in _AGENTS.value if name != "mfec" or entries <= MOST_FOR_MFEC]
        print(f"{entries:,} entries: {', '.join(agents)}", file=sys.stderr)
        subjects = [
            loop_measure.Subject(name, entries, precision)
            for name in agents
            for precision in (_PRECISIONS.value if name == "nec" else ["float32"])
        ]
        measured = [
            loop_measure.Row(subject, num_envs)
            for subject in subjects
            for num_envs in map(int, _NUM_ENVS.value)
        ]
        for _ in range(TURNS):
            for row in measured:
                row.turn(_STEPS.value // TURNS)
        rows += [row.result() for row in measured]
        del measured
        gc.collect()  # frees the agents, which are in reference cycles, before the next ones
    return sorted(rows, key=lambda row: _AGENTS.value.index(row["agent"]))


if __name__ == "__main__":
    app.run(main)
