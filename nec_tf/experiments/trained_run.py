"""A run that trains, is evaluated and is exported: what programs and `nec_tf.train` call."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nec_tf.experiments import provenance
from nec_tf.experiments.evaluation import Evaluation, evaluate, require_evaluation
from nec_tf.experiments.exporting import export_run
from nec_tf.experiments.loop import Experiment
from nec_tf.experiments.registry import find_agent, make_config
from nec_tf.experiments.run import Run, default_num_envs, default_run_dir
from nec_tf.experiments.run_lock import RunLock
from nec_tf.experiments.settings import Settings
from nec_tf.experiments.tasks import Task
from nec_tf.runtime.errors import UserError
from nec_tf.runtime.folders import require_local_folder
from nec_tf.serving.compacting import Compact

_RUN_SETTINGS = {field.name for field in dataclasses.fields(Settings)}


class TrainedRun:
    """A run of an agent on a task: evaluates, exports, and trains further.

    >>> import nec_tf
    >>> run = nec_tf.train("CartPole-v1", frames=300, eval_episodes=2)
    >>> run.frames >= 300
    True
    >>> len(run.evaluate(episodes=3).scores)
    3
    >>> run.train(frames=400)  # the same run, to 400 steps in total
    >>> version = run.export("exported/cartpole")  # a SavedModel
    >>> nec_tf.load_run(run.run_dir).frames == run.frames
    True

    Attributes:
        run_dir: Its folder, with configuration, metrics, checkpoints and videos.
    """

    def __init__(self, run: Run) -> None:
        """Wraps a run that has a checkpoint; `train` and `load_run` return one."""
        self.run_dir = run.folder.path
        self._run = run

    @property
    def agent(self) -> Any:
        """The TF-Agents agent: its `policy` acts."""
        return self._run.learner.agent

    @property
    def task(self) -> Task:
        """What is played."""
        return self._run.task

    @property
    def frames(self) -> int:
        """Frames trained on."""
        return self._run.progress.frames

    def train(self, frames: int) -> None:
        """Trains further, until `frames` in total, and saves.

        Raises:
            KeyboardInterrupt: Ctrl-C or kill stopped it. A checkpoint was saved before.
        """
        settings = dataclasses.replace(self._run.settings, frames=frames)
        self._run, finished = _session(self.run_dir, self.task, settings, self._run.config)
        if not finished:
            raise KeyboardInterrupt

    def evaluate(
        self,
        episodes: int = 30,
        seed: int = 1,
        video: str | Path | None = None,
        on_finished: Callable[[int], Any] = lambda count: None,
        max_steps: int | None = None,
    ) -> Evaluation:
        """Plays whole episodes; the run is not changed.

        Args:
            episodes: How many.
            seed: Random seed of the environments and of the policy.
            video: File for a video of the best episode, *.mp4 or *.gif.
            on_finished: Called with the number of finished episodes, each time it grows.
            max_steps: Most agent steps of an episode; None for those of the run's evaluations.
        """
        require_evaluation(self.task, episodes, seed, video)
        self._run.learner.begin_evaluation(seed)
        limit = self._run.settings.eval_max_steps if max_steps is None else max_steps
        return evaluate(self.task, self.agent.policy, episodes, seed, video, on_finished, limit)

    def export(
        self,
        output_dir: str | Path,
        lookup: str = "ivf",
        recall: float = 0.99,
        version: int | None = None,
        compact: Compact | None = None,
        log: Callable[[str], None] = lambda text: None,
    ) -> Path:
        """Writes the policy as a SavedModel for TF Serving, with its memory; returns its folder.

        Args:
            output_dir: Folder of all versions, which a server watches.
            lookup: "ivf", "exact", or "scann" for servers that link its operations.
            recall: Share of the true neighbours that "ivf" has to find.
            version: Number of the version; None for one above the highest there.
            compact: Makes it small, at some cost in accuracy, which is measured; without memory
                files. None for a full export.
            log: Called with a line of text before each stage.
        """
        return export_run(self._run, Path(output_dir), lookup, recall, version, compact, log)


def train_task(
    task: Task,
    run_dir: str | Path | None,
    given: dict[str, Any],
    log: Callable[[str], None] = lambda text: None,
) -> tuple[TrainedRun, bool]:
    """Trains an agent, or resumes training; returns the run, and False if Ctrl-C stopped it.

    Args:
        task: What is played.
        run_dir: Folder of the run; None for runs/<agent>-<task>-<seed>.
        given: Settings of the run and of its agent, by name; the others are those of `preset`,
            by default the preset of the task.
        log: Called with a sentence if the run resumes.

    Raises:
        UserError: A setting is not valid, or the folder holds another run.
    """
    of_run = {name: given[name] for name in _RUN_SETTINGS & {*given}}
    of_agent = {name: given[name] for name in {*given} - _RUN_SETTINGS}
    settings = Settings.preset(task.preset, **of_run)
    preset = of_agent.pop("preset", task.preset)
    config = make_config(settings.agent, preset, **of_agent)
    if task.encoder_given and find_agent(settings.agent).encoder:
        raise UserError(f"encoder cannot be set for agent {settings.agent!r}: it has its own")
    if run_dir is None:
        run_dir = default_run_dir(settings.agent, task, settings.seed)
    require_local_folder("run_dir", run_dir)
    if "num_envs" not in given:
        num_envs = default_num_envs(settings.agent, run_dir)
        settings = dataclasses.replace(settings, num_envs=num_envs)
    run, finished = _session(run_dir, task, settings, config, log)
    return TrainedRun(run), finished


def _session(
    run_dir: str | Path,
    task: Task,
    settings: Settings,
    config: Any,
    log: Callable[[str], None] = lambda text: None,
) -> tuple[Run, bool]:
    """Opens a run, new or from its newest checkpoint, and trains to its end or to Ctrl-C."""
    with RunLock(run_dir):
        run = Run(run_dir, task, settings, config)
        experiment = Experiment(run)
        provenance.note(run.folder.path)
        if run.progress.frames:
            log(f"Resuming {run_dir} at {run.progress.frames:,} {task.unit}.")
        return run, experiment.run()
