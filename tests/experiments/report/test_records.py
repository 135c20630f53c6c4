import json

import pytest

from nec_tf.experiments.report import records
from nec_tf.runtime.errors import UserError

HEAD = "frames,eval_mean,eval_median,eval_std,episodes,human_normalised"
SETTINGS = '# commit abc: python x\n# settings: {"game": "pong", "frames": 400000}\n'


def write(folder, name, text):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_result_of_an_older_version_has_its_evaluations_and_target(tmp_path):
    text = f"{SETTINGS}{HEAD}\n200056,-2.2,-4.5,12.78,30,52.41\n400164,3.333,6,14.65,30,68.08\n"
    write(tmp_path, "nec/pong/1.csv", text)
    [record] = records.load_results(tmp_path)
    assert (record.variant, record.task, record.seed) == ("nec", "pong", "1")
    assert record.at(200_000).score == -2.2
    assert record.at(400_000) == records.Evaluation(400_164, 3.333, 30)
    assert record.at(300_000) is None
    assert record.finished
    assert record.normalised(14.6) == pytest.approx(1.0)


def test_a_result_with_the_score_of_each_game_is_not_rounded(tmp_path):
    text = f"{HEAD},scores,wall_seconds,frames_per_second\n100,3.333,3,0,3,,3 3 4,61.5,812.5\n"
    write(tmp_path, "nec/cartpole-v1/1.csv", text)
    [record] = records.load_results(tmp_path)
    [evaluation] = record.evaluations
    assert evaluation.scores == (3, 3, 4)
    assert evaluation.score == pytest.approx(10 / 3)
    assert (evaluation.wall_seconds, evaluation.frames_per_second) == (61.5, 812.5)
    assert record.normalised(3.0) is None
    assert records.unit_of([record]) == "steps"


def test_a_run_that_has_not_come_to_its_end_is_unfinished(tmp_path):
    write(tmp_path, "nec/pong/1.csv", f"{SETTINGS}{HEAD}\n200056,-2.2,-4.5,12.78,30,52.41\n")
    [record] = records.load_results(tmp_path)
    assert not record.finished
    assert record.end == 200_000


def make_run(folder, seed=1, rows="100016,1.5\n110000,\n200100,2.5\n"):
    config = {"game": "pong", "agent": "nec", "seed": seed, "frames": 200_000, "eval_episodes": 20}
    write(folder, "config.json", json.dumps(config))
    write(folder, "metrics.csv", "frames,eval_mean\n" + rows)


def test_folders_of_runs_are_read_with_the_place_as_variant(tmp_path):
    make_run(tmp_path / "nec-pong-1")
    make_run(tmp_path / "slow" / "nec-pong-1", rows="")
    make_run(tmp_path / "own_name")
    line = {"frames": 100_016, "scores": [1.0, 2.0], "wall_seconds": 9.0, "frames_per_second": 7.0}
    write(tmp_path, "nec-pong-1/evaluations.jsonl", json.dumps(line) + "\n")
    first, own, slow = records.load_runs(tmp_path)
    assert [first.variant, own.variant, slow.variant] == ["nec", "own_name", "slow/nec"]
    assert first.evaluations == (
        records.Evaluation(100_016, 1.5, 20, (1.0, 2.0), 9.0, 7.0),
        records.Evaluation(200_100, 2.5, 20),
    )
    assert (slow.evaluations, slow.end, slow.finished) == ((), 0, False)


@pytest.mark.parametrize(
    ("frames", "due"),
    [
        (200_056, 200_000),
        (300_012, 300_000),
        (120_056, 120_000),
        (1_000_188, 1_000_000),
        (1_250_004, 1_250_000),
        (10_023, 10_000),
        (400, 400),
        (7, 7),
    ],
)
def test_an_evaluation_comes_a_few_steps_after_a_round_number(frames, due):
    assert records.due_frames(frames) == due


def test_the_budget_that_most_runs_reached_comes_first(tmp_path):
    for seed, end in enumerate((400_100, 400_008, 1_000_004)):
        rows = "400100,1,1,1,9,\n" if end > 500_000 and seed != 2 else ""
        write(tmp_path, f"nec/pong/{seed}.csv", f"{HEAD}\n{rows}{end},1,1,1,9,\n")
    assert records.default_budgets(records.load_results(tmp_path)) == [400_000, 1_000_000]


def test_a_run_that_is_under_way_makes_no_budget(tmp_path):
    write(tmp_path, "nec/pong/1.csv", f"{SETTINGS}{HEAD}\n100004,1,1,1,9,\n")
    write(tmp_path, "nec/boxing/1.csv", f"{SETTINGS}{HEAD}\n100004,1,1,1,9,\n400004,1,1,1,9,\n")
    assert records.default_budgets(records.load_results(tmp_path)) == [400_000]
    (tmp_path / "nec/boxing/1.csv").unlink()
    assert records.default_budgets(records.load_results(tmp_path)) == [100_000]


def test_an_empty_folder_and_a_foreign_file_are_refused(tmp_path):
    with pytest.raises(UserError, match="nec-tf record"):
        records.load_results(tmp_path)
    with pytest.raises(UserError, match="nec-tf train"):
        records.load_runs(tmp_path)
    write(tmp_path, "nec/pong/1.csv", "a,b\n1,2\n")
    with pytest.raises(UserError, match=r"1.csv is no result"):
        records.load_results(tmp_path)
