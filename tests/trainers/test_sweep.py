"""trainers/sweep.py, tune.py and screen.py as a person runs them, on a Ray of their own."""

import csv
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
QUICK = ("--eval_episodes=1", "--log_every_frames=400", "--video=false", "--memory_per_trial=1")
AS_USERS_HAVE_IT = {k: v for k, v in os.environ.items() if k != "TF_ENABLE_ONEDNN_OPTS"}


def start(program, folder, *flags):
    return subprocess.Popen(
        [sys.executable, ROOT / "trainers" / program, *flags],
        cwd=folder,
        env=AS_USERS_HAVE_IT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    """Waits for a program; returns its exit code and what it printed."""
    out, err = process.communicate(timeout=600)
    return process.returncode, out, err


def frames_of(folder):
    with (folder / "metrics.csv").open() as file:
        return [int(row["frames"]) for row in csv.DictReader(file)]


def test_ctrl_c_saves_all_trials_and_the_same_command_resumes_them(tmp_path):
    flags = ("--games=breakout,frostbite", "--agents=mfec", "--frames=8000", *QUICK)
    runs = [tmp_path / "runs" / f"mfec-{game}-1" for game in ("breakout", "frostbite")]
    process = start("sweep.py", tmp_path, *flags)
    deadline = time.monotonic() + 300
    while not all((run / "metrics.csv").exists() and len(frames_of(run)) > 1 for run in runs):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    code, out, err = finish(process)
    assert (code, err) == (0, "")  # Ray prints nothing
    assert out.endswith("Saved; the same command resumes.\n")
    before = {run: frames_of(run) for run in runs}
    for run in runs:
        (checkpoint,) = (run / "checkpoints").glob("frames-*")
        assert json.loads((checkpoint / "progress.json").read_text())["frames"] > before[run][-1]
        assert ", saved" in (run / "log.txt").read_text()
    assert not list((tmp_path / "results").rglob("*.csv"))

    code, out, err = finish(start("sweep.py", tmp_path, *flags))
    assert (code, err) == (0, "")
    assert "2 trials: 2 finished; 16,000 of 16,000 frames" in out
    for run in runs:
        frames = frames_of(run)
        assert frames[: len(before[run])] == before[run]
        assert [number // 400 for number in frames] == list(range(1, 1 + 8000 // 400))
        result = tmp_path / "results" / "mfec" / run.name.split("-")[1] / "1.csv"
        with result.open() as file:
            rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
        assert float(rows[-1]["scores"]) == float(rows[-1]["eval_mean"])
        assert float(rows[-1]["wall_seconds"]) > 0
        assert float(rows[-1]["frames_per_second"]) > 0


def test_a_trial_that_cannot_run_is_listed_with_its_error(tmp_path):
    folder = tmp_path / "runs" / "mfec-pong-1"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{")
    code, out, err = finish(
        start("sweep.py", tmp_path, "--games=pong", "--agents=mfec", "--frames=400", *QUICK)
    )
    assert (code, err) == (1, "")
    assert "1 trials: 1 failed" in out
    assert re.search(r"mfec-pong-1 failed; .*log.txt ends:\n\(exit code 2\)", out)
    assert "config.json is not readable as JSON" in out
    assert (folder / "log.txt").read_text().count("not readable") == 3


def test_a_search_judges_settings_and_resumes(tmp_path):
    flags = (
        "--agent=mfec",
        "--games=breakout",
        "--range=num_neighbours=1:9",
        "--frames=400",
        *QUICK,
    )
    code, out, err = finish(start("tune.py", tmp_path, *flags, "--samples=1"))
    assert (code, err) == (0, "")
    code, out, err = finish(start("tune.py", tmp_path, *flags, "--samples=2"))
    assert (code, err) == (0, "")
    assert "2 of 2 settings judged" in out
    with (tmp_path / "runs" / "tuning" / "settings.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len({row["num_neighbours"] for row in rows}) == 2
    for row in rows:
        variant = f"mfec_num_neighbours-{row['num_neighbours']}"
        result = tmp_path / "runs" / "tuning" / "results" / variant / "breakout" / "1.csv"
        score = float(result.read_text().splitlines()[-1].split(",")[1])
        hns = (score - 1.7) / (30.5 - 1.7)
        assert float(row["statistic"]) == pytest.approx(math.log10(max(hns, -0.05) + 0.1), abs=1e-3)
    assert len(list((tmp_path / "runs" / "tuning").glob("mfec_num_neighbours-*"))) == 2


def test_a_screening_runs_complementary_pairs_and_does_not_repeat_them(tmp_path):
    flags = (
        "--agent=mfec",
        "--games=breakout,pong,boxing",
        "--lever=num_neighbours=1",
        "--lever=discount=0.9",
        "--frames=400",
        *QUICK,
    )
    code, out, err = finish(start("screen.py", tmp_path, *flags))
    assert (code, err) == (0, "")
    assert "3 of 3 games are finished." in out
    assert re.search(r"num_neighbours=1 +[+-]\d\.\d+, standard error \d", out)
    results = sorted((tmp_path / "screenings" / "screening").glob("*/*/1.csv"))
    assert [path.parts[-3] for path in results] == ["first"] * 3 + ["second"] * 3
    for run in tmp_path.glob("runs/screening/*"):
        shutil.rmtree(run)
    code, again, err = finish(start("screen.py", tmp_path, *flags))  # as on another machine
    assert (code, err) == (0, "")
    assert again.splitlines() == out.splitlines()[-3:]


@pytest.mark.parametrize(
    ("program", "flags", "words"),
    [
        ("sweep.py", ["--games=pongg"], "did you mean Pong"),
        ("sweep.py", ["--set=horizon"], "--set must be name=value"),
        ("sweep.py", ["--cpus_per_trial=0"], "--cpus_per_trial must be at least 1"),
        ("sweep.py", ["--cpus_per_trial=9999"], "no node has 9999 cores"),
        ("sweep.py", ["--address=127.0.0.1:1"], "no Ray cluster at --address=127.0.0.1:1"),
        ("tune.py", [], "nothing to search"),
        ("screen.py", ["--lever=horizon=30", "--games=pong"], "at least 2 games"),
        ("screen.py", [], "at least one --lever"),
        ("tune.py", ["--range=horizon=9:1"], "from a smaller to a larger number"),
    ],
)
def test_mistakes_get_a_sentence_and_an_exit_code(tmp_path, program, flags, words):
    code, _, err = finish(start(program, tmp_path, *flags))
    assert code == 2
    assert words in err
    assert "Traceback" not in err
