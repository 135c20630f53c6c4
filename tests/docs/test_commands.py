"""The commands in the documents name programs, flags and files that exist; a core of them runs.

Commands that do not run here run in the tests that `ELSEWHERE` names.
"""

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from commands import OURS, Command, flags_of, parse, wrong
from documents import ROOT, code, documents, text

FOLDERS = ("benchmarks/", "deploy/", "examples/", "export/", "requirements", "tests/", "trainers/")
# Programs that documents name and that do not run in this file, and where they run.
ELSEWHERE = {
    "benchmarks/loop.py": "tests/benchmarks/test_loop_benchmark.py",
    "benchmarks/lookup.py": "tests/benchmarks/test_lookup_benchmark.py",
    "examples/few_shot_keras.py": "tests/integration/test_examples.py",
    "examples/reverb_actor_learner.py": "tests/integration/test_examples.py",
    "examples/stock_drivers.py": "tests/integration/test_examples.py",
    "export/import_memory.py": "tests/export/test_export_policy.py",
    "export/serving_client.py": "tests/serving/test_exporting.py",
    "trainers/record_result.py": "tests/trainers/test_programs.py",
    "trainers/screen.py": "tests/trainers/test_sweep.py",
    "trainers/sweep.py": "tests/trainers/test_sweep.py",
    "trainers/train_atari.py": "tests/trainers/test_programs.py",
    "trainers/tune.py": "tests/trainers/test_sweep.py",
    "trainers/watch.py": "tests/experiments/viewer/test_server.py",
}
# Programs that measure for minutes or need an idle machine: only their flags are checked.
TOO_LONG = {f"benchmarks/{name}.py" for name in ("serving", "soak", "trials", "turnover")}
TOO_LONG |= {"benchmarks/watching.py"}


def lines(markdown: str) -> list[str]:
    """Returns the lines of shell blocks, continued lines as one, and commands inside sentences."""
    blocks = "\n".join(code(markdown, "sh", ""))
    spans = [" ".join(span.split()) for span in re.findall(r"(?<!`)`([^`]+)`(?!`)", markdown)]
    return [
        *re.sub(r" *\\\n *", " ", blocks).splitlines(),
        *(span for span in spans if OURS.match(span)),
    ]


def commands() -> list[Command]:
    """Returns our commands in all documents."""
    return [
        command
        for document in documents()
        for line in lines(text(document))
        for command in parse(document.name, line)
    ]


def test_programs_and_flags_in_documents_exist():
    found = commands()
    assert len(found) > 40
    with ThreadPoolExecutor(2) as threads:  # the help of each program, once
        list(threads.map(flags_of, {c.program for c in found if (ROOT / c.program).is_file()}))
    mistakes = [f"{c.document}: {c.line}: {one}" for c in found for one in wrong(c)]
    assert mistakes == []


@pytest.mark.parametrize(
    ("line", "mistake"),
    [
        ("make tset ARGS=-x", "make: no tset"),
        ("make train GAMES=Pong", "make: no GAMES"),
        ("nec-tf trian --frames=1", "no program nec-tf ['trian', '--frames=1']"),
        ("python trainers/train.py", "no program trainers/train.py"),
        ("cd x && .venv/bin/python trainers/report.py --frame=1", "has no flag --frame"),
        ("python -m benchmarks.nothing  # a comment", "no program benchmarks/nothing.py"),
    ],
)
def test_a_mistake_would_be_found(line, mistake):
    (command,) = parse("x.md", line)
    (found,) = wrong(command)
    assert found.endswith(mistake)


def test_files_in_documents_exist():
    missing = []
    for document in documents():
        for line in lines(text(document)):
            names = re.findall(rf"(?<![\w/.=-])((?:{'|'.join(FOLDERS)})[\w./-]*)", line)
            missing += [f"{document.name}: {name}" for name in names if not (ROOT / name).exists()]
    assert missing == []


def test_every_program_in_documents_runs_in_a_test():
    used = {command.program for command in commands()} - {"make"}
    assert used - set(CORE_PROGRAMS) - set(ELSEWHERE) - TOO_LONG == set()
    for program, test in ELSEWHERE.items():
        assert re.search(rf"\b{program.split('/')[1][:-3]}\b", (ROOT / test).read_text()), program


# The core: commands of README.md or of a program's docstring that have all of these words, in this
# order, with small budgets after their own flags.
RUN = "--run_dir=runs/core"
QUICK = (
    "--frames=400 --eval_every_frames=400 --eval_episodes=1 --novideo --learning_starts=40"
    " --batch_size=8 --epsilon_from=10 --epsilon_until=100 --horizon=10 --replay_capacity=500"
)
CORE = [
    ("trainers/train_gym.py", "--flagfile=cartpole.flags", f"{RUN} {QUICK}"),
    ("trainers/evaluate.py", "--video=best.mp4", f"{RUN} --eval_episodes=1"),
    ("export/export_policy.py", "--output_dir=exported/frostbite", RUN),
    ("export/export_policy.py", "--check --output_dir=exported/frostbite", ""),
    ("trainers/report.py", "", "--runs_dir=runs"),
]
CORE_PROGRAMS = {program for program, _, _ in CORE}


def shown(program: str, words: list[str]) -> Command:
    """Returns the first command of a program that has some words."""
    docstring = (ROOT / program).read_text().split('"""')[1]
    all_lines = [*lines((ROOT / "README.md").read_text()), *docstring.splitlines()]
    found = [command for line in all_lines for command in parse("", line)]
    return next(c for c in found if c.program == program and {*words} <= {*c.arguments})


def test_the_core_of_the_documents_runs(tmp_path):
    environment = {k: v for k, v in os.environ.items() if k != "TF_ENABLE_ONEDNN_OPTS"}
    (flagfile,) = [line for line in lines((ROOT / "README.md").read_text()) if "printf" in line]
    subprocess.run(["bash", "-c", flagfile], cwd=tmp_path, check=True)
    for program, words, budget in CORE:
        command = shown(program, words.split())
        done = subprocess.run(
            [sys.executable, ROOT / program, *command.arguments, *budget.split()],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, f"{command.line}\n{done.stderr}"
    config = json.loads((tmp_path / "runs" / "core" / "config.json").read_text())
    assert config["env"] == "CartPole-v1"  # from the file of flags
    assert (tmp_path / "best.mp4").stat().st_size > 1000
    assert (tmp_path / "exported" / "frostbite" / "1" / "saved_model.pb").exists()
    assert (tmp_path / "report" / "index.html").exists()
