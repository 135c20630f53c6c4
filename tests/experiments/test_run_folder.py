import csv

import pytest

from nec_tf.experiments.run_folder import MetricsLog, RunFolder
from nec_tf.runtime.errors import UserError

CONFIG = {"task": "pong", "frames": 100, "alpha": 0.1}


def test_another_configuration_is_refused_with_its_differences(tmp_path):
    RunFolder(tmp_path, CONFIG)
    with pytest.raises(UserError, match=r"alpha was 0.1 and is now 0.2.*task was 'pong'"):
        RunFolder(tmp_path, CONFIG | {"alpha": 0.2, "task": "alien"})


def test_more_frames_are_the_same_configuration(tmp_path):
    RunFolder(tmp_path, CONFIG)
    RunFolder(tmp_path, CONFIG | {"frames": 200})
    RunFolder(tmp_path, CONFIG)


def test_a_setting_that_came_later_and_is_left_alone_is_no_difference(tmp_path):
    RunFolder(tmp_path, CONFIG)
    RunFolder(tmp_path, {**CONFIG, "init_memory": ""})
    with pytest.raises(UserError, match="init_memory"):
        RunFolder(tmp_path, {**CONFIG, "init_memory": "exported"})


def test_an_unreadable_configuration_is_named(tmp_path):
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(UserError, match=r"config\.json"):
        RunFolder(tmp_path, CONFIG)


def read(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def test_metrics_are_rows_with_blanks_for_what_is_not_known(tmp_path):
    log = MetricsLog(tmp_path, ("loss", "eval_mean"), 0)
    log.write(10, {"loss": 0.5})
    log.write(20, {"loss": 0.25, "eval_mean": 3.0}, frames_per_second=7.0)
    assert read(tmp_path / "metrics.csv") == [
        {"frames": "10", "loss": "0.5", "eval_mean": ""},
        {"frames": "20", "loss": "0.25", "eval_mean": "3.0"},
    ]
    assert list((tmp_path / "events").glob("events*"))


def test_rows_after_the_checkpoint_are_dropped_when_a_run_resumes(tmp_path):
    log = MetricsLog(tmp_path, ("loss",), 0)
    for frames in (10, 20, 30):
        log.write(frames, {"loss": 1.0})
    MetricsLog(tmp_path, ("loss",), 20).write(25, {"loss": 2.0})
    assert [row["frames"] for row in read(tmp_path / "metrics.csv")] == ["10", "20", "25"]
