import csv

import tensorflow as tf

from nec_tf.experiments.metrics_log import MetricsLog


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


def test_tensorboard_shows_metrics_in_groups(tmp_path):
    log = MetricsLog(tmp_path, ("loss", "memory", "recall", "eval_mean"), 0)
    metrics = {"loss": 0.5, "memory": 7.0, "recall": 1.0, "eval_mean": 3.0}
    log.write(10, metrics, frames_per_second=9.0)
    log.flush()
    (path,) = (tmp_path / "events").glob("events*")
    events = tf.compat.v1.train.summary_iterator(str(path))
    tags = {value.tag for event in events for value in event.summary.value}
    assert tags == {
        "train/loss",
        "memory/memory",
        "memory/recall",
        "evaluation/eval_mean",
        "speed/frames_per_second",
    }
