"""The scripts that the documents show, run as a reader would run them, with small budgets."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def scripts(document):
    """The Python blocks of a document."""
    return re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)


def run(script, folder):
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_the_script_for_tf_agents_users_trains_and_saves(tmp_path):
    (script,) = scripts("docs/tf_agents.md")
    shorter = script.replace("STEPS = 20_000", "STEPS = 700")
    assert shorter != script
    done = run(shorter, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "mean return" in done.stdout
    assert (tmp_path / "cartpole_policy" / "saved_model.pb").exists()
    assert (tmp_path / "exported" / "cartpole" / "1" / "memory" / "keys.npy").exists()


def test_the_python_of_the_readme_runs(tmp_path):
    blocks = scripts("README.md")
    assert any("nec_tf.train(" in block for block in blocks)
    for block in blocks:
        shorter = re.sub(r"frames=[\d_]+", "frames=300, eval_episodes=1, video=False", block)
        assert shorter != block or "nec_tf.train(" not in block
        done = run(shorter, tmp_path)
        assert done.returncode == 0, done.stderr
    assert list(tmp_path.rglob("saved_model.pb"))
