"""The programs as a person runs them, with small budgets."""

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nec_tf.runtime import programs

ROOT = Path(__file__).parents[2]
QUICK = (
    "--learning_starts=40",
    "--batch_size=8",
    "--epsilon_from=10",
    "--epsilon_until=100",
    "--horizon=10",
    "--replay_capacity=500",
    "--eval_episodes=2",
)
CARTPOLE = ("--frames=400", "--eval_every_frames=200", "--log_every_frames=100", *QUICK)


# Programs choose how TensorFlow rounds, and not the tests.
AS_USERS_HAVE_IT = {k: v for k, v in os.environ.items() if k != "TF_ENABLE_ONEDNN_OPTS"}


def run(program, *flags, check=True, **kwargs):
    """Runs a program and returns what it did."""
    done = subprocess.run(
        [sys.executable, ROOT / "trainers" / program, *map(str, flags)],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=kwargs.pop("cwd", ROOT),
        env=AS_USERS_HAVE_IT,
        **kwargs,
    )
    if check:
        assert done.returncode == 0, done.stderr
    return done


def rows(folder):
    with (folder / "metrics.csv").open() as file:
        return list(csv.DictReader(file))


def test_frostbite_trains_evaluates_and_leaves_its_files(tmp_path):
    run(
        "train_atari.py",
        "--game=Frostbite",
        "--frames=1200",
        "--eval_every_frames=1200",
        "--exploration_repeats=1",  # jumps at once: 300 steps score, and there is something to lose
        *QUICK,
        cwd=tmp_path,
    )
    folder = tmp_path / "runs" / "nec-frostbite-1"
    config = json.loads((folder / "config.json").read_text())
    assert config["game"] == "frostbite"
    assert config["config"]["discount"] == 0.99
    last = rows(folder)[-1]
    assert int(last["frames"]) >= 1200
    assert float(last["eval_mean"]) >= 0
    assert float(last["loss"]) > 0
    human = (float(last["eval_mean"]) - 65.2) / (4334.7 - 65.2) * 100
    assert float(last["human_normalised"]) == pytest.approx(human, rel=1e-3)
    assert (folder / "videos" / "best.mp4").stat().st_size > 1000
    assert list((folder / "events").glob("*"))
    assert list((folder / "checkpoints").glob("frames-*"))
    done = run("record_result.py", "--run_dir=runs/nec-frostbite-1", cwd=tmp_path)
    assert done.stdout.strip() == "results/nec/frostbite/1.csv"
    kept = (tmp_path / "results" / "nec" / "frostbite" / "1.csv").read_text()
    assert ": python trainers/train_atari.py --game=Frostbite --frames=1200" in kept
    assert kept.splitlines()[-1].startswith(f"{last['frames']},")


def test_same_seed_same_metrics_to_the_last_bit(tmp_path):
    flags = ("--game=Pong", "--frames=1600", "--eval_every_frames=800", "--novideo", *QUICK)
    flags += ("--log_every_frames=400",)
    for name in ("one", "two"):
        run("train_atari.py", *flags, "--seed=3", f"--run_dir={tmp_path / name}")
    run("train_atari.py", *flags, "--seed=4", f"--run_dir={tmp_path / 'other'}")
    one, two, other = ((tmp_path / n / "metrics.csv").read_bytes() for n in ("one", "two", "other"))
    assert one == two
    assert one != other


def test_a_finished_run_goes_on_with_more_frames(tmp_path):
    run("train_gym.py", *CARTPOLE, f"--run_dir={tmp_path}")
    before = rows(tmp_path)
    again = run("train_gym.py", *CARTPOLE, "--frames=800", f"--run_dir={tmp_path}")
    assert "Resuming" in again.stdout
    last_line = again.stderr.splitlines()[-1]
    assert "100%|" in last_line  # a bar, although it went past 800
    assert "steps/s" in last_line
    after = rows(tmp_path)
    assert after[: len(before)] == before
    assert int(after[-1]["frames"]) >= 800
    assert float(after[-1]["memory"]) > float(before[-1]["memory"])


