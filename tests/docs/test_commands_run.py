"""Every command of the documents runs as it is shown, with a small budget after its own flags.

In the order of the documents, in an empty folder: a command finds what those before it have made.
A command that several documents show runs once in a group. `NOT_HERE` has the others, with reasons.
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import tensorflow as tf
from commands import Command, in_documents, lines, parse
from documents import ROOT
from served import answering, grpc_server, rest_server

TRAINING = "--frames=400 --eval_every_frames=400 --eval_episodes=1 --novideo"
TRAINING += " --epsilon_from=10 --epsilon_until=100"
# MFEC has none of these.
UPDATES = ["--horizon=10", "--learning_starts=40", "--batch_size=8", "--replay_capacity=500"]
BUDGETS = {
    "export/export_policy.py": "",
    "export/import_memory.py": "",
    "export/serving_client.py": "--deadline=120",
    "trainers/evaluate.py": "--eval_episodes=1",
    "trainers/record_result.py": "",
    "trainers/report.py": "",
    "trainers/screen.py": "--list",  # without it: tests/trainers/test_sweep.py
    "trainers/sweep.py": "--list",  # the same
    "trainers/train_atari.py": f"{TRAINING} --eval_max_steps=40",
    "trainers/train_gym.py": TRAINING,
    "trainers/watch.py": "--record=film.gif --record_seconds=1",  # a page: tests/.../viewer
}
# What is not run here: a pattern of its line, and where it is run, or why it is not.
NOT_HERE = {
    r"make (help|install|lint|test|unit|docs|lock|clean)\b": "CI runs them",
    r"make (benchmark|faults|fuzz|soak|cluster-test)\b": "measures or attacks for minutes",
    r"-m benchmarks\.(lookup|loop)\b": "tests/benchmarks",
    r"-m benchmarks\.(serving|soak|trials|turnover|watching)\b": "measures for minutes, alone",
    r"trainers/tune\.py": "tests/trainers/test_sweep.py",
    r"--wandb\b": "tests/experiments/test_shown_metrics.py: wandb is not in the lock",
    r"nec-tf train --help": "tests/trainers/test_programs.py",
    r"--screenshot=": "tests/experiments/report: needs chromium",
}
PLACEHOLDER = re.compile(r"\b(?:AGENT|GAME|SEED|RUN)\b|(?<==)\.\.\.$")
VALUES = {"AGENT": "mfec", "GAME": "pong", "SEED": "1"}
VALUES |= dict.fromkeys(("RUN", "..."), "runs/nec-frostbite-1")
# Whole games of Atari through an export take a minute: these are short.
SHORTER = {
    ("export/serving_client.py", "--game=Frostbite"): "--env=CartPole-v1",
    ("trainers/evaluate.py", "--export=exported/frostbite"): "--export=exported/cartpole",
    ("trainers/evaluate.py", "--export=pretrained/pong"): "--export=exported/cartpole",
}
TRAIN = ["make train", "make train GAME=Pong"]  # documents presume these runs
CARTPOLE = [
    "python trainers/train_gym.py --env=CartPole-v1 --run_dir=runs/cartpole",
    "python export/export_policy.py --run_dir=runs/cartpole --output_dir=exported/cartpole",
]
BEGIN = {"README.md": TRAIN, "serving.md": TRAIN + CARTPOLE, "others": []}
GROUPS = {
    "README.md": ["README.md", "CONTRIBUTING.md", "watch.md", "cluster.md"],
    "serving.md": ["serving.md"],
    "others": [],  # all other documents
}


def expanded(command: Command) -> list[Command]:
    """Returns the commands of our programs that `make` would call."""
    if command.program != "make":
        return [command]
    done = subprocess.run(
        ["make", "--dry-run", "--old-file=install", *command.arguments],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    whole = re.sub(r" *\\\n *", " ", done.stdout)
    return [one for line in whole.splitlines() for one in parse(command.document, line)]


def reason(command: Command) -> str | None:
    """Returns why a command is not run here; None if it is."""
    found = [why for pattern, why in NOT_HERE.items() if re.search(pattern, command.line)]
    return found[0] if found else None


def filled(command: Command) -> list[str]:
    """Returns the arguments with values in the place of words such as GAME, and the budget."""
    words = [SHORTER.get((command.program, word), word) for word in command.arguments]
    shown = [PLACEHOLDER.sub(lambda found: VALUES[found[0]], word) for word in words]
    budget = BUDGETS[command.program].split()
    if any(word.startswith("--record=") for word in shown):  # a film of its own
        budget = [word for word in budget if not word.startswith("--record=")]
    if "train_" in command.program and "--agent=mfec" not in shown:
        budget += UPDATES
    names = {word.partition("=")[0] for word in budget}
    return [*(word for word in shown if word.partition("=")[0] not in names), *budget]


def planned(group: str) -> list[tuple[Command, list[str]]]:
    """Returns the commands of a group of documents with all arguments, each once."""
    named = {name for names in GROUPS.values() for name in names}
    shown = [command for line in BEGIN[group] for command in parse("begin", line)]
    for document in GROUPS[group] or sorted({c.document for c in in_documents()} - named):
        shown += [command for command in in_documents() if command.document == document]
    plan: dict[tuple[str, ...], tuple[Command, list[str]]] = {}
    for command in shown:
        for one in [] if reason(command) else expanded(command):
            arguments = filled(one)
            plan.setdefault((one.program, *sorted(arguments)), (one, arguments))
    return list(plan.values())


def test_every_exception_is_of_a_command_that_is_shown():
    shown = "\n".join(command.line for command in in_documents())
    assert [pattern for pattern in NOT_HERE if not re.search(pattern, shown)] == []


@pytest.fixture
def servers():
    """Addresses of servers that answer with action 0, by the ports that documents name."""
    with contextlib.ExitStack() as stack:
        zero = tf.make_tensor_proto(np.array([0]))
        yield {
            "localhost:8500": stack.enter_context(grpc_server(zero)),
            "localhost:8501": stack.enter_context(rest_server(answering([0]))),
        }


def prepare(folder, arguments):
    """Makes what a document says in words must be there before a command."""
    if any(word.startswith("--memory=exported/a,exported/b") for word in arguments):
        for name in ("a", "b"):
            shutil.copytree(folder / "exported" / "frostbite", folder / "exported" / name)
        shutil.copytree(folder / "runs" / "nec-frostbite-1", folder / "runs" / "nec-frostbite-3")
    if "--output_dir=pretrained/pong" in arguments and "--version=1" in arguments:
        shutil.rmtree(folder / "pretrained" / "pong")  # "remove the old one first"


MINE = """
    import gymnasium

    class Mine(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(0, 1, (2,))
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, seed=None, options=None):
            super().reset(seed=seed)
            return self.observation_space.sample(), {}

        def step(self, action):
            ended = bool(self.np_random.random() < 0.1)
            return self.observation_space.sample(), float(action), ended, False, {}

    gymnasium.register("Mine-v0", Mine)
