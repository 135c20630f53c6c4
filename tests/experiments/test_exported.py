"""An export plays through its signature, as the agent that it was made from does."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import nec_tf
from nec_tf.experiments.exported import Exported
from nec_tf.experiments.viewer import watching
from nec_tf.runtime.errors import UserError

OLD_RUN = Path(__file__).parents[1] / "data" / "run-4b4e278" / "nec"  # 600 steps of CartPole


@pytest.fixture(scope="module")
def run():
    return nec_tf.load_run(OLD_RUN)


@pytest.fixture(scope="module")
def exported(run, tmp_path_factory):
    return run.export(tmp_path_factory.mktemp("exported"))


@pytest.fixture(scope="module")
def compact(run, tmp_path_factory):
    return run.export(tmp_path_factory.mktemp("compact"), compact=nec_tf.Compact())


def test_it_plays_the_episodes_that_a_greedy_agent_plays(run, exported):
    from nec_tf.experiments.evaluation import evaluate

    greedy = run.agent.post_process_policy()
    expected = evaluate(run.task, greedy, 4, seed=3)
    finished = []
    played = Exported(exported.parent).evaluate(4, seed=3, on_finished=finished.append)
    assert played.scores == expected.scores
    assert [e.actions for e in played.episodes] == [e.actions for e in expected.episodes]
    assert finished[-1] == 4
    assert played.mean == np.mean(played.scores)


def test_a_compact_export_is_played_and_watched(run, compact):
    exported = Exported(compact)
    assert len(exported.evaluate(2, seed=3).scores) == 2
    entries, kernel, p = exported.memory()
    true = run.agent.dnd.entries()
    np.testing.assert_allclose(entries.keys, true.keys, atol=0.1)
    np.testing.assert_array_equal(entries.values, true.values)
    assert (kernel, p) == (run.agent.dnd.kernel, run.agent.dnd.num_neighbours)
    watched = watching.watch_export(compact, seed=5)
    decision = watched.session.moments[0].decision
    shown = [np.sum(near.weights * near.values) for near in decision.neighbours]
    np.testing.assert_allclose(shown, decision.scores, rtol=1e-4)
    row = int(decision.neighbours[0].rows[0])
    assert watched.answers().entry(row)["value"] == pytest.approx(decision.neighbours[0].values[0])
    watched.close()


def test_an_export_that_names_no_task_is_refused_with_what_names_it(exported, tmp_path):
    shutil.copytree(exported, tmp_path / "1")
    about = json.loads((exported / "export.json").read_text())
    (tmp_path / "1" / "export.json").write_text(json.dumps({**about, "source": {}}))
    with pytest.raises(UserError, match="names no task: a script that exports names it by source="):
        Exported(tmp_path).evaluate(1)
    named = {**about, "source": {"env": "CartPole-v1"}}
    (tmp_path / "1" / "export.json").write_text(json.dumps(named))
    assert len(Exported(tmp_path).evaluate(1).scores) == 1
    watching.watch_export(tmp_path, seed=1).close()


def test_a_damaged_manifest_is_one_sentence(exported, tmp_path):
    shutil.copytree(exported, tmp_path / "1")
    (tmp_path / "1" / "export.json").write_text("{")
    with pytest.raises(UserError, match=r"export\.json cannot be read"):
        Exported(tmp_path)
    for content in ("[]", "null", "{}", '{"source": 3, "export": {}}', "[" * 100_000):
        (tmp_path / "1" / "export.json").write_text(content)
        with pytest.raises(UserError, match=r"export\.json"):
            Exported(tmp_path)
    (tmp_path / "1" / "export.json").unlink()
    with pytest.raises(UserError, match=r"export\.json is missing: export the run again"):
        Exported(tmp_path)


def test_a_damaged_model_is_one_sentence(exported, tmp_path):
    shutil.copytree(exported, tmp_path / "1")
    (tmp_path / "1" / "saved_model.pb").write_bytes(b"\xff" * 100)
    with pytest.raises(UserError, match="cannot be loaded as a SavedModel"):
        Exported(tmp_path)


def test_episodes_of_an_export_have_a_limit_of_steps(exported, caplog):
    Exported(exported).evaluate(episodes=1, max_steps=3)
    assert "ended after 3 steps (--eval_max_steps)" in caplog.text
    with pytest.raises(UserError, match="eval_max_steps must be at least 1"):
        Exported(exported).evaluate(episodes=1, max_steps=0)
