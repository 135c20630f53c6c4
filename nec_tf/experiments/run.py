"""A run: a task, settings, an agent's configuration, and what has been learned so far."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from nec_tf.experiments.checkpoints import Checkpoints, State
from nec_tf.experiments.memory_import import import_memories
from nec_tf.experiments.registry import find_agent, make_learner
from nec_tf.experiments.run_folder import RunFolder
from nec_tf.experiments.tasks import Task, task_from
from nec_tf.runtime.errors import UserError

_RENAMED = {"seen_to": "handled_frames"}  # names in older checkpoints


@dataclasses.dataclass(frozen=True)
class Settings:
    """What a run is, beside its task and its agent's configuration. Frames are the environment's.

    Attributes:
        agent: Name in the registry.
        frames: How long to train, all sessions together.
        seed: Of everything that is chance.
        num_envs: Environments side by side.
        eval_every_frames: From one evaluation to the next.
        eval_episodes: Episodes of an evaluation.
        checkpoint_every_frames: From one checkpoint to the next.
        log_every_frames: From one row of `metrics.csv` to the next.
        video: Whether the best evaluation is filmed.
        init_memory: Exported memories to begin with, folders with commas between them.
    """

    agent: str
    frames: int
    seed: int
    num_envs: int
    eval_every_frames: int
    eval_episodes: int
    checkpoint_every_frames: int
    log_every_frames: int
    video: bool
    init_memory: str = ""

    def __post_init__(self) -> None:
        """Refuses what cannot be meant."""
        for name in (
            "frames",
            "num_envs",
            "eval_every_frames",
            "eval_episodes",
            "checkpoint_every_frames",
            "log_every_frames",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"--{name} must be at least 1, not {getattr(self, name)}")
        if self.seed < 0:
            raise ValueError(f"--seed must not be negative, not {self.seed}")


@dataclasses.dataclass
class Progress:
    """How far a run is; part of its checkpoints.

    Attributes:
        frames: Trained on.
        handled_frames: Frames up to which evaluations, metrics and checkpoints are complete.
        episodes: Finished, as far as metrics tell.
        best_evaluation: Mean score.
        wall_seconds: Of training, evaluating and saving, all sessions together.
    """

    frames: int = 0
    handled_frames: int = 0
    episodes: int = 0
    best_evaluation: float | None = None
    wall_seconds: float = 0.0


class Run:
    """What a run is made of, new or as its newest checkpoint has it.

    Attributes:
        task: What is played.
        settings: What the run is.
        folder: Where it keeps its files.
        checkpoints: Its checkpoints.
        environment: For training.
        learner: The agent, and what it learns with.
        progress: How far it is.
        resumed: Whether there was a checkpoint to go on from.
    """

    def __init__(
        self,
        run_dir: str | Path,
        task: Task,
        settings: Settings,
        config: Any,
        checkpoint: str = "newest",
    ) -> None:
        """Opens the folder of a run and goes on where it stands.

        Raises:
            UserError: The folder is of another configuration.
            DamagedCheckpoint: The newest checkpoint cannot be read.
        """
        self.task = task
        self.settings = settings
        kind = find_agent(settings.agent)
        described = {**task.description, **dataclasses.asdict(settings)}
        self.folder = RunFolder(run_dir, {**described, "config": dataclasses.asdict(config)})
        # Bit-identical runs: seeds for all, and only kernels that add in a fixed order.
        tf.keras.utils.set_random_seed(settings.seed)
        tf.config.experimental.enable_op_determinism()
        self.environment = task.environment(settings.num_envs, settings.seed)
        self.learner = make_learner(kind, task, self.environment, config, settings.seed)
        self._variables = tf.train.Checkpoint(**self.learner.trackables())
        self.checkpoints = Checkpoints(self.folder.path)
        self.progress = self._resume(checkpoint)
        # An episode that was under way is not gone on with: each session begins its own.
        self.environment.seed(self.seed_for("train"))

    def seed_for(self, purpose: str) -> int:
        """Returns a seed for one purpose at this time, unlike that of any other."""
        words = [self.settings.seed, *purpose.encode(), self.progress.frames]
        return int(np.random.SeedSequence(words).generate_state(1)[0])

    def save(self, best: bool = False) -> None:
        """Writes a checkpoint; `best` keeps it as that of the best evaluation, too."""
        self.learner.finish_updates()
        self.checkpoints.save(self._state(), best)

    def save_best(self) -> None:
        """Writes a checkpoint to evaluate and export, of the agent as it was just evaluated.

        Updates that are being computed are not in it: to apply them here would change the run.
        """
        self.checkpoints.save_best(self._state())

    def _state(self) -> State:
        progress = dataclasses.asdict(self.progress)
        return State(self.progress.frames, self._variables, self.learner.arrays(), progress)

    def _resume(self, checkpoint: str) -> Progress:
        progress = self.checkpoints.load(self._variables, self._restore, checkpoint)
        self.resumed = progress is not None
        if progress is not None:
            return progress
        if self.settings.init_memory:
            import_memories(self.learner.agent, self.settings.init_memory.split(","))
        return Progress()

    def _restore(self, arrays: dict[str, np.ndarray], progress: dict[str, Any]) -> Progress:
        self.learner.restore_arrays(arrays)
        return Progress(**{_RENAMED.get(name, name): value for name, value in progress.items()})


def load_run(run_dir: str | Path, checkpoint: str = "newest") -> Run:
    """Returns the run of a folder, made from its `config.json` and a checkpoint, if it has one."""
    path = Path(run_dir) / "config.json"
    if not path.exists():
        raise UserError(f"{run_dir} is not the folder of a run: it has no config.json")
    recorded = json.loads(path.read_text())
    config_class, config = find_agent(recorded["agent"]).config, recorded.pop("config")
    unknown = sorted({*config} - {field.name for field in dataclasses.fields(config_class)})
    if unknown:
        raise UserError(
            f"{run_dir} is a run of another version of this software, with settings that are not"
            f" known here: {', '.join(unknown)}. commands.txt in it says of which commit; use that"
            " one, or train again"
        )
    names = [field.name for field in dataclasses.fields(Settings)]
    settings = Settings(**{name: recorded.pop(name) for name in names if name in recorded})
    return Run(run_dir, task_from(recorded), settings, config_class(**config), checkpoint)


def load_trained_run(run_dir: str | Path, checkpoint: str = "newest") -> Run:
    """Returns the run of a folder as a checkpoint has it, the newest or the best.

    Raises:
        UserError: The run has no such checkpoint.
    """
    run = load_run(run_dir, checkpoint)
    if not run.resumed and checkpoint == "best":
        raise UserError(
            f"{run_dir} has no checkpoint of its best evaluation: it has not been evaluated yet, or"
            " not since this version; use --checkpoint=newest"
        )
    if not run.resumed:
        every = run.settings.checkpoint_every_frames
        raise UserError(
            f"{run_dir} has no checkpoint yet: a run saves every {every:,} frames"
            " (--checkpoint_every_frames), at its end, and when Ctrl-C or kill stops it"
        )
    return run


def default_run_dir(agent: str, task: Task, seed: int) -> str:
    """Returns `runs/<agent>-<task>-<seed>`."""
    return str(Path("runs") / f"{agent}-{task.name}-{seed}")