@pytest.mark.parametrize("asked", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_kill_save_and_the_same_command_goes_on(asked, tmp_path):
    command = [sys.executable, ROOT / "trainers" / "train_gym.py", *CARTPOLE, "--frames=100000"]
    command += [f"--run_dir={tmp_path}", "--eval_every_frames=100000"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.time() + 120
    while not (tmp_path / "metrics.csv").exists() or len(rows(tmp_path)) < 3:
        assert time.time() < deadline
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.2)
    process.send_signal(asked)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "run the same command to resume" in output
    assert "Traceback" not in errors
    (saved,) = (tmp_path / "checkpoints").glob("frames-*")
    frames = int(saved.name.split("-")[1])
    assert frames >= 300
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert f"at {frames:,} steps" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)


def test_evaluate_plays_the_saved_agent_and_changes_nothing(tmp_path):
    run("train_gym.py", *CARTPOLE, "--novideo", f"--run_dir={tmp_path / 'run'}")
    files = {p: p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()}
    flags = (f"--run_dir={tmp_path / 'run'}", "--eval_episodes=3", f"--video={tmp_path / 'x.gif'}")
    first, second = (run("evaluate.py", *flags).stdout for _ in range(2))
    assert first == second
    assert "eval_mean" in first
    assert (tmp_path / "x.gif").stat().st_size > 1000
    assert files == {p: p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()}


@pytest.mark.parametrize(
    ("program", "flags", "code", "words"),
    [
        ("train_atari.py", ["--game=Frostbit"], 2, "did you mean Frostbite"),
        ("train_atari.py", ["--agent=neck"], 2, "did you mean nec"),
        ("train_atari.py", ["--frames=-1"], 2, "frames must be at least 1, not -1"),
        ("train_atari.py", ["--capacity=10"], 2, "capacity must be at least num_neighbours"),
        ("train_atari.py", ["--horizon=0"], 2, "horizon must be at least 1"),
        ("train_atari.py", ["--protocol=mine"], 2, "protocol must be paper or machado"),
        ("train_atari.py", ["Frostbite"], 2, "unknown argument 'Frostbite'"),
        (
            "train_gym.py",
            ["--env=CartPool-v1"],
            2,
            "unknown environment 'CartPool-v1': did you mean CartPole-v1",
        ),
        ("train_gym.py", ["--env=Pendulum-v1"], 2, "Discrete"),
        ("evaluate.py", [], 2, "either --run_dir or --export is required: what is evaluated"),
        ("evaluate.py", ["--run_dir=/nowhere"], 2, "not a run's folder"),
        ("tune.py", ["--range=horizon=1:9", "--name=../.."], 2, "--name must be one word"),
        ("screen.py", ["--list", "--lever=horizon=3", "--name=.."], 2, "a name of one word"),
        ("screen.py", ["--list", "--lever=horizon=3", "--results_dir=gs://x"], 2, "local folder"),
        ("sweep.py", ["--list", "--memory_per_trial=inf"], 2, "must be finite and above 0"),
        ("watch.py", ["--run_dir=x", "--seed=-1"], 2, "--seed must be at least 0 and below 2**32"),
    ],
)
def test_mistakes_get_a_sentence_and_an_exit_code(tmp_path, program, flags, code, words):
    done = run(program, *flags, check=False, cwd=tmp_path)
    assert done.returncode == code
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_run_without_a_checkpoint_is_not_evaluated(tmp_path):
    run("train_gym.py", *CARTPOLE, "--frames=60", "--novideo", f"--run_dir={tmp_path}")
    shutil.rmtree(tmp_path / "checkpoints")
    done = run("evaluate.py", f"--run_dir={tmp_path}", check=False)
    assert done.returncode == 2
    assert "has no checkpoint yet" in done.stderr
    assert "Traceback" not in done.stderr


def test_another_configuration_in_the_same_folder_is_refused(tmp_path):
    flags = (*CARTPOLE, "--frames=60", "--novideo", f"--run_dir={tmp_path}")
    run("train_gym.py", *flags)
    done = run("train_gym.py", *flags, "--alpha=0.7", check=False)
    assert done.returncode == 2
    assert "alpha was 0.1 and is now 0.7" in done.stderr
    assert "horizon" not in done.stderr


