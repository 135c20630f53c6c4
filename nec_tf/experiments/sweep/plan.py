"""What a sweep runs: games x agents x settings x seeds, each a trial with its own folder."""

import dataclasses
import itertools
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nec_tf.environments.games import find_games
from nec_tf.experiments.registry import find_agent, make_config
from nec_tf.experiments.settings import SEEDS
from nec_tf.runtime.errors import UserError

_MOST_SEEDS = 10_000  # of a range; each is a trial for every game and variant
# Settings of a run beside those of its agent that change what is learned, with their defaults.
_OF_THE_RUN = {"num_envs": 1, "protocol": "paper", "preset": "atari"}


@dataclasses.dataclass(frozen=True)
class Trial:
    """One run of a sweep.

    Attributes:
        variant: Name under which results are kept: the agent's, with the settings that differ.
        game: Id of the game.
        seed: Seed of the run.
        frames: Emulator frames to train on.
        flags: All other flags of the program.
        runs_dir: Folder of the run folders.
    """

    variant: str
    game: str
    seed: int
    frames: int
    flags: tuple[str, ...]
    runs_dir: Path

    @property
    def name(self) -> str:
        """Returns `<variant>-<game>-<seed>`, also the name of the run folder."""
        return f"{self.variant}-{self.game}-{self.seed}"

    @property
    def run_dir(self) -> Path:
        """Returns the folder of the run."""
        return self.runs_dir / self.name

    def command(self) -> list[str]:
        """Returns the command that runs the trial, here or on a node with the same installation."""
        return [
            sys.executable,
            "-m",
            "nec_tf",
            "train",
            f"--game={self.game}",
            f"--seed={self.seed}",
            f"--frames={self.frames}",
            *self.flags,
            f"--run_dir={self.run_dir}",
        ]


def make_trials(
    games: str,
    agents: str,
    seeds: str,
    frames: int,
    settings: Sequence[str],
    runs_dir: Path,
    flags: Sequence[str] = (),
    name: str = "",
) -> list[Trial]:
    """Returns a trial for every combination, seed by seed, so that each game is seen early.

    Args:
        games: As in `find_games`.
        agents: Names in the registry with commas between them.
        seeds: As in `parse_seeds`.
        frames: Emulator frames of each trial.
        settings: Texts `name=value,value`; all combinations of their values are run, by the agents
            that have such settings.
        runs_dir: Folder of the run folders.
        flags: Flags that all trials get.
        name: Name of the variant, if there is only one.

    Raises:
        UserError: A name or a value is wrong.
    """
    if frames < 1:
        raise UserError(f"--frames must be at least 1, not {frames}")
    names = list(dict.fromkeys(part.strip() for part in agents.split(",") if part.strip()))
    if not names:
        raise UserError("no agent was given: --agents=nec,mfec")
    choices = _parse_settings(settings, names)
    variants = {
        variant: own for agent in names for variant, own in _variants(agent, choices).items()
    }
    if name:
        if len(variants) > 1 or "/" in name:
            raise UserError(
                "--name must be one word without / and is for one variant; this sweep has"
                f" {len(variants)}: {', '.join(variants)}"
            )
        variants = dict(zip([name], variants.values(), strict=True))
    return [
        Trial(variant, game.id, seed, frames, (*own, *flags), runs_dir.resolve())
        for seed in parse_seeds(seeds)
        for variant, own in variants.items()
        for game in find_games(games)
    ]


def parse_seeds(text: str) -> list[int]:
    """Returns the seeds of a text such as `1-5` or `1,2,7-9`."""
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        last = last if dash else first
        if not (first.isdecimal() and last.isdecimal()):
            raise UserError(f"--seeds must be numbers and ranges such as 1-5,8, not {text!r}")
        if int(last) - int(first) >= _MOST_SEEDS or int(last) >= SEEDS:
            raise UserError(f"--seeds={text} must be below 2**32, and at most {_MOST_SEEDS:,}")
        seeds.extend(range(int(first), int(last) + 1))
    if not seeds:
        raise UserError(f"--seeds={text} is empty: give the smaller number first")
    return list(dict.fromkeys(seeds))


def _parse_settings(texts: Sequence[str], agents: Sequence[str]) -> dict[str, list[str]]:
    """Returns the texts of the values of each setting, which at least one agent must have."""
    known = set().union(*(defaults_of(agent) for agent in agents))
    choices: dict[str, list[str]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals or not all(values.split(",")):
            raise UserError(f"--set must be name=value,value, not {text!r}")
        if name in choices:
            raise UserError(f"--set {name} was given twice: put all values into one, {name}=1,2")
        if name not in known:
            raise UserError(f"--set {name}: none of {', '.join(agents)} has such a setting")
        choices[name] = values.split(",")
    return choices


def defaults_of(agent: str) -> dict[str, Any]:
    """Returns the settings that `--set` can give to an agent, with their defaults."""
    fields = dataclasses.fields(find_agent(agent).config)
    return {**_OF_THE_RUN, **{field.name: field.default for field in fields}}


def _variants(agent: str, choices: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Returns the flags of each variant of an agent, by its name."""
    defaults = defaults_of(agent)
    own = {name: values for name, values in choices.items() if name in defaults}
    variants: dict[str, list[str]] = {}
    for values in itertools.product(*own.values()):
        chosen = {
            name: parse_value(name, text, defaults[name])
            for name, text in zip(own, values, strict=True)
        }
        variant, flags = variant_of(agent, chosen)
        variants[variant] = flags
    return variants


def variant_of(agent: str, settings: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Returns the name and the flags of an agent with settings; defaults are left out of both.

    Raises:
        UserError: The agent refuses the settings.
    """
    defaults = defaults_of(agent)
    changed = {name: value for name, value in settings.items() if value != defaults[name]}
    of_agent = {name: value for name, value in changed.items() if name not in _OF_THE_RUN}
    preset = changed.get("preset", _OF_THE_RUN["preset"])
    make_config(agent, preset, **of_agent)  # raises before anything is started
    parts = [f"{name}-{_show(value)}" for name, value in sorted(changed.items())]
    flags = [f"--{name}={_show(value)}" for name, value in sorted(changed.items())]
    return "_".join([agent, *parts]), [f"--agent={agent}", *flags]


def parse_value(name: str, text: str, default: Any) -> Any:
    """Returns the value that a text means for a setting with this default."""
    kind = type(default)
    try:
        if kind is bool:
            return {"true": True, "false": False}[text.lower()]
        return kind(float(text)) if kind is int and float(text).is_integer() else kind(text)
    except (ValueError, KeyError) as error:
        raise UserError(f"--set {name} must be of type {kind.__name__}, not {text!r}") from error


def _show(value: Any) -> str:
    """Returns a value as flags take it: 0.0003 and not 3e-4, so that each has one name."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.12g}" if isinstance(value, float) else str(value)