"""


@pytest.mark.parametrize("group", GROUPS)
def test_the_commands_of_the_documents_run(group, tmp_path, servers):
    (tmp_path / "my_envs.py").write_text(textwrap.dedent(MINE))
    shutil.copytree(ROOT / "pretrained", tmp_path / "pretrained")
    shutil.copytree(ROOT / "results", tmp_path / "results")
    shutil.copy(ROOT / "README.md", tmp_path)
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    (flagfile,) = [one for one in lines((ROOT / "README.md").read_text()) if "printf" in one]
    subprocess.run(["bash", "-c", flagfile], cwd=tmp_path, check=True)
    environment = {k: v for k, v in os.environ.items() if k != "TF_ENABLE_ONEDNN_OPTS"}
    environment |= {"PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    for command, arguments in planned(group):
        prepare(tmp_path, arguments)
        flags = [re.sub(r"localhost:\d+$", lambda at: servers[at[0]], word) for word in arguments]
        done = subprocess.run(
            [sys.executable, ROOT / command.program, *flags],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, f"{command.line}\n{flags}\n{done.stderr[-3000:]}"
    made = {
        "README.md": ["best.mp4", "exported/frostbite/1/saved_model.pb", "report/index.html"],
        "serving.md": ["pretrained/pong/1/check.npz", "runs/nec-frostbite-3/checkpoints"],
        "others": ["results/mfec/pong/1.csv", "runs/mfec-pong-1/metrics.csv"],
    }
    assert [name for name in made[group] if not (tmp_path / name).exists()] == []
