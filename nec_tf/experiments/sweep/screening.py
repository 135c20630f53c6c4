"""The trials of a factorial screening, and what their results say about each lever."""

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nec_tf.environments.games import find_games
from nec_tf.experiments.report.records import RunRecord, load_results
from nec_tf.experiments.report.statistics import log_statistic
from nec_tf.experiments.sweep import factorial
from nec_tf.experiments.sweep.factorial import Effect
from nec_tf.experiments.sweep.plan import Trial, defaults_of, parse_value, variant_of
from nec_tf.runtime.errors import UserError

_RUNS = ("first", "second")  # of a game: complementary levers, see `factorial`


@dataclasses.dataclass(frozen=True)
class Lever:
    """A change of one setting of an agent.

    Attributes:
        name: Of the setting.
        value: With the lever; without it, the setting has its default.
    """

    name: str
    value: Any

    def __str__(self) -> str:
        """Returns `name=value`."""
        return f"{self.name}={self.value}"


def parse_levers(texts: Sequence[str], agent: str) -> list[Lever]:
    """Returns the levers of texts such as `horizon=30`.

    Raises:
        UserError: An agent has no such setting, or the setting has that value anyway.
    """
    defaults, levers = defaults_of(agent), []
    for text in texts:
        name, equals, value = text.partition("=")
        if name not in defaults or not equals:
            raise UserError(f"--lever must be setting=value of agent {agent!r}, not {text!r}")
        levers.append(Lever(name, parse_value(name, value, defaults[name])))
        if levers[-1].value == defaults[name]:
            raise UserError(f"--lever {text} changes nothing: this is the default of {agent!r}")
    if not levers or len({lever.name for lever in levers}) < len(levers):
        raise UserError("give at least one --lever=setting=value, each setting once")
    return levers


class Screening:
    """Two runs of every game, and the effects of the levers.

    Attributes:
        levers: What is screened.
        trials: First and second run of each game, in a random order of games.
    """

    def __init__(
        self,
        levers: Sequence[Lever],
        games: str,
        agent: str,
        seed: int,
        frames: int,
        runs_dir: Path,
        flags: Sequence[str] = (),
    ) -> None:
        """Plans a screening; the same arguments give the same plan.

        Args:
            levers: What is screened.
            games: As in `find_games`; more games than levers.
            agent: Name in the registry.
            seed: Seed of every run.
            frames: Emulator frames of each run.
            runs_dir: Folder of the run folders.
            flags: Flags that all runs get.

        Raises:
            UserError: There are too few games, or the agent refuses levers together.
        """
        ids = [game.id for game in find_games(games)]
        if len(ids) <= len(levers):
            raise UserError(
                f"{len(levers)} levers need at least {len(levers) + 1} games to be told apart, and"
                f" --games has {len(ids)}"
            )
        self.levers = list(levers)
        self._on = dict(zip(ids, factorial.design(len(ids), len(levers)), strict=True))
        order = np.random.default_rng(0).permutation(len(ids))
        self.trials = [
            Trial(run, game, seed, frames, (*self._flags(agent, game, run), *flags), runs_dir)
            for game in (ids[place] for place in order)
            for run in _RUNS
        ]

    def levels(self, game: str, run: str) -> np.ndarray:
        """Returns which levers are on in a run of a game, bool [levers]."""
        return self._on[game] if run == _RUNS[0] else ~self._on[game]

    def unfinished(self, results_dir: Path) -> list[Trial]:
        """Returns the trials without a complete result."""
        results = self._results(results_dir)
        return [trial for trial in self.trials if (trial.game, trial.variant) not in results]

    def figures(self, results_dir: Path) -> dict[str, tuple[float, float]]:
        """Returns the figures of the first and second run of each game that has both.

        A figure is log10(max(HNS, -0.05) + 0.1), where HNS is the mean of a run's evaluations.

        Raises:
            UserError: A result has other settings than this screening.
        """
        results = self._results(results_dir)
        pairs = {game: [results.get((game, run)) for run in _RUNS] for game in self._on}
        return {
            game: (_figure(first), _figure(second))
            for game, (first, second) in pairs.items()
            if first is not None and second is not None
        }

    def effects(self, figures: Mapping[str, tuple[float, float]]) -> list[Effect]:
        """Returns the effect of each lever by the games that have both figures.

        Raises:
            UserError: They do not separate the levers yet.
        """
        on = np.array([self._on[game] for game in figures]).reshape(-1, len(self.levers))
        first, second = [np.array([pair[run] for pair in figures.values()]) for run in (0, 1)]
        try:
            return factorial.effects(on, first, second)
        except ValueError as error:
            raise UserError(str(error)) from error

    def _flags(self, agent: str, game: str, run: str) -> list[str]:
        chosen = zip(self.levers, self.levels(game, run), strict=True)
        return variant_of(agent, {lever.name: lever.value for lever, on in chosen if on})[1]

    def _results(self, folder: Path) -> dict[tuple[str, str], RunRecord]:
        """Returns complete results by game and run."""
        trials = {(trial.game, trial.variant): trial for trial in self.trials}
        records: Iterable[RunRecord] = load_results(folder) if any(folder.glob("*/*/*.csv")) else ()
        found = {(record.task, record.variant): record for record in records}
        for place, record in found.items():
            if place not in trials or not self._is_of(record):
                raise UserError(
                    f"{record.source} is of another screening: give the same levers and games, or"
                    " another --results_dir"
                )
        return {
            place: record
            for place, record in found.items()
            if record.evaluations[-1].frames >= trials[place].frames
        }

    def _is_of(self, record: RunRecord) -> bool:
        """Whether the levers of a result are those that the plan gives to its run."""
        levels = self.levels(record.task, record.variant)
        settings = _settings_of(Path(record.source))
        return all(
            (settings.get(lever.name) == lever.value) == on
            for lever, on in zip(self.levers, levels, strict=True)
        )


def _settings_of(path: Path) -> dict[str, Any]:
    for line in path.read_text().splitlines():
        if line.startswith("# settings:"):
            config = json.loads(line.split(":", 1)[1])
            return {**config, **config.get("config", {})}
    return {}


def _figure(record: RunRecord) -> float:
    normalised = [record.normalised(evaluation.score) or 0.0 for evaluation in record.evaluations]
    return float(log_statistic(np.array([[sum(normalised) / len(normalised)]])))
