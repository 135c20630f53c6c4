import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import loop_agents
from benchmarks.loop_summary import bars, columns
from benchmarks.report import table

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def report():
    command = [sys.executable, "-m", "benchmarks.loop", "--json", "--entries=0", "--num_envs=1,2"]
    command += ["--compare=dqn,a3c", "--steps=100"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
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
        make_row("nec", 1, 500_000, 320.0),
    ]
    values = {bar["name"]: bar["value"] for bar in bars(rows)}
    assert values == {
        "efficiency at 500,000": 0.75,
        "efficiency at 0": 0.75,
        "frames/s, 500,000 to 0": 0.8,
        "worst step in s at 500,000": 1.5,
    }


def test_the_table_shows_what_all_rows_have(report):
    rows = report["rows"]
    shown = table(rows, columns(rows), report["bars"]).splitlines()
    assert len(shown) == 1 + len(rows) + len(report["bars"])
    assert "frames_per_s" in shown[0]
    assert "share_train" not in shown[0]  # MFEC does not train


def test_agents_are_compared_on_pong(report):
    ours = [row for row in report["compared"] if row["agent"] != loop_agents.RIVAL]
    assert [row["agent"] for row in ours] == ["dqn", "a3c"]
    for row in ours:
        assert 0 < row["slowest"] <= row["frames_per_s"] <= row["fastest"]


def test_a_rival_that_is_not_installed_is_left_out_with_a_message(monkeypatch, capsys):
    monkeypatch.setattr(loop_agents, "_RIVAL_PYTHON", loop_agents._ROOT / ".venv-none/bin/python")
    assert loop_agents.measure([], turns=1, steps=1) == []
    assert "`make benchmark` installs it into" in capsys.readouterr().err


class Timed:
    """Takes given seconds for its turns, after one that does not count."""

    def __init__(self, name, seconds, order):
        self.name, self._seconds, self._order = name, [100.0, *seconds], order

    def run(self, steps):
        self._order.append(self.name)
        return self._seconds.pop(0)


def test_runners_take_turns_and_the_first_one_does_not_count():
    order = []
    runners = [Timed("dqn", [1.0, 3.0], order), Timed(loop_agents.RIVAL, [4.0, 4.0], order)]
    rows = loop_agents.in_turns(runners, turns=2, steps=100)
    assert order == ["dqn", loop_agents.RIVAL] * 3
    assert rows[0] == {"agent": "dqn", "frames_per_s": 200.0, "slowest": 400 / 3, "fastest": 400.0}
    values = {bar["name"]: bar["value"] for bar in loop_agents.bars(rows)}
    assert values["frames/s on pong, dqn to stable_baselines3_dqn"] == 2.0
    assert values["frames/s on pong, nec to stable_baselines3_dqn"] is None
