"""A3C through the programs: the same run twice, stopped and resumed, evaluated, exported."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from nec_tf.experiments.run import default_num_envs, load_trained_run
from nec_tf.runtime.cores import num_cores

ROOT = Path(__file__).parents[3]
FLAGS = ("--agent=a3c", "--log_every_frames=200", "--eval_every_frames=400", "--eval_episodes=2")
# Programs choose how TensorFlow rounds, and not the tests.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "TF_ENABLE_ONEDNN_OPTS"}


def run(program, *flags):
    command = [sys.executable, ROOT / program, *flags]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, cwd=ROOT, env=ENVIRONMENT
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def train(folder, frames, *flags):
    return run(
        "trainers/train_gym.py", *FLAGS, f"--run_dir={folder}", f"--frames={frames}",
        "--novideo", *flags,
    )  # fmt: skip


def rows(folder):
    with (folder / "metrics.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def deterministic(tmp_path_factory):
    """Two folders of the same run, each stopped at 800 steps and resumed to 1,200."""
    folders = [tmp_path_factory.mktemp("run") / name for name in ("one", "two")]
    for folder in folders:
        for frames in (800, 1200):
            said = train(folder, frames, "--deterministic", "--num_envs=3")
        assert "Resuming" in said
    return folders


def test_deterministic_runs_are_the_same_to_the_bit_and_so_is_resuming(deterministic):
    one, two = ((folder / "metrics.csv").read_bytes() for folder in deterministic)
    assert one == two
    last = rows(deterministic[0])[-1]
    assert int(last["frames"]) >= 1200
    for name in ("entropy", "policy_loss", "value_loss", "value", "learning_rate", "eval_mean"):
        assert np.isfinite(float(last[name]))


def test_a_run_continues_exactly_from_its_checkpoint(deterministic):
    """Weights, statistics and counters of both folders are equal, and the counters go on."""
    runs = [load_trained_run(folder) for folder in deterministic]
    agents = [run.learner.agent for run in runs]
    for one, two in zip(*(agent.network.variables for agent in agents), strict=True):
        np.testing.assert_array_equal(one, two)
    for one, two in zip(*(agent.optimizer.mean_squares for agent in agents), strict=True):
        np.testing.assert_array_equal(one, two)
        assert np.any(one)
    # Each session drops the steps after its last updates: at most 4 of each of 3 workers.
    assert 1200 - 2 * 3 * 4 <= int(agents[0].steps) <= runs[0].progress.frames
    assert runs[0].learner.arrays() == {}  # workers are made with the first step
    np.testing.assert_array_equal(*(run.learner._restored_states for run in runs))


def test_the_export_agrees_with_the_agent_and_names_its_outputs(deterministic, tmp_path):
    run("export/export_policy.py", f"--run_dir={deterministic[0]}", f"--output_dir={tmp_path}")
    loaded = tf.saved_model.load(str(tmp_path / "1"))
    assert {"serving_default", "action"} <= set(loaded.signatures)
    states = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    answer = loaded.signatures["serving_default"](observation=tf.constant(states))
    assert set(answer) == {"action", "logits", "value"}
    logits, value = load_trained_run(deterministic[0]).learner.agent.network(states)
    np.testing.assert_allclose(answer["logits"], logits, atol=1e-5)
    np.testing.assert_allclose(answer["value"], value, atol=1e-4)
    np.testing.assert_array_equal(answer["action"], np.argmax(logits, axis=1))
    assert len(set(answer["action"].numpy())) == 2


def test_asynchronous_runs_resume_with_counters_and_weights(tmp_path):
    train(tmp_path, 400)
    recorded = json.loads((tmp_path / "config.json").read_text())
    assert recorded["num_envs"] == num_cores()
    before = int(load_trained_run(tmp_path).learner.agent.steps)
    assert before > 300
    assert "Resuming" in train(tmp_path, 800)
    after = load_trained_run(tmp_path).learner.agent
    assert before + 300 < int(after.steps) <= load_trained_run(tmp_path).progress.frames
    assert "scores" in run("trainers/evaluate.py", f"--run_dir={tmp_path}", "--eval_episodes=2")


def test_a_recorded_number_of_environments_is_kept_on_a_machine_with_other_cores(tmp_path):
    assert default_num_envs("a3c", tmp_path) == num_cores()
    assert default_num_envs("nec", tmp_path) == 1
    (tmp_path / "config.json").write_text('{"num_envs": 7}')
    assert default_num_envs("a3c", tmp_path) == 7
