import pytest

from nec_tf.experiments.evaluation_log import EvaluationLog, EvaluationRecord, read_evaluations


def record(frames):
    return EvaluationRecord(frames, [1.0, 2.5], 3.5, 400.0)


def test_evaluations_come_back_as_they_were_written(tmp_path):
    assert read_evaluations(tmp_path) == []
    log = EvaluationLog(tmp_path, 0)
    log.write(record(10))
    log.write(EvaluationRecord(20, [7.0], 9.0))
    assert read_evaluations(tmp_path) == [record(10), EvaluationRecord(20, [7.0], 9.0, None)]


def test_evaluations_after_the_checkpoint_are_dropped_when_a_run_resumes(tmp_path):
    log = EvaluationLog(tmp_path, 0)
    for frames in (10, 20, 30):
        log.write(record(frames))
    EvaluationLog(tmp_path, 20).write(record(25))
    assert [row.frames for row in read_evaluations(tmp_path)] == [10, 20, 25]


def test_a_line_that_a_crash_cut_short_is_left_out(tmp_path):
    EvaluationLog(tmp_path, 0).write(record(10))
    with (tmp_path / "evaluations.jsonl").open("a") as file:
        file.write('{"frames": 20, "sco')
    assert read_evaluations(tmp_path) == [record(10)]
    EvaluationLog(tmp_path, 20).write(record(20))
    assert read_evaluations(tmp_path) == [record(10), record(20)]


@pytest.mark.parametrize(
    "line",
    [
        '{"frames": "20", "scores": [1.0], "wall_seconds": 1.0}',
        '{"frames": null, "scores": [1.0], "wall_seconds": 1.0}',
        '{"frames": 20, "scores": 3, "wall_seconds": 1.0}',
        '{"frames": 20, "scores": ["1"], "wall_seconds": 1.0}',
        '{"frames": 20, "scores": [1.0], "wall_seconds": "1"}',
        "[" * 100_000,
        "\0\0",
    ],
)
def test_lines_that_are_no_records_are_dropped_with_a_warning(tmp_path, caplog, line):
    EvaluationLog(tmp_path, 0).write(record(10))
    with (tmp_path / "evaluations.jsonl").open("a") as file:
        file.write(line + "\n")
    assert read_evaluations(tmp_path) == [record(10)]
    EvaluationLog(tmp_path, 20)
    assert "1 unreadable line(s)" in caplog.text
    assert read_evaluations(tmp_path) == [record(10)]
