"""Opens a run or an export for watching: reads it, and changes nothing."""

import math
from pathlib import Path
from typing import NamedTuple

from nec_tf.experiments import run_files
from nec_tf.experiments.exported import Exported
from nec_tf.experiments.run import Run, load_trained_run
from nec_tf.experiments.tasks import Task
from nec_tf.experiments.viewer.answers import Answers, Subject
from nec_tf.experiments.viewer.deciders import Decider, ExportDecider, decider_of
from nec_tf.experiments.viewer.pictures import Pictures, ReplayStates, States
from nec_tf.experiments.viewer.session import Session
from nec_tf.replay.kept_screens import KeptScreens
from nec_tf.replay.return_replay import Replay

_STATISTICS = (
    "known_states",
    "recall",
    "nearest_weight",
    "outermost",
    "key_drift",
    "q_bias",
    "q_correlation",
)


class Watched(NamedTuple):
    """Something opened for watching.

    Attributes:
        session: Plays.
        pictures: Of remembered states.
        subject: In words.
        replay: States of the replay, which another thread still hashes; None without a replay.
    """

    session: Session
    pictures: Pictures
    subject: Subject
    replay: ReplayStates | None

    def answers(self) -> Answers:
        """Returns the answers for a page."""
        return Answers(self.session, self.pictures, self.subject)

    def close(self) -> None:
        """Ends what was started."""
        if self.replay is not None:
            self.replay.close()
        self.session.close()


def watch_run(run_dir: Path, checkpoint: str, seed: int) -> Watched:
    """Opens a checkpoint of a run; the run may be training at the same time."""
    run = load_trained_run(run_dir, checkpoint)
    unit = run.task.unit
    subject = Subject(
        title=f"{run.settings.agent} · {run.task.name}",
        origin=f"{run_dir}, {checkpoint} checkpoint, {run.progress.frames:,} {unit}",
        statistics=_last_figures(run_dir),
    )
    return _watched(run.task, decider_of(run), seed, subject, run_dir, _replay_of(run))


def watch_export(folder: Path, seed: int) -> Watched:
    """Opens an exported policy; pictures come from the run that it names, if that kept screens."""
    exported = Exported(folder)
    task, source = exported.task, exported.source
    origin = f"{exported.folder}, exported at {source.get('frames', 0):,} {task.unit}"
    subject = Subject(f"exported policy · {task.name}", origin, {})
    run_dir = Path(source["run_dir"]) if "run_dir" in source else None
    return _watched(task, ExportDecider(exported), seed, subject, run_dir, None)


def _watched(
    task: Task,
    decider: Decider,
    seed: int,
    subject: Subject,
    run_dir: Path | None,
    replay: ReplayStates | None,
) -> Watched:
    sources: list[States] = []
    if run_dir is not None and (run_dir / run_files.SCREENS / "about.json").exists():
        sources.append(KeptScreens(run_dir / run_files.SCREENS))
    if replay is not None:
        sources.append(replay)
    return Watched(Session(task, decider, seed), Pictures(sources, task), subject, replay)


def _replay_of(run: Run) -> ReplayStates | None:
    """Returns the states of a replay whose entries carry ids of states."""
    replay = getattr(run.learner, "replay", None)
    by_key = getattr(run.config, "recognise_by_key", True)  # then ids are those of keys
    return ReplayStates(replay) if isinstance(replay, Replay) and not by_key else None


def _last_figures(run_dir: Path) -> dict[str, float]:
    """Returns the newest figure of each statistic that the run has logged."""
    figures = {}
    for row in run_files.read_metrics(run_dir):
        for name in _STATISTICS:
            value = float(row.get(name) or math.nan)
            if math.isfinite(value):
                figures[name] = value
    return figures
