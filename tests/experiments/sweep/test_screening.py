import json

import numpy as np
import pytest

from nec_tf.environments.games import GAMES
from nec_tf.experiments.sweep.screening import Lever, Screening, parse_levers
from nec_tf.runtime.errors import UserError

LEVERS = [Lever("horizon", 30), Lever("scaled_returns", True)]
GAMES_USED = "pong,boxing,alien,hero"


def make(folder, levers=LEVERS):
    return Screening(levers, GAMES_USED, "nec", 3, 2_000, folder, ["--noeval"])


def save(folder, trial, scores, **settings):
    """Writes a result as `save_result` does, with evaluations of these scores."""
    config = {"frames": trial.frames, "config": {"horizon": 100, "scaled_returns": False}}
    for flag in trial.flags:
        name, _, value = flag.removeprefix("--").partition("=")
        if name in config["config"]:
            config["config"][name] = json.loads(value)
    config["config"] |= settings
    path = folder / trial.variant / trial.game / "3.csv"
    path.parent.mkdir(parents=True)
    rows = [f"{1_000 * (i + 1)},{score}" for i, score in enumerate(scores)]
    path.write_text("\n".join([f"# settings: {json.dumps(config)}", "frames,eval_mean", *rows]))


def test_the_two_runs_of_a_game_have_complementary_levers(tmp_path):
    trials = make(tmp_path).trials
    assert len(trials) == 8
    assert {trial.seed for trial in trials} == {3}
    for first, second in zip(trials[::2], trials[1::2], strict=True):
        assert first.game == second.game
        assert (first.variant, second.variant) == ("first", "second")
        flags = sorted([*first.flags, *second.flags])
        common = ["--agent=nec"] * 2 + ["--noeval"] * 2
        assert flags == sorted(["--horizon=30", "--scaled_returns=true", *common])


def test_results_are_not_run_again_and_give_effects(tmp_path):
    screening = make(tmp_path)
    assert screening.unfinished(tmp_path / "none") == screening.trials
    for trial in screening.trials:
        # HNS + 0.1 is 0.2 with the horizon and 0.1 without; the scale of returns does nothing.
        game = GAMES[trial.game]
        share = 0.1 if "--horizon=30" in trial.flags else 0.0
        score = game.random_score + share * (game.human_score - game.random_score)
        save(tmp_path / "results", trial, [score, score])
    assert screening.unfinished(tmp_path / "results") == []
    figures = screening.figures(tmp_path / "results")
    assert len(figures) == 4
    horizon, scale = screening.effects(figures)
    assert horizon.effect == pytest.approx(np.log10(2.0))
    assert scale.effect == pytest.approx(0.0, abs=1e-9)


def test_a_figure_is_the_mean_of_a_runs_evaluations(tmp_path):
    screening = make(tmp_path)
    first, second = screening.trials[:2]
    game = GAMES[first.game]
    human, chance = game.human_score, game.random_score
    save(tmp_path / "results", first, [chance, human])  # HNS 0 and 1
    save(tmp_path / "results", second, [chance - 2 * (human - chance)] * 2)  # HNS -2
    figures = screening.figures(tmp_path / "results")
    assert figures == {first.game: pytest.approx((np.log10(0.6), np.log10(0.05)))}
    with pytest.raises(UserError, match="finish more pairs"):
        screening.effects(figures)


def test_an_unfinished_result_is_run_on(tmp_path):
    screening = make(tmp_path)
    save(tmp_path / "results", screening.trials[0], [0.0])  # of 1,000 frames
    assert screening.unfinished(tmp_path / "results") == screening.trials
    assert screening.figures(tmp_path / "results") == {}


def test_results_of_another_screening_are_refused(tmp_path):
    screening = make(tmp_path)
    trial = next(trial for trial in screening.trials if "--horizon=30" in trial.flags)
    save(tmp_path / "results", trial, [0.0, 0.0], horizon=10)
    with pytest.raises(UserError, match="another screening"):
        screening.figures(tmp_path / "results")


def test_levers_are_settings_that_change_something():
    assert parse_levers(["horizon=30", "scaled_returns=true"], "nec") == LEVERS
    for texts, message in (
        (["horizon=100"], "this is the default"),
        (["horizont=30"], "setting=value of agent 'nec'"),
        (["horizon"], "setting=value of agent 'nec'"),
        (["horizon=ten"], "must be of type int"),
        (["horizon=30", "horizon=40"], "each setting once"),
        ([], "at least one"),
    ):
        with pytest.raises(UserError, match=message):
            parse_levers(texts, "nec")


def test_too_few_games_are_refused(tmp_path):
    with pytest.raises(UserError, match="at least 3 games"):
        Screening(LEVERS, "pong,boxing", "nec", 1, 400, tmp_path)
