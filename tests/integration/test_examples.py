"""The examples run as in their docstrings, with few steps."""

import subprocess
import sys
from pathlib import Path

import pytest
from lanes import needs_reverb

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name, *flags):
    program = [sys.executable, str(EXAMPLES / f"{name}.py"), *flags]
    done = subprocess.run(program, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def last_number(text):
    return float(text.strip().split()[-1])


def test_every_example_is_tested():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {
        "few_shot_keras",
        "reverb_actor_learner",
        "stock_drivers",
    }


def test_stock_drivers():
    """Random play keeps the pole up for 22 steps."""
    out = run("stock_drivers", "--steps=4000").strip().splitlines()[-1]
    assert last_number(out) > 60


@needs_reverb
def test_reverb_actor_learner(tmp_path):
    out = run("reverb_actor_learner", "--steps=3000", f"--root_dir={tmp_path}").splitlines()
    assert last_number(next(line for line in out if line.startswith("mean return"))) > 40
    assert (tmp_path / "policy" / "saved_model.pb").exists()


def test_few_shot_keras():
    out = run("few_shot_keras", "--epochs=4").strip().splitlines()[-1]
    before, after = float(out.split()[5].rstrip(",")), last_number(out)
    assert after > before + 0.1


@pytest.mark.parametrize("name", ["few_shot_keras", "reverb_actor_learner", "stock_drivers"])
def test_an_example_is_read_in_five_minutes(name):
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) <= 150
