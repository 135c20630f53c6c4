"""Agents and exports decide on the page as they do anywhere else."""

import hashlib
import shutil

import gymnasium
import numpy as np
import pytest

from nec_tf.experiments.registry import AGENTS, make_config
from nec_tf.experiments.run import Run, load_trained_run
from nec_tf.experiments.settings import Settings
from nec_tf.experiments.tasks import gym_task
from nec_tf.experiments.viewer import watching
from nec_tf.experiments.viewer.action_names import action_names
from nec_tf.experiments.viewer.deciders import PROBABILITIES, decider_of
from nec_tf.experiments.viewer.session import Session
from nec_tf.memory.state_ids import hash_states

from .conftest import OLD


def digest(folder):
    return {
        str(path): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("agent", AGENTS)
def test_every_agent_can_be_watched(agent, tmp_path):
    settings = Settings.preset("small", agent=agent)
    run = Run(tmp_path / "run", gym_task("CartPole-v1"), settings, make_config(agent, "small"))
    session = Session(run.task, decider_of(run), seed=3)
    while len(session.moments) < 5:
        session.after(len(session.moments) - 1)
    decision = session.moments[-1].decision
    assert decision.scores.shape == (2,)
    assert session.moments[-1].score == 4.0
    assert session.moments[-1].picture.startswith(b"\x89PNG")
    has_memory = agent in ("nec", "mfec", "mfec_vae")
    assert (decision.neighbours is not None) == has_memory
    if agent == "a3c":
        assert session.decider.kind == PROBABILITIES
        assert decision.scores.sum() == pytest.approx(1.0)
        assert decision.value is not None
    assert not (tmp_path / "run").exists(), "watching writes nothing"


def test_q_values_and_neighbours_are_those_of_the_agent(nec):
    run = load_trained_run(OLD / "nec")
    agent = run.learner.agent
    environment = run.task.environment(1, 1, evaluation=True)
    environment.seed(5)
    time_step = environment.reset()
    nec.session.restart(5)
    for index in range(10):
        decision = nec.session.moments[index].decision
        key = agent.embedding(time_step.observation, training=False)
        q = agent.dnd(key, training=False).numpy()[0]
        np.testing.assert_allclose(decision.scores, q, rtol=1e-5)
        found = agent.dnd.neighbours(key)
        for action, near in enumerate(decision.neighbours):
            rows = found.rows.numpy()[0, action]
            np.testing.assert_array_equal(near.rows, rows[rows > 0])
            np.testing.assert_allclose(near.weights, found.weights.numpy()[0, action][rows > 0])
        np.testing.assert_allclose(decision.key, key.numpy()[0], rtol=1e-5)
        assert decision.greedy == (q[decision.action] == q.max())
        nec.session.after(index)
        time_step = environment.step(np.array([decision.action]))


def test_the_same_seed_is_the_same_episode_and_the_past_stays(nec):
    session = nec.session
    session.restart(7)
    while not session.ended:
        session.after(len(session.moments) - 1)
    first = session.moments
    assert first[-1].score == len(first) - 1, "CartPole gives 1 for each step"
    assert session.after(0) is first[1]
    assert session.after(len(first) - 1) is first[-1], "nothing comes after the end"
    episode = session.episode
    session.restart(7)
    assert session.episode == episode + 1
    while not session.ended:
        session.after(len(session.moments) - 1)
    taken = [[m.decision.action for m in moments[:-1]] for moments in (first, session.moments)]
    assert taken[0] == taken[1]
    session.restart()
    assert session.seed == 8


def test_an_export_answers_as_its_run_does(nec, tmp_path):
    import nec_tf

    nec_tf.load_run(OLD / "nec").export(tmp_path / "exported")
    watched = watching.watch_export(tmp_path / "exported", seed=5)
    nec.session.restart(5)
    for index in range(5):
        mine, theirs = nec.session.moments[index].decision, watched.session.moments[index].decision
        np.testing.assert_allclose(mine.scores, theirs.scores, rtol=1e-4)
        np.testing.assert_allclose(mine.key, theirs.key, rtol=1e-4, atol=1e-6)
        for near, exported in zip(mine.neighbours, theirs.neighbours, strict=True):
            np.testing.assert_allclose(near.distances, exported.distances, rtol=1e-2, atol=1e-3)
            np.testing.assert_allclose(near.weights, exported.weights, rtol=1e-2)
        nec.session.after(index)
        watched.session.after(index)
    assert "exported" in watched.subject.title
    assert len(watched.session.decider.memory.entries) == len(nec.session.decider.memory.entries)
    watched.close()


def test_watching_changes_nothing_in_a_run_that_another_process_trains(tmp_path):
    from nec_tf.experiments.run_lock import RunLock

    folder = tmp_path / "run"
    shutil.copytree(OLD / "nec", folder)
    with RunLock(folder):
        before = digest(folder)
        watched = watching.watch_run(folder, "newest", seed=1)
        watched.session.after(0)
        watched.close()
        assert digest(folder) == before


def test_pictures_of_cartpole_are_drawn_from_states_that_the_replay_holds(nec):
    memory = nec.session.decider.memory
    found = [nec.pictures.find(int(state)) for state in memory.entries.state_ids]
    assert all(picture is not None for picture in found), "600 states fit into the replay"
    assert len(set(found)) > 100
    assert nec.pictures.find(12345) is None


def test_kept_screens_show_what_the_replay_has_forgotten(tmp_path):
    from nec_tf.replay.kept_screens import ScreenWriter

    folder = tmp_path / "run"
    shutil.copytree(OLD / "mfec", folder)  # has no replay
    watched = watching.watch_run(folder, "newest", seed=1)
    ids = watched.session.decider.memory.entries.state_ids
    assert watched.pictures.find(int(ids[0])) is None
    watched.close()
    state = np.array([[0.1, 0.0, 0.05, 0.0]], np.float32)
    writer = ScreenWriter(folder / "screens")
    writer.add(ids[:1], state)
    watched = watching.watch_run(folder, "newest", seed=1)
    assert watched.pictures.find(int(ids[0])).startswith(b"\x89PNG")
    assert watched.pictures.find(int(ids[1])) is None
    assert watched.pictures.find(int(hash_states(state)[0])) is None, "only by the id given"
    watched.close()


@pytest.mark.parametrize(
    ("env_id", "names"),
    [
        ("CartPole-v1", ["LEFT", "RIGHT"]),
        ("ALE/Pong-v5", ["NOOP", "FIRE", "RIGHT", "LEFT", "RIGHTFIRE", "LEFTFIRE"]),
    ],
)
def test_actions_have_names(env_id, names):
    import ale_py

    gymnasium.register_envs(ale_py)
    assert action_names(gymnasium.make(env_id)) == names


def test_actions_that_nobody_named_have_numbers():
    env = gymnasium.make("CartPole-v1")
    env.action_space = gymnasium.spaces.Discrete(3)
    assert action_names(env) == ["action 0", "action 1", "action 2"]
