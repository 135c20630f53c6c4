"""Random flags of train_gym.py, parsed and refused as the program does, up to the start of the run.

A process of its own: flags of a program are global.
"""

import contextlib
import dataclasses
import io
import json
import math
import random
import sys
import traceback
from typing import Any

from absl import app, flags

from nec_tf.experiments import trained_run
from nec_tf.experiments.registry import AGENTS
from nec_tf.experiments.settings import Settings
from nec_tf.experiments.tasks import gym_task
from nec_tf.runtime import startup
from trainers import command_line, train_gym

NUMBERS = ("0", "1", "-1", "2", "7", "50", "1000000", "1e6", "1_000", "0x10", "2147483648")
LARGE = ("9007199254740993", "9223372036854775808", "1" + 20 * "0", "9" * 400, "1e20", "1e400")
FLOATS = ("0.0", "-0.0", "0.5", "1.0", "1e-320", "nan", "inf", "-inf", "infinity", "1,5", ".5")
TEXTS = ("", " ", "true", "False", "nec", "linear", "power", "exact", "scann", "ä" * 300, "{}", "٣")
FOLDERS = ("", " ", "gs://bucket/x", "/etc/passwd", "/etc/passwd/x", "a" * 300, "runs/new")
SHARES = ("discount", "epsilon_start", "epsilon_end", "evaluation_epsilon", "averaging")


class _Accepted(Exception):
    """Raised in the place of a run, with its settings."""


def attack(count: int) -> dict[str, Any]:
    """Tries some random command lines; returns how many were accepted and what went wrong."""
    rng = random.Random(7)
    task = gym_task("CartPole-v1")
    of_run = [field.name for field in dataclasses.fields(Settings) if field.name != "agent"]
    found: dict[str, Any] = {"accepted": 0, "refused": 0, "wrong": []}

    def stop(run_dir: Any, task: Any, settings: Any, config: Any, log: Any) -> None:
        raise _Accepted(settings, config)

    trained_run._session = stop
    for _ in range(count):
        agent, other = rng.sample([*AGENTS], 2)
        owner = agent if rng.random() < 0.9 else other
        of_agent = [field.name for field in dataclasses.fields(AGENTS[owner].config)]
        given = {name: _value(rng, name) for name in _some(rng, of_run + of_agent)}
        given["agent"] = agent
        if rng.random() < 0.2:
            given["run_dir"] = rng.choice(FOLDERS)
        wrong = _try(given, task)
        if wrong is None:
            found["refused"] += 1
        elif wrong == "":
            found["accepted"] += 1
        else:
            found["wrong"].append({"flags": given, "error": wrong})
    return found


def _some(rng: random.Random, names: list[str]) -> list[str]:
    return rng.sample(names, rng.choice((1, 1, 2, 3)))


def _value(rng: random.Random, name: str) -> str:
    """Returns a value that mostly has the type of its flag."""
    kind = flags.FLAGS[name].flag_type()
    if rng.random() < 0.2 or kind not in ("int", "float"):
        return rng.choice(NUMBERS + LARGE + FLOATS + TEXTS)
    return rng.choice(NUMBERS + (LARGE if kind == "int" else FLOATS))


def _try(given: dict[str, str], task: Any) -> str | None:
    """Returns None for refused flags, "" for accepted ones, or what is wrong."""
    arguments = ["train_gym.py", *(f"--{name}={value}" for name, value in given.items())]
    for name in flags.FLAGS:
        flags.FLAGS[name].unparse()
    printed = io.StringIO()
    try:
        with contextlib.redirect_stderr(printed), contextlib.redirect_stdout(printed):
            rest = app.parse_flags_with_usage(arguments)
            startup.guarded(lambda: command_line.train(task))(rest)
    except SystemExit as ended:
        said = printed.getvalue().strip()
        refused = ended.code in (1, 2) and said and "In call to configurable" not in said
        return None if refused else f"exit code {ended.code}: {said}"
    except _Accepted as accepted:
        return _nonsense(given, *accepted.args)
    except BaseException:
        return traceback.format_exc()
    return "it neither trained nor failed"


def _nonsense(given: dict[str, str], settings: Settings, config: Any) -> str:
    """Returns what is wrong with accepted settings, "" if nothing is."""
    values = {**dataclasses.asdict(settings), **dataclasses.asdict(config)}
    floats = {name: value for name, value in values.items() if isinstance(value, float)}
    rules = {
        "every number is finite": all(map(math.isfinite, floats.values())),
        "no number is negative": all(
            value >= 0 for value in values.values() if isinstance(value, int | float)
        ),
        "no number is beyond 64 bits": all(
            value < 2**63 for value in values.values() if isinstance(value, int)
        ),
        "shares are at most 1": all(values.get(name, 0) <= 1 for name in SHARES),
        "learning starts": values.get("learning_starts", 0) <= values.get("replay_capacity", 2**63),
        "epsilon falls": values.get("epsilon_from", 0) < values.get("epsilon_until", 2**63),
        "a folder is one": given.get("run_dir", "runs/new") == "runs/new",
        "numbers are those given": all(
            float(text) == values[name]
            for name, text in given.items()
            if name in values and isinstance(values[name], float)
        ),
    }
    return "; ".join(f"not true: {rule}" for rule, kept in rules.items() if not kept)


def main() -> None:
    """Prints the result for a count, the first argument, as JSON."""
    assert train_gym.main  # it defined its flags
    print(json.dumps(attack(int(sys.argv[1]))))
