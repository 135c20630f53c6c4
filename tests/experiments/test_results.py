import csv
import json

import pytest

from nec_tf.experiments.evaluation_log import EvaluationLog, EvaluationRecord
from nec_tf.experiments.results import COLUMNS, save_result
from nec_tf.runtime.errors import UserError

PONG = {"game": "pong", "protocol": "paper"}
CONFIG = {"agent": "nec", "seed": 3, "eval_episodes": 7}
METRICS = """frames,episodes,loss,eval_mean,eval_median,eval_std,eval_distinct,human_normalised
1000,24.0,1.5,,,,,
2000,48.0,1.25,-20.123456,-20.0,0.5,3.0,1.6379
4000,99.0,1.0,3.0,4.0,2.25,5.0,67.5
"""


def make_run(folder, metrics=METRICS, task=PONG):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(task | CONFIG))
    (folder / "metrics.csv").write_text(metrics)
    (folder / "commands.txt").write_text(
        "commit abc: python trainers/train_atari.py --game=Pong --frames=2000 --seed=3\n"
        "commit abd: python trainers/train_atari.py --game=Pong --frames=4000 --seed=3\n"
    )
    return folder


def read(path):
    lines = path.read_text().splitlines()
    head = [line for line in lines if line.startswith("#")]
    return head, list(csv.DictReader(lines[len(head) :]))


def test_evaluations_are_kept_under_the_names_of_agent_game_and_seed(tmp_path):
    path = save_result(make_run(tmp_path / "run"), tmp_path / "results")
    assert path == tmp_path / "results" / "nec" / "pong" / "3.csv"
    _, rows = read(path)
    assert [tuple(row) for row in rows] == [COLUMNS, COLUMNS]
    assert list(rows[0].values()) == ["2000", "-20.12", "-20", "0.5", "7", "1.638", "", "", ""]
    assert list(rows[1].values()) == ["4000", "3", "4", "2.25", "7", "67.5", "", "", ""]


def test_the_score_of_every_evaluation_game_is_kept_with_wall_time_and_speed(tmp_path):
    run = make_run(tmp_path / "run")
    log = EvaluationLog(run, 0)
    log.write(EvaluationRecord(2000, [-20.0, -20.25], 12.5, 300.5))
    log.write(EvaluationRecord(4000, [3.0, 123456.0], 25.0))
    _, rows = read(save_result(run, tmp_path / "results"))
    assert list(rows[0].values())[-3:] == ["-20 -20.25", "12.5", "300.5"]
    assert list(rows[1].values())[-3:] == ["3 123456", "25.0", ""]


def test_another_name_keeps_two_settings_of_an_agent_apart(tmp_path):
    run = make_run(tmp_path / "run")
    first, second = save_result(run, tmp_path), save_result(run, tmp_path, "nec_other")
    assert second == tmp_path / "nec_other" / "pong" / "3.csv"
    assert first.read_text() == second.read_text()


def test_the_head_tells_all_commands_with_their_commits_and_all_settings(tmp_path):
    head, _ = read(save_result(make_run(tmp_path / "run"), tmp_path))
    assert head[0] == (
        "# commit abc: python trainers/train_atari.py --game=Pong --frames=2000 --seed=3"
    )
    assert "--frames=4000" in head[1]
    assert json.loads(head[2].removeprefix("# settings: ")) == PONG | CONFIG


def test_a_task_without_human_scores_leaves_them_empty(tmp_path):
    metrics = "frames,eval_mean,eval_median,eval_std,eval_distinct\n100,9.5,9.0,1.0,4.0\n"
    folder = make_run(tmp_path / "run", metrics, {"env": "CartPole-v1"})
    path = save_result(folder, tmp_path)
    assert path == tmp_path / "nec" / "cartpole-v1" / "3.csv"
    assert read(path)[1][0]["human_normalised"] == ""


def test_what_is_no_run_or_has_no_evaluation_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"not a run's folder: there is no .*config.json"):
        save_result(tmp_path / "none", tmp_path)
    folder = make_run(tmp_path / "run", "frames,eval_mean\n100,\n")
    with pytest.raises(UserError, match="has no evaluation yet"):
        save_result(folder, tmp_path)
    assert not (tmp_path / "nec").exists()


def test_a_name_that_is_a_path_is_refused(tmp_path):
    with pytest.raises(UserError, match="one word without /"):
        save_result(make_run(tmp_path / "run"), tmp_path, "../nec")
