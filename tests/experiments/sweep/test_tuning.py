import math
from pathlib import Path

import optuna
import pytest

from nec_tf.experiments.evaluation_log import EvaluationLog, EvaluationRecord
from nec_tf.experiments.sweep.plan import make_trials
from nec_tf.experiments.sweep.tuning import Search, parse_range, statistic
from nec_tf.runtime.errors import UserError


def test_the_statistic_is_the_mean_of_logarithms_over_games():
    assert statistic({"pong": [90.0]}) == pytest.approx(0.0)
    assert statistic({"pong": [900.0 - 10.0], "alien": [0.0]}) == pytest.approx(
        (math.log10(9.0) - 1.0) / 2
    )
    assert statistic({"pong": [50.0, 130.0]}) == pytest.approx(0.0)  # seeds are averaged first
    assert statistic({"pong": [-400.0]}) == statistic({"pong": [-5.0]})  # the floor


@pytest.mark.parametrize(
    ("text", "low", "high", "kind"),
    [
        ("horizon=10:100", 10, 100, int),
        ("learning_rate=1e-5:1e-2:log", 1e-5, 1e-2, float),
        ("num_neighbours=11,25,50", 11, 50, int),
    ],
)
def test_proposed_values_are_of_the_range_and_the_type_of_the_setting(text, low, high, kind):
    chosen = parse_range(text, "nec")
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
    values = [chosen.suggest(study.ask()) for _ in range(20)]
    assert all(isinstance(value, kind) and low <= value <= high for value in values)
    assert len(set(values)) > 2


@pytest.mark.parametrize(
    "wrong",
    ["horizont=1:2", "horizon", "horizon=5:1", "horizon=0:9:log", "horizon=1:2:3:4", "horizon=a:b"],
)
def test_wrong_ranges_are_refused(wrong):
    with pytest.raises(UserError, match="--"):
        parse_range(wrong, "nec")


def finish(trial, score):
    """Leaves what a finished run does."""
    folder = trial.run_dir / "checkpoints" / f"frames-{trial.frames:010d}"
    folder.mkdir(parents=True)
    (folder / "progress.json").write_text(f'{{"handled_frames": {trial.frames}}}')
    EvaluationLog(trial.run_dir, 0).write(EvaluationRecord(trial.frames, [score], 1.0))


class Training:
    """Trials whose scores are best at a horizon of 40, instead of real ones."""

    def __init__(self, interrupt_after=None, fails=()):
        self.trained = []
        self._interrupt_after = interrupt_after
        self._fails = fails

    def __call__(self, trials):
        for trial in trials:
            if len(self.trained) == self._interrupt_after:
                return False
            if trial.run_dir.exists():
                continue  # finished before
            (flag,) = [flag for flag in trial.flags if flag.startswith("--horizon")]
            horizon = int(flag.removeprefix("--horizon="))
            self.trained.append(trial.name)
            if horizon not in self._fails:
                finish(trial, 14.6 - abs(horizon - 40) / 3)
        return True


def search(folder, text="horizon=1:99", **kwargs):
    def make(settings):
        texts = [f"{name}={value}" for name, value in settings.items()]
        return make_trials("pong,boxing", "nec", "1", 100, texts, Path(folder))

    return Search(folder, [parse_range(text, "nec")], make, **kwargs)


def test_a_search_finds_the_better_settings_and_writes_them_down(tmp_path):
    found = search(tmp_path)
    found.run(25, 2, Training())
    ranking = found.ranking()
    assert len(ranking) == 25
    assert abs(ranking[0][1]["horizon"] - 40) < 10
    assert [value for value, _ in ranking] == sorted((v for v, _ in ranking), reverse=True)
    lines = (tmp_path / "settings.csv").read_text().splitlines()
    assert lines[0] == "statistic,horizon"
    assert lines[1] == f"{ranking[0][0]:.4f},{ranking[0][1]['horizon']}"


def test_an_interrupted_search_continues_with_the_same_settings(tmp_path):
    first = Training(interrupt_after=3)
    search(tmp_path).run(4, 1, first)
    assert len(search(tmp_path).ranking()) == 1
    second = Training()
    resumed = search(tmp_path)
    resumed.run(4, 1, second)
    assert len(resumed.ranking()) == 4
    unfinished = first.trained[2].replace("pong", "boxing")
    assert second.trained[0] == unfinished  # its other game is not trained again
    assert len(set(first.trained + second.trained)) == 8


def test_a_setting_that_fails_is_left_out(tmp_path):
    found = search(tmp_path, "horizon=10,40")
    found.run(6, 1, Training(fails=[10]))
    assert {settings["horizon"] for _, settings in found.ranking()} == {40}
    assert len(found.ranking()) < 6


def test_nothing_is_stopped_early_by_default_and_bad_settings_are_if_asked(tmp_path):
    everything, stopping = Training(), Training()
    search(tmp_path / "all").run(12, 1, everything)
    search(tmp_path / "stopped", early_stopping=True).run(12, 1, stopping)
    variants = {name.rsplit("-", 2)[0] for name in everything.trained}
    assert len(everything.trained) == 2 * len(variants)
    variants = {name.rsplit("-", 2)[0] for name in stopping.trained}
    assert len(variants) < len(stopping.trained) < 2 * len(variants)
