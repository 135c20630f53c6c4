import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.loop_summary import bars, columns
from benchmarks.report import table

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def report():
    command = [sys.executable, "-m", "benchmarks.loop", "--json", "--entries=0", "--num_envs=1,2"]
    done = subprocess.run([*command, "--steps=100"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_there_is_a_row_for_each_agent_and_number_of_environments(report):
    asked = [(row["agent"], row["num_envs"], row["entries"]) for row in report["rows"]]
    assert asked == [(agent, envs, 0) for agent in ("nec", "mfec") for envs in (1, 2)]


def test_irreducible_work_and_the_loop_are_of_the_same_steps(report):
    for row in report["rows"]:
        milliseconds = sum(row[f"{part}_ms"] for part in ("emulator", "forward", "training"))
        assert row["efficiency"] == pytest.approx(milliseconds * row["steps_per_s"] / 1e3)
        assert row["frames_per_s"] == pytest.approx(4 * row["steps_per_s"])
        assert row["worst_step_s"] > 1 / row["steps_per_s"]
        assert (row["training_ms"] > 0.1) == (row["agent"] == "nec")  # milliseconds


def test_shares_add_up_to_the_whole(report):
    for row in report["rows"]:
        shares = [value for name, value in row.items() if name.startswith("share_")]
        assert sum(shares) == pytest.approx(1.0)
        assert min(shares) >= 0.0


def make_row(agent, num_envs, entries, frames_per_s):
    return {
        "agent": agent,
        "num_envs": num_envs,
        "entries": entries,
        "efficiency": 0.75,
        "frames_per_s": frames_per_s,
        "worst_step_s": 1.5,
    }


def test_bars():
    rows = [
        make_row("nec", 1, 0, 400.0),
        make_row("nec", 8, 0, 600.0),
        make_row("nec", 1, 500_000, 320.0),
        make_row("mfec", 1, 0, 1_600.0),
    ]
    values = {bar["name"]: bar["value"] for bar in bars(rows)}
    assert values == {
        "efficiency at 500,000": 0.75,
        "efficiency at 0": 0.75,
        "frames/s, 500,000 to 0": 0.8,
        "worst step in s at 500,000": 1.5,
        "frames/s, 8 envs to 1, at 0": 1.5,
        "frames/s, MFEC to NEC, at 0": 4.0,
        "frames/s, 8 envs to 1, at 500,000": None,
    }


def test_the_table_shows_what_all_rows_have(report):
    rows = report["rows"]
    shown = table(rows, columns(rows), report["bars"]).splitlines()
    assert len(shown) == 1 + len(rows) + len(report["bars"])
    assert "frames_per_s" in shown[0]
    assert "share_train" not in shown[0]  # MFEC does not train
