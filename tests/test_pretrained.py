"""Trained agents in the repository: small, and shown by one command."""

import json
import subprocess
from pathlib import Path

import pytest

from nec_tf.serving import checking
from nec_tf.serving.exporting import find_version

ROOT = Path(__file__).parents[1]
LARGEST = 10e6  # bytes of a folder
AGENTS = sorted(path for path in (ROOT / "pretrained").glob("*") if path.is_dir())


def make(*arguments):
    command = ["make", "--old-file=install", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)


def test_the_demo_trains_cartpole_unless_a_game_is_named():
    shown = make("--dry-run", "demo").stdout
    assert "trainers/train_gym.py --env=CartPole-v1" in shown
    assert "trainers/watch.py --run_dir=runs/demo" in shown
    shown = make("--dry-run", "demo", "GAME=Pong", "ARGS=--nobrowser").stdout
    assert "trainers/watch.py --export=pretrained/pong --nobrowser" in shown
    assert "train_gym" not in shown


def test_a_game_without_a_trained_agent_gets_a_sentence():
    done = make("demo", "GAME=Nothing")
    assert done.returncode != 0
    assert "there is no trained agent in pretrained/nothing: train one with" in done.stderr
    assert "make train GAME=Nothing" in done.stderr


@pytest.mark.parametrize("agent", AGENTS, ids=[path.name for path in AGENTS])
def test_a_trained_agent_is_small_and_answers_as_it_did(agent):
    size = sum(path.stat().st_size for path in agent.rglob("*") if path.is_file())
    assert size <= LARGEST
    version = find_version(agent)
    assert "actions are the same" in checking.check(version)
    about = json.loads((version / "export.json").read_text())
    assert about["source"]["game"] == agent.name
    assert about["export"]["action_agreement"] > 0.8
