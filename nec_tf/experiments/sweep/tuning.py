"""A search over settings: Optuna proposes them, a sweep trains them, one statistic judges them."""

import csv
import dataclasses
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import optuna

from nec_tf.environments.games import GAMES
from nec_tf.experiments.evaluation_log import read_evaluations
from nec_tf.experiments.report.statistics import log_statistic, rectangular
from nec_tf.experiments.sweep.plan import Trial, defaults_of, parse_value
from nec_tf.experiments.sweep.status import is_finished
from nec_tf.runtime.errors import UserError

# Evaluations at the end of a run whose mean is its score, as in the learning benchmark
# (docs/experiments.md): one evaluation of 20 games is noise of the size of a gain.
_LAST_EVALUATIONS = 3
_DIGITS = 3  # significant, of a proposed float: more only make names long


def statistic(human_normalised: Mapping[str, Sequence[float]]) -> float:
    """Returns the statistic by which the report compares variants too, `log_statistic`.

    Args:
        human_normalised: Per cent of human play of each seed, by game.
    """
    columns = [np.array(seeds) / 100.0 for seeds in human_normalised.values()]
    return float(log_statistic(rectangular(columns)))


def statistic_of(trials: Iterable[Trial]) -> float:
    """Returns the statistic of finished trials of one setting."""
    scores: dict[str, list[float]] = {}
    for trial in trials:
        last = read_evaluations(trial.run_dir)[-_LAST_EVALUATIONS:]
        means = [sum(record.scores) / len(record.scores) for record in last]
        normalised = GAMES[trial.game].human_normalised(sum(means) / len(means))
        scores.setdefault(trial.game, []).append(normalised)
    return statistic(scores)


@dataclasses.dataclass(frozen=True)
class Range:
    """Values from which a setting is chosen.

    Attributes:
        name: Of the setting.
        choices: All values; or, for an interval, its ends.
        interval: Whether all values between the two are meant.
        log: Whether the logarithm of the value is uniform.
    """

    name: str
    choices: tuple[Any, ...]
    interval: bool = False
    log: bool = False

    def suggest(self, trial: optuna.Trial | optuna.trial.FixedTrial) -> Any:
        """Returns the value that Optuna proposes, or has proposed, for a trial."""
        if not self.interval:
            return trial.suggest_categorical(self.name, self.choices)
        low, high = self.choices
        if isinstance(low, int):
            return trial.suggest_int(self.name, low, high, log=self.log)
        return float(f"{trial.suggest_float(self.name, low, high, log=self.log):.{_DIGITS}g}")


def parse_range(text: str, agent: str) -> Range:
    """Returns the range of a text such as `horizon=10:100`, `alpha=0.01:1:log` or `index=a,b`."""
    name, equals, values = text.partition("=")
    defaults = defaults_of(agent)
    if name not in defaults:
        raise UserError(f"--range {name}: agent {agent!r} has no such setting")
    ends = values.split(":")
    log = len(ends) == 3 and ends.pop() == "log"
    if not equals or len(ends) > 2 or not all(values.split(",")):
        raise UserError(f"--range must be name=low:high, name=low:high:log or name=a,b: {text!r}")
    interval = len(ends) == 2
    texts = ends if interval else values.split(",")
    choices = tuple(parse_value(name, part, defaults[name]) for part in texts)
    if interval and (isinstance(choices[0], bool | str) or not choices[0] < choices[1]):
        raise UserError(f"--range {name} must go from a smaller to a larger number: {text!r}")
    if log and choices[0] <= 0:
        raise UserError(f"--range {name} must begin above 0 to be logarithmic: {text!r}")
    return Range(name, choices, interval, log)


