"""Recorded runs: `results/<variant>/<game>/<seed>.csv`, or the folders of runs themselves."""

import csv
import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from nec_tf.environments.games import GAMES
from nec_tf.experiments.evaluation_log import read_evaluations
from nec_tf.experiments.report.published import ATARI_100K_FRAMES
from nec_tf.experiments.run_files import read_config, read_metrics, task_name
from nec_tf.runtime.errors import UserError

# An evaluation comes a few steps after it was due: 200,168 frames stand for 200,000.
_LATE = 1.005


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """One evaluation of a run.

    Attributes:
        frames: Environment frames trained on (agent steps for tasks other than Atari).
        score: Mean score of its games.
        episodes: Number of its games, None if not recorded.
        scores: Score of each game; empty for files of versions that did not record them.
        wall_seconds: Since the run began, None if not recorded.
        frames_per_second: Speed of training before this evaluation, None if not recorded.
    """

    frames: int
    score: float
    episodes: int | None = None
    scores: tuple[float, ...] = ()
    wall_seconds: float | None = None
    frames_per_second: float | None = None


@dataclasses.dataclass(frozen=True)
class RunRecord:
    """The evaluations of one run.

    Attributes:
        variant: Agent, or name of a setting of it.
        task: Id of an Atari game, or short name of a Gymnasium environment.
        seed: As in the file name.
        evaluations: In the order of frames.
        target: Frames that the run was started for, None if not recorded.
        source: File or folder that it was read from.
    """

    variant: str
    task: str
    seed: str
    evaluations: tuple[Evaluation, ...]
    target: int | None
    source: str

    def at(self, frames: int) -> Evaluation | None:
        """Returns the evaluation that was due at `frames`, None if there is none."""
        due = [e for e in self.evaluations if frames / _LATE <= e.frames <= frames * _LATE]
        return due[-1] if due else None

    @property
    def end(self) -> int:
        """Frames at which the last evaluation was due; 0 before the first one."""
        return due_frames(self.evaluations[-1].frames) if self.evaluations else 0

    @property
    def finished(self) -> bool:
        """Whether an evaluation reached the frames that the run was started for."""
        return self.target is None or self.end * _LATE >= self.target

    def normalised(self, score: float) -> float | None:
        """Returns a score as a fraction of human play, None if the task is no Atari game."""
        game = GAMES.get(self.task)
        return None if game is None else game.human_normalised(score) / 100


def due_frames(frames: int) -> int:
    """Returns the round number at which an evaluation was due that came at `frames`.

    The roundest number (a multiple of 1, 2 or 5 times a power of ten) at most 0.5% below.
    """
    unit = 10 ** len(str(frames))
    while unit > 1:
        for step in (unit, unit // 2, unit // 5):
            due = frames // step * step
            if due and due * _LATE >= frames:
                return due
        unit //= 10
    return frames


def unit_of(records: Iterable[RunRecord]) -> str:
    """Returns what the records count: emulator `frames` of Atari, agent `steps` of others."""
    return "frames" if any(record.task in GAMES for record in records) else "steps"


def default_budgets(records: Sequence[RunRecord]) -> list[int]:
    """Returns the frames at which finished runs end, first those that most runs have reached.

    Where no run is finished, those at which runs stand. 400,000 frames, the budget of Atari-100k,
    are among them if any run has an evaluation there.
    """
    begun = [record for record in records if record.end]
    ends = {record.end for record in begun if record.finished} or {record.end for record in begun}
    reached = Counter({end: sum(record.at(end) is not None for record in records) for end in ends})
    budgets = sorted(ends, key=lambda end: (-reached[end], -end))
    if ATARI_100K_FRAMES not in ends and any(record.at(ATARI_100K_FRAMES) for record in records):
        budgets.append(ATARI_100K_FRAMES)
    return budgets


def load_results(folder: Path) -> list[RunRecord]:
    """Returns all results of a folder, in the order of variants, games and seeds.

    Raises:
        UserError: There are none, or a file has no column of frames and scores.
    """
    paths = sorted(folder.glob("*/*/*.csv"))
    if not paths:
        raise UserError(
            f"{folder} holds no results (<variant>/<game>/<seed>.csv):"
            " `nec-tf record` writes one of a run"
        )
    return [_load_result(path) for path in paths]


def load_runs(folder: Path) -> list[RunRecord]:
    """Returns the runs of a folder and of folders within it, finished or not.

    A folder `nec-pong-1` is a run of variant `nec`, `sweep/nec-pong-1` one of `sweep/nec`; a folder
    that is not named after its game and seed is a variant by itself.

    Raises:
        UserError: There are none.
    """
    folders = sorted(path.parent for path in folder.glob("**/config.json"))
    if not folders:
        raise UserError(
            f"{folder} holds no runs (<name>/config.json and metrics.csv): `nec-tf train` makes one"
        )
    return [_load_run(path, folder) for path in folders]


def _load_result(path: Path) -> RunRecord:
    lines = path.read_text().splitlines()
    head = [line for line in lines if line.startswith("#")]
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    if not rows or not {"frames", "eval_mean"} <= rows[0].keys():
        raise UserError(f"{path} is no result: it needs rows with the columns frames, eval_mean")
    [settings] = [json.loads(line.split(":", 1)[1]) for line in head if "settings:" in line] or [{}]
    evaluations = tuple(_evaluation(row) for row in rows)
    *_, variant, task, _ = path.parts
    return RunRecord(variant, task, path.stem, evaluations, settings.get("frames"), str(path))


def _evaluation(row: dict[str, Any]) -> Evaluation:
    scores = tuple(map(float, (row.get("scores") or "").split()))
    return Evaluation(
        frames=int(row["frames"]),
        # The file rounds the mean to four digits; the scores are not rounded.
        score=sum(scores) / len(scores) if scores else float(row["eval_mean"]),
        episodes=int(row["episodes"]) if row.get("episodes") else None,
        scores=scores,
        wall_seconds=float(row["wall_seconds"]) if row.get("wall_seconds") else None,
        frames_per_second=(
            float(row["frames_per_second"]) if row.get("frames_per_second") else None
        ),
    )


def _load_run(path: Path, root: Path) -> RunRecord:
    config = read_config(path)
    task, seed = task_name(config), str(config["seed"])
    games = {record.frames: record for record in read_evaluations(path)}
    evaluations = []
    for row in read_metrics(path):
        if not row.get("eval_mean"):
            continue
        recorded = games.get(int(row["frames"]))
        evaluations.append(
            Evaluation(
                frames=int(row["frames"]),
                score=float(row["eval_mean"]),
                episodes=config.get("eval_episodes"),
                scores=tuple(recorded.scores) if recorded else (),
                wall_seconds=recorded.wall_seconds if recorded else None,
                frames_per_second=recorded.frames_per_second if recorded else None,
            )
        )
    place = path.relative_to(root)
    name = place.name.removesuffix(f"-{task}-{seed}") or config["agent"]
    variant = "/".join([*place.parts[:-1], name])
    return RunRecord(variant, task, seed, tuple(evaluations), config.get("frames"), str(path))
