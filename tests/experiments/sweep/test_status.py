import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from nec_tf.experiments.evaluation_log import EvaluationLog, EvaluationRecord
from nec_tf.experiments.sweep import status as status_module
from nec_tf.experiments.sweep.plan import Trial
from nec_tf.experiments.sweep.status import (
    State,
    Status,
    is_finished,
    last_logged_frames,
    survey,
    time_left,
)
from nec_tf.experiments.sweep.table import Display, summary, table


def trial(runs_dir, game="pong", frames=10_000):
    made = Trial("nec", game, 1, frames, (), Path(runs_dir))
    made.run_dir.mkdir(parents=True, exist_ok=True)
    return made


def save(made, handled_frames, frames):
    folder = made.run_dir / "checkpoints" / f"frames-{frames:010d}"
    folder.mkdir(parents=True)
    progress = {"frames": frames, "handled_frames": handled_frames}
    (folder / "progress.json").write_text(json.dumps(progress))


def log(made, *frames):
    rows = "".join(f"{number},1.0\n" for number in frames)
    (made.run_dir / "metrics.csv").write_text(f"frames,loss\n{rows}")


def test_a_trial_is_finished_when_its_last_evaluation_is_in_a_checkpoint(tmp_path):
    made = trial(tmp_path)
    assert not is_finished(made)
    save(made, 9_800, 9_800)
    assert not is_finished(made)
    save(made, 9_800, 10_004)  # stopped in its last evaluation
    assert not is_finished(made)
    save(made, 10_008, 10_008)
    assert is_finished(made)
    assert survey([made])[0].state is State.FINISHED


def test_the_newest_whole_row_of_metrics_counts(tmp_path):
    made = trial(tmp_path)
    assert last_logged_frames(made.run_dir) == 0
    log(made)
    assert last_logged_frames(made.run_dir) == 0
    log(made, *range(0, 20_000, 10))
    assert last_logged_frames(made.run_dir) == 19_990
    with (made.run_dir / "metrics.csv").open("a") as file:
        file.write("20000,0.")
    assert last_logged_frames(made.run_dir) == 19_990


def test_speed_and_time_left_follow_from_the_rows_of_this_session(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(status_module.time, "monotonic", lambda: now[0])
    made = trial(tmp_path)
    log(made, 1_000)
    status = Status(made, State.RUNNING)
    status.refresh()
    assert (status.frames, status.speed, status.seconds_left) == (1_000, None, None)
    now[0] += 10.0
    log(made, 1_000, 3_000)
    EvaluationLog(made.run_dir, 0).write(EvaluationRecord(3_000, [1.0, 2.0], 5.0))
    status.refresh()
    assert (status.frames, status.speed, status.evaluation) == (3_000, 200.0, 1.5)
    assert status.seconds_left == 35.0
    waiting = Status(trial(tmp_path, "alien"))
    assert time_left([status, waiting]) == 85.0
    assert time_left([waiting]) is None


@pytest.fixture
def statuses(tmp_path):
    return [
        Status(trial(tmp_path, "alien"), State.FINISHED, frames=10_004, evaluation=12.0),
        Status(trial(tmp_path, "pong"), State.RUNNING, frames=5_000, speed=50.0, host="node1"),
        Status(trial(tmp_path, "qbert"), State.FAILED, failures=3),
        Status(trial(tmp_path, "hero")),
    ]


def test_the_table_has_a_line_for_each_trial_and_one_for_the_whole(statuses):
    text = io.StringIO()
    Console(file=text, width=160).print(table(statuses))
    lines = text.getvalue().splitlines()
    (running,) = [line for line in lines if "nec-pong-1" in line]
    assert "running on node1" in running
    assert "5k / 10k" in running
    assert "0:01:40" in running
    assert any("nec-qbert-1" in line and "failed" in line for line in lines)
    assert lines[-1].startswith("4 trials: 1 waiting, 1 running, 1 failed, 1 finished;")
    assert "15,000 of 40,000 frames; 50 frames/s; time left 0:05:00" in summary(statuses)


def test_a_table_that_does_not_fit_shows_the_running_trials_and_counts_the_others(statuses):
    text = io.StringIO()
    Console(file=text, width=160).print(table(statuses, rows=1))
    assert "nec-pong-1" in text.getvalue()
    assert "nec-hero-1" not in text.getvalue()
    assert "and 3 more" in text.getvalue()


def test_without_a_terminal_there_are_plain_lines(statuses):
    text = io.StringIO()
    with Display(Console(file=text, width=80)) as display:
        display.say("nec-pong-1: running [on node1]")
        display.show(statuses)
        display.show(statuses)  # within a minute
    lines = text.getvalue().splitlines()
    assert len(lines) == 2
    assert lines[0].endswith(" nec-pong-1: running [on node1]")
    assert "4 trials" in lines[1]
    assert "\x1b" not in text.getvalue()
