import dataclasses

import numpy as np
import pytest
import tensorflow as tf

import nec_tf
from nec_tf.experiments.registry import AGENTS
from nec_tf.experiments.report.records import load_results
from nec_tf.experiments.results import save_result
from nec_tf.runtime.errors import UserError

SMALL = dict(eval_every_frames=150, eval_episodes=2, learning_starts=50, video=False)


def test_train_returns_a_run_that_evaluates_exports_and_continues(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = nec_tf.train("CartPole-v1", frames=150, **SMALL)
    assert run.run_dir.resolve() == tmp_path / "runs" / "nec-cartpole-v1-1"
    assert 150 <= run.frames < 250
    evaluated = run.evaluate(episodes=3)
    assert len(evaluated.scores) == 3
    assert evaluated.mean == pytest.approx(np.mean(evaluated.scores))
    assert run.evaluate(episodes=3) == evaluated

    before = run.frames
    again = nec_tf.train("CartPole-v1", frames=150, **SMALL)  # nothing is left to do
    assert again.frames == before
    run.train(frames=300)
    assert run.frames >= 300
    loaded = nec_tf.load_run(run.run_dir)
    assert loaded.frames == run.frames
    np.testing.assert_array_equal(loaded.agent.dnd.sizes, run.agent.dnd.sizes)
    assert loaded.evaluate(2) == run.evaluate(2)

    with pytest.raises(UserError, match="there is no folder /nowhere"):
        run.evaluate(1, video="/nowhere/x.mp4")
    with pytest.raises(UserError, match=r"must be a \*\.mp4 or \*\.gif"):
        run.evaluate(1, video=tmp_path / "x.avi")
    with pytest.raises(UserError, match="episodes must be from 1"):
        run.evaluate(0)
    with pytest.raises(UserError, match="seed must be at least 0"):
        run.evaluate(1, seed=-1)
    with pytest.raises(UserError, match="checkpoint must be newest or best"):
        nec_tf.load_run(run.run_dir, "oldest")

    exported = tf.saved_model.load(str(run.export(tmp_path / "exported")))
    observation = tf.zeros([1, 4])
    assert "action" in exported.signatures["serving_default"](observation=observation)


def test_settings_of_the_run_and_of_the_agent_are_taken_by_name(tmp_path):
    run = nec_tf.train(
        "CartPole-v1", 60, agent="mfec", seed=7, run_dir=tmp_path, num_neighbours=5, **MFEC
    )
    assert run.agent.config.num_neighbours == 5
    assert run.agent.config.key_size == 16  # of the preset
    assert "seed=7" not in str(run.run_dir)
    with pytest.raises(UserError, match="seed was 7 and is now 8"):
        nec_tf.train(
            "CartPole-v1", 60, agent="mfec", seed=8, run_dir=tmp_path, num_neighbours=5, **MFEC
        )


MFEC = dict(eval_every_frames=60, eval_episodes=1, video=False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(task="CartPol-v1"), "did you mean CartPole-v1"),
        (dict(task="Frostbit"), "did you mean Frostbite"),
        (dict(task="CartPole-v1", agent="nce"), "did you mean nec"),
        (dict(task="CartPole-v1", capcity=9), "no setting capcity. did you mean capacity"),
        (dict(task="CartPole-v1", frames=0), "frames must be at least 1"),
        (dict(task="CartPole-v1", frames="many"), "frames must be of the type int"),
        (dict(task="CartPole-v1", frames=10**10), "frames must be at most 9,999,999,999"),
        (dict(task="CartPole-v1", run_dir=""), "run_dir is empty"),
        (dict(task="CartPole-v1", seed=2**32), r"seed must be .* below 2\*\*32"),
        (dict(task="CartPole-v1", agent="mfec", encoder="mlp"), "encoder cannot be set for agent"),
        (dict(task="Pendulum-v1"), "must be Discrete"),
    ],
)
def test_a_mistake_is_refused_before_anything_is_written(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=message):
        nec_tf.train(**arguments)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("agent", AGENTS)
def test_every_agent_trains_resumes_evaluates_exports_and_is_recorded_by_the_same_calls(
    agent, tmp_path
):
    small = {
        "learning_starts": 50,
        "vae_steps": 50,
        "vae_updates": 2,
        "epsilon_from": 50,
        "deterministic": True,
        "num_envs": 1,
    }
    settings = {field.name for field in dataclasses.fields(AGENTS[agent].config)} | {"num_envs"}
    given = {name: value for name, value in small.items() if name in settings}
    given |= {"run_dir": tmp_path / "run", "eval_every_frames": 150, "eval_episodes": 1}
    first = nec_tf.train("CartPole-v1", 150, agent=agent, video=False, **given)
    run = nec_tf.train("CartPole-v1", 300, agent=agent, video=False, **given)
    assert first.frames < 300 <= run.frames
    assert nec_tf.load_run(run.run_dir).evaluate(1) == run.evaluate(1)
    exported = tf.saved_model.load(str(run.export(tmp_path / "exported")))
    assert {"serving_default", "action"} <= set(exported.signatures)
    save_result(run.run_dir, tmp_path / "results")
    (curve,) = load_results(tmp_path / "results")
    assert (curve.variant, curve.task, len(curve.evaluations)) == (agent, "cartpole-v1", 2)
