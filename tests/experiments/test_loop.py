import csv

import numpy as np
import pytest

from nec_tf.agents.nec.config import NecLearnerConfig
from nec_tf.experiments.evaluation import Evaluator
from nec_tf.experiments.evaluation_log import read_evaluations
from nec_tf.experiments.loop import Experiment, _short
from nec_tf.experiments.run import Run, load_trained_run
from nec_tf.experiments.settings import Settings
from nec_tf.experiments.tasks import gym_task


@pytest.mark.parametrize(
    ("value", "shown"), [(0.12345, "0.1235"), (-20.5, "-20.5"), (999.4, "999.4"), (10_010, "10.0k")]
)
def test_the_progress_bar_shows_short_numbers(value, shown):
    assert _short(value) == shown


@pytest.mark.parametrize("eval_every_frames", [100, 200])  # on the way, and at the end
def test_an_evaluation_that_ctrl_c_breaks_off_is_made_when_the_run_goes_on(
    eval_every_frames, tmp_path, monkeypatch
):
    settings = Settings(
        agent="nec",
        frames=200,
        seed=0,
        num_envs=1,
        eval_every_frames=eval_every_frames,
        eval_episodes=1,
        checkpoint_every_frames=1_000,
        log_every_frames=1_000,
        video=False,
    )
    config = NecLearnerConfig(learning_starts=1_000, index="exact")

    def experiment():
        return Experiment(Run(tmp_path, gym_task("CartPole-v1"), settings, config))

    def ctrl_c(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Evaluator, "play", ctrl_c)
        assert not experiment().run()
    assert experiment().run()
    with (tmp_path / "metrics.csv").open() as file:
        evaluated = [int(row["frames"]) for row in csv.DictReader(file) if row["eval_mean"]]
    assert [frames // eval_every_frames for frames in evaluated] == list(
        range(1, 1 + 200 // eval_every_frames)
    )
    assert [record.frames for record in read_evaluations(tmp_path)] == evaluated
    assert experiment().run()  # nothing is left to do
    assert len((tmp_path / "metrics.csv").read_text().splitlines()) == 1 + len(evaluated)


def test_an_evaluation_that_was_logged_but_not_saved_is_logged_once(tmp_path, monkeypatch):
    settings = Settings(
        agent="nec",
        frames=200,
        seed=0,
        num_envs=1,
        eval_every_frames=200,
        eval_episodes=2,
        checkpoint_every_frames=1_000,
        log_every_frames=1_000,
        video=False,
    )
    config = NecLearnerConfig(learning_starts=1_000, index="exact")

    def experiment():
        return Experiment(Run(tmp_path, gym_task("CartPole-v1"), settings, config))

    def raised(error):
        def raise_it(*_):
            raise error

        return raise_it

    with monkeypatch.context() as patched:  # Ctrl-C in an evaluation: saved at its frame
        patched.setattr(Evaluator, "play", raised(KeyboardInterrupt))
        assert not experiment().run()
    with monkeypatch.context() as patched:  # it is made now, and then the process dies
        patched.setattr(Run, "save", raised(MemoryError))
        with pytest.raises(MemoryError):
            experiment().run()
    assert experiment().run()
    evaluated = [record.frames for record in read_evaluations(tmp_path)]
    assert [frames // 200 for frames in evaluated] == [1]
    assert all(len(record.scores) == 2 for record in read_evaluations(tmp_path))
    with (tmp_path / "metrics.csv").open() as file:
        assert [int(row["frames"]) for row in csv.DictReader(file) if row["eval_mean"]] == evaluated


@pytest.mark.parametrize("checkpoint_every_frames", [50, 1_000])  # with the evaluation, and not
def test_the_agent_of_the_best_evaluation_can_be_loaded(checkpoint_every_frames, tmp_path):
    settings = Settings(
        agent="nec",
        frames=600,
        seed=1,
        num_envs=1,
        eval_every_frames=100,
        eval_episodes=3,
        checkpoint_every_frames=checkpoint_every_frames,
        log_every_frames=1_000,
        video=False,
    )
    config = NecLearnerConfig(learning_starts=100, batch_size=8, index="exact", horizon=10)
    assert Experiment(Run(tmp_path, gym_task("CartPole-v1"), settings, config)).run()
    evaluations = read_evaluations(tmp_path)
    best = max(evaluations, key=lambda record: np.mean(record.scores))
    assert best.frames < evaluations[-1].frames  # or the newest would do
    run = load_trained_run(tmp_path, "best")
    assert run.progress.frames == best.frames
    if checkpoint_every_frames > settings.frames:  # exactly the agent that was evaluated
        seed = run.seed_for("evaluate")
        run.learner.begin_evaluation(seed)
        evaluator = Evaluator(run.task, run.learner.agent.policy, settings.eval_episodes)
        assert [episode.score for episode in evaluator.play(seed)] == best.scores


def test_checkpoints_by_time_leave_the_numbers_as_they_are(tmp_path, monkeypatch):
    saved = []
    between = Run.save_between
    monkeypatch.setattr(Run, "save_between", lambda run: saved.append(run) or between(run))
    rows = []
    for name, minutes in (("often", 1e-9), ("never", 0.0)):
        settings = Settings.preset(
            "small",
            frames=600,
            eval_every_frames=300,
            eval_episodes=1,
            log_every_frames=50,
            video=False,
            checkpoint_every_minutes=minutes,
        )
        config = NecLearnerConfig.small(learning_starts=40, batch_size=8, horizon=10, index="exact")
        run = Run(tmp_path / name, gym_task("CartPole-v1"), settings, config)
        assert Experiment(run).run()
        rows.append((tmp_path / name / "metrics.csv").read_bytes())
        assert len(saved) > 5
    assert rows[0] == rows[1]
    assert len({id(run) for run in saved}) == 1
    assert b"loss" in rows[0]
