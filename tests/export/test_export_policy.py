"""The export programs as a person runs them."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf
from tf_agents.trajectories import time_step as ts

import nec_tf
from nec_tf.experiments.exporting import visited_states
from nec_tf.experiments.run import load_run

ROOT = Path(__file__).parents[2]
OLD_EXPORT = ROOT / "tests" / "data" / "export-4b4e278"  # by the version before the move
OLD_RUN = ROOT / "tests" / "data" / "run-4b4e278" / "nec"  # that it was exported from
SMALL = dict(eval_every_frames=200, eval_episodes=1, learning_starts=50, video=False)


def program(name, *flags):
    command = [sys.executable, ROOT / "export" / f"{name}.py", *flags]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_dqn_run_is_exported_as_a_plain_saved_model_that_acts_as_the_agent(tmp_path):
    settings = dict(agent="dqn", evaluation_epsilon=0.0, learning_rate=0.01)
    nec_tf.train("CartPole-v1", 300, run_dir=tmp_path / "run", **settings, **SMALL)
    flags = [f"--run_dir={tmp_path / 'run'}", f"--output_dir={tmp_path / 'exported'}"]
    version = tmp_path / "exported" / "1"
    assert str(version) in program("export_policy", *flags)

    exported = tf.saved_model.load(str(version))
    assert {"serving_default", "action"} <= {*exported.signatures}
    assert "explain" not in exported.signatures
    assert not (version / "memory").exists()
    about = json.loads((version / "export.json").read_text())
    assert about["source"]["env"] == "CartPole-v1"
    assert about["source"]["score"]["episodes"] == 1
    trained, exporting = about["source"]["commands"]
    assert trained == (tmp_path / "run" / "commands.txt").read_text().strip()
    assert "python export/export_policy.py --run_dir=" in exporting

    run = load_run(tmp_path / "run")
    noise = np.random.default_rng(0).normal(0, 2, (256, 4))
    states = (visited_states(run) + noise).astype(np.float32)
    greedy = run.learner.agent.policy.action(ts.restart(tf.constant(states), 256)).action.numpy()
    assert len({*greedy.tolist()}) == 2  # both actions are best somewhere
    served = exported.signatures["serving_default"](observation=tf.constant(states))
    np.testing.assert_array_equal(served["action"], greedy)


def stored(agent):
    entries = agent.dnd.entries()
    return {tuple(key) for key in np.column_stack([entries.actions, entries.keys]).tolist()}


def old_entries():
    actions, keys = (np.load(OLD_EXPORT / "memory" / f"{n}.npy") for n in ("actions", "keys"))
    return {tuple(key) for key in np.column_stack([actions, keys]).tolist()}


def test_an_old_export_is_imported_into_an_old_run(tmp_path):
    shutil.copytree(OLD_RUN, tmp_path / "run")
    flags = f"--memory={OLD_EXPORT}", f"--run_dir={tmp_path / 'run'}"
    assert "598 entries" in program("import_memory", *flags)  # the same ones, merged
    assert stored(load_run(tmp_path / "run").learner.agent) == old_entries()


def test_a_new_run_starts_with_an_old_export(tmp_path):
    settings = SMALL | dict(learning_starts=1_000)  # nothing changes the keys
    run = nec_tf.train(
        "CartPole-v1", 60, run_dir=tmp_path, init_memory=str(OLD_EXPORT), seed=5, **settings
    )
    assert stored(run.agent) > old_entries()