def test_a_damaged_checkpoint_is_one_sentence(tmp_path):
    flags = (*CARTPOLE, "--frames=60", "--novideo", f"--run_dir={tmp_path}")
    run("train_gym.py", *flags)
    (saved,) = (tmp_path / "checkpoints").glob("frames-*")
    os.truncate(saved / "model.data-00000-of-00001", 100)
    done = run("train_gym.py", *flags, "--frames=90", check=False)
    assert done.returncode == 1
    assert "is damaged" in done.stderr
    assert "Traceback" not in done.stderr


PROGRAMS = sorted(
    f"{folder}/{path.name}"
    for folder in ("trainers", "export")
    for path in (ROOT / folder).glob("*.py")
    if '__name__ == "__main__"' in path.read_text()
)


@pytest.mark.parametrize("program", PROGRAMS)
def test_help_imports_no_tensorflow_and_explains_the_flags_of_the_examples(program):
    source = (ROOT / program).read_text()
    script = (
        "import runpy, sys\n"
        f"sys.argv = [{program!r}, '--help']\n"
        "try:\n"
        f"    runpy.run_path({program!r}, run_name='__main__')\n"
        "except SystemExit:\n"
        "    print('imported', 'tensorflow' in sys.modules)\n"
    )
    environment = AS_USERS_HAVE_IT | {"GLIBC_TUNABLES": ""}  # set: the program does not restart
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, env=environment
    )
    assert "imported False" in done.stdout, done.stderr
    command = next(name for name, file in programs.commands().items() if file == ROOT / program)
    examples = re.findall(rf"(?:python {program}|nec-tf {command}) .*", source)
    flags = set(re.findall(r"--([a-z_]+)=", " ".join(examples)))
    assert examples
    for flag in flags:
        assert f"--{flag}:" in done.stdout


def test_help_groups_the_flags_and_shows_the_defaults_of_the_preset(tmp_path):
    text = run("train_atari.py", "--help").stdout
    headings = [
        "Task:",
        "Run:",
        "Settings that several agents share:",
        "Settings of nec alone:",
        "Settings of mfec_vae alone:",
    ]
    places = [text.index(heading) for heading in headings]
    assert places == sorted(places)
    groups = dict(zip(headings, map(slice, places, [*places[1:], None]), strict=True))
    assert "--game:" in text[groups["Task:"]]
    assert "--frames:" in text[groups["Run:"]]
    assert "Random seed." in text[groups["Run:"]]
    assert "--horizon:" in text[groups["Settings that several agents share:"]]
    assert "--averaging:" in text[groups["Settings of nec alone:"]]
    assert "--vae_steps:" in text[groups["Settings of mfec_vae alone:"]]
    assert "length of a key [ours] (default: nec 64" in text
    assert "length of a key [ours] (default: 16)" in run("train_gym.py", "--help").stdout


@pytest.mark.parametrize("agent", ["mfec", "mfec_vae"])
def test_every_agent_trains_resumes_and_evaluates_by_the_same_commands(tmp_path, agent):
    flags = ["--game=Pong", f"--agent={agent}", f"--run_dir={tmp_path}", "--novideo"]
    flags += ["--eval_every_frames=1200", "--eval_episodes=1"]
    small = ["--epsilon_from=100", "--epsilon_until=200"]
    small += ["--vae_steps=100", "--vae_updates=5"] if agent == "mfec_vae" else []
    run("train_atari.py", *flags, *small, "--frames=1200")
    done = run("train_atari.py", *flags, *small, "--frames=1600")
    assert "Resuming" in done.stdout
    assert float(rows(tmp_path)[-1]["memory"]) >= 0
    assert "scores" in run("evaluate.py", f"--run_dir={tmp_path}", "--eval_episodes=1").stdout


def test_a_setting_of_another_agent_is_refused(tmp_path):
    done = run("train_atari.py", "--agent=mfec", "--alpha=0.5", cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert "agent 'mfec' has no setting alpha" in done.stderr
