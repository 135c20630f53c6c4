"""A real run under SIGKILL at random moments, closed terminals and pipes: no row is lost."""

import os
import random
import signal
import subprocess
import time

import pytest
from faults import runs

KILLS = 100 if runs.LONG else 3
TO = 2_000  # frames


def assert_no_row_is_lost(run_dir):
    """Every multiple of --log_every_frames=50 was logged once."""
    logged = [int(row["frames"]) // 50 for row in runs.rows(run_dir)]
    assert logged == list(range(1, len(logged) + 1))


def test_a_run_that_is_killed_again_and_again_comes_to_its_end(tmp_path):
    """Some kills come while it starts, resumes, writes a checkpoint or evaluates."""
    rng = random.Random(2)
    run_dir = tmp_path / "run"
    for _ in range(KILLS):
        before = runs.checkpoints(run_dir)
        process = runs.start(run_dir, 10_000_000)
        if rng.random() < 0.5:  # else it is killed while it starts or resumes
            runs.wait_until(process, lambda before=before: runs.checkpoints(run_dir) - before)
            time.sleep(rng.uniform(0.0, 1.0))
        else:
            time.sleep(rng.uniform(0.0, 6.0))
        process.kill()
        process.communicate()
        if (run_dir / "metrics.csv").exists():
            assert_no_row_is_lost(run_dir)
    reached = runs.rows(run_dir)[-1]["frames"] if (run_dir / "metrics.csv").exists() else 0
    done = runs.finish(run_dir, int(reached) + 200)
    assert done.returncode == 0, done.stderr
    assert_no_row_is_lost(run_dir)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_polite_signals_save(tmp_path, number):
    process = runs.start(tmp_path / "run", 10_000_000)
    runs.wait_for_checkpoint(tmp_path / "run", process, 1)
    process.send_signal(number)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "saved" in output


def test_a_pipe_that_is_closed_does_not_end_a_run(tmp_path):
    """As `python train_gym.py 2>&1 | head -1` does."""
    run_dir = tmp_path / "run"
    reading, writing = os.pipe()
    process = subprocess.Popen(
        runs.command(run_dir, TO), env=runs.environment(), stdout=writing, stderr=writing
    )
    os.close(writing)
    os.close(reading)
    assert process.wait(timeout=200) == 0
    assert int(runs.rows(run_dir)[-1]["frames"]) >= TO
    assert_no_row_is_lost(run_dir)


def test_a_run_starts_without_standard_streams(tmp_path):
    run_dir = tmp_path / "run"
    command = runs.command(run_dir, 200)
    closed = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *command]
    subprocess.run(closed, env=runs.environment(), timeout=200, check=True)
    assert int(runs.rows(run_dir)[-1]["frames"]) >= 200


WRITES = 50 if runs.LONG else 2


def test_kills_while_a_checkpoint_is_written(tmp_path):
    rng = random.Random(3)
    run_dir = tmp_path / "run"
    unfinished = run_dir / "checkpoints" / "unfinished"
    interrupted = 0
    for _ in range(WRITES):
        left = made_at(unfinished)  # by the process that was killed before
        process = runs.start(run_dir, 10_000_000)
        runs.wait_until(process, lambda left=left: made_at(unfinished) not in (None, left))
        time.sleep(rng.uniform(0.0, 0.02))
        process.kill()
        process.communicate()
        interrupted += unfinished.exists()
        if (run_dir / "metrics.csv").exists():
            assert_no_row_is_lost(run_dir)
    assert interrupted >= WRITES // 2, "too few kills came before the checkpoint was complete"
    reached = runs.rows(run_dir)[-1]["frames"]
    done = runs.finish(run_dir, int(reached) + 200)
    assert done.returncode == 0, done.stderr
    assert_no_row_is_lost(run_dir)


def made_at(folder):
    """Returns when the first file of a folder was made, None without a folder or a file."""
    try:
        return min(path.stat().st_mtime_ns for path in folder.iterdir())
    except (FileNotFoundError, ValueError):
        return None


def test_kills_while_a_run_resumes(tmp_path):
    """From opening the folder to the first row of the new session."""
    rng = random.Random(4)
    run_dir = tmp_path / "run"
    assert runs.finish(run_dir, 300).returncode == 0
    before = runs.rows(run_dir)
    for _ in range(WRITES):
        lock = (run_dir / "lock").read_bytes()
        process = runs.start(run_dir, 10_000_000)
        runs.wait_until(process, lambda lock=lock: (run_dir / "lock").read_bytes() != lock)
        time.sleep(rng.uniform(0.0, 3.0))
        process.kill()
        process.communicate()
        assert runs.rows(run_dir)[: len(before)] == before
        assert_no_row_is_lost(run_dir)
    done = runs.finish(run_dir, int(runs.rows(run_dir)[-1]["frames"]) + 200)
    assert done.returncode == 0, done.stderr
    assert_no_row_is_lost(run_dir)