class Search:
    """A search that is kept in a folder and can be resumed."""

    def __init__(
        self,
        folder: Path,
        ranges: Sequence[Range],
        make: Callable[[Mapping[str, Any]], list[Trial]],
        seed: int = 0,
        early_stopping: bool = False,
    ) -> None:
        """Opens a search, new or of before.

        Args:
            folder: Where it is kept.
            ranges: Of the settings.
            make: Returns the trials of settings, each game once for every seed.
            seed: Of the proposals.
            early_stopping: Whether settings below the median of the others after half of their
                trials are given up.
        """
        folder.mkdir(parents=True, exist_ok=True)
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        storage = optuna.storages.journal.JournalStorage(
            optuna.storages.journal.JournalFileBackend(str(folder / "study.log"))
        )
        self._folder = folder
        self._ranges = ranges
        self._make = make
        self._early_stopping = early_stopping
        pruner: optuna.pruners.BasePruner = optuna.pruners.NopPruner()
        if early_stopping:
            pruner = optuna.pruners.MedianPruner(n_startup_trials=4)
        self.study = optuna.create_study(
            storage=storage,
            study_name="search",
            direction="maximize",
            load_if_exists=True,
            pruner=pruner,
        )
        # Resumed with the same seed, it would propose the first settings again.
        drawn = len(self.study.trials)
        self.study.sampler = optuna.samplers.TPESampler(seed=seed + drawn)

    def run(self, samples: int, batch: int, train: Callable[[list[Trial]], bool]) -> None:
        """Judges settings until there are `samples`.

        Args:
            samples: Settings in all, those of before included.
            batch: Settings that are proposed at a time, and trained side by side.
            train: Runs trials; returns whether it was not interrupted.
        """
        while (proposed := self._next(samples, batch)) and self._judge(proposed, train):
            self._write_table()
        self._write_table()

    def _next(self, samples: int, batch: int) -> list[optuna.Trial]:
        """Returns settings that are not judged yet: those of a lost session, or new ones."""
        states = optuna.trial.TrialState
        lost = self.study.get_trials(deepcopy=False, states=(states.RUNNING,))
        if lost:
            return [optuna.Trial(self.study, trial._trial_id) for trial in lost]
        room = samples - len(self.study.trials)
        return [self.study.ask() for _ in range(max(0, min(batch, room)))]

    def _judge(
        self, proposed: Sequence[optuna.Trial], train: Callable[[list[Trial]], bool]
    ) -> bool:
        """Trains proposed settings and gives them their statistic; returns False if interrupted."""
        states = optuna.trial.TrialState
        trials = {
            one: self._make({r.name: r.suggest(one) for r in self._ranges}) for one in proposed
        }
        for share in (0.5, 1.0) if self._early_stopping else (1.0,):
            chosen = {one: own[: math.ceil(share * len(own))] for one, own in trials.items()}
            if not train([trial for own in chosen.values() for trial in own]):
                return False
            for one, own in chosen.items():
                if not all(is_finished(trial) for trial in own):
                    self.study.tell(one, state=states.FAIL)
                    del trials[one]
                elif share == 1.0:
                    self.study.tell(one, statistic_of(own))
                else:
                    one.report(statistic_of(own), step=0)
                    if one.should_prune():
                        self.study.tell(one, state=states.PRUNED)
                        del trials[one]
        return True

    def ranking(self) -> list[tuple[float, dict[str, Any]]]:
        """Returns the statistic and the settings of all that were judged, best first."""
        complete = self.study.get_trials(states=(optuna.trial.TrialState.COMPLETE,))
        judged = [(float(one.value or 0.0), self._settings_of(one)) for one in complete]
        return sorted(judged, key=lambda pair: -pair[0])

    def _settings_of(self, one: optuna.trial.FrozenTrial) -> dict[str, Any]:
        fixed = optuna.trial.FixedTrial(one.params)
        return {r.name: r.suggest(fixed) for r in self._ranges}

    def _write_table(self) -> None:
        """Writes `settings.csv`, best first."""
        unfinished = self._folder / "settings.unfinished"
        with unfinished.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["statistic", *(r.name for r in self._ranges)])
            for value, settings in self.ranking():
                writer.writerow([f"{value:.4f}", *settings.values()])
        os.replace(unfinished, self._folder / "settings.csv")
