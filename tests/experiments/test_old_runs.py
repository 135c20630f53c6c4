"""Runs of the version before the move (commit 4b4e278) load, resume and evaluate."""

import csv
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import nec_tf
from nec_tf.experiments.run import load_run

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
OLD = DATA / "run-4b4e278"
# Defaults that changed since: the program names them when it refuses the recorded command.
OLD_DEFAULTS = {"dqn": ["--target_period=10000"]}


def rows(run_dir):
    with (run_dir / "metrics.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("agent", ["nec", "mfec", "dqn"])
def test_an_old_run_resumes_by_its_recorded_command_and_evaluates(agent, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(OLD / agent, folder)
    before = rows(folder)
    (recorded,) = (folder / "commands.txt").read_text().splitlines()
    program, *flags = shlex.split(recorded.split(": python ")[1])
    flags += [*OLD_DEFAULTS.get(agent, []), "--frames=900", f"--run_dir={folder}"]
    command = [sys.executable, ROOT / program, *flags]
    environment = {k: v for k, v in os.environ.items() if k != "TF_ENABLE_ONEDNN_OPTS"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "Resuming" in done.stdout
    after = rows(folder)
    # The same columns in the same order, and one that is newer.
    assert [name for name in after[0] if name != "rebuilds"] == [*before[0]]
    assert [{name: row[name] for name in before[0]} for row in after[: len(before)]] == before
    assert int(after[-1]["frames"]) >= 900
    assert float(after[-1]["eval_mean"]) > 0
    size = "replay" if agent == "dqn" else "memory"
    assert float(after[-1][size]) > float(before[-1][size])

    run = nec_tf.load_run(folder)
    assert run.frames == int(after[-1]["frames"])
    assert len(run.evaluate(episodes=2).scores) == 2


def test_the_memory_of_an_old_run_is_restored_to_the_last_bit():
    entries = nec_tf.load_run(OLD / "nec").agent.dnd.entries()
    for name in ("actions", "keys", "values", "state_ids"):
        exported = np.load(DATA / "export-4b4e278" / "memory" / f"{name}.npy")
        np.testing.assert_array_equal(getattr(entries, name), exported)


def test_an_old_run_goes_on_with_the_arithmetic_that_it_began_with(monkeypatch):
    monkeypatch.setattr("nec_tf.agents.nec.config.has_fast_bfloat16", lambda: True)
    assert load_run(OLD / "nec").config.precision == "float32"
