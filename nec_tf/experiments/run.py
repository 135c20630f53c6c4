"""A run: a task, settings, an agent's configuration, and what has been learned so far."""

import contextlib
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from nec_tf.experiments import provenance
from nec_tf.experiments.checkpoints import Checkpoints, State
from nec_tf.experiments.memory_import import import_memories
from nec_tf.experiments.registry import find_agent, make_learner
from nec_tf.experiments.run_files import BEFORE_RECORDED, CHECKPOINTS, read_config, read_object
from nec_tf.experiments.run_folder import RunFolder
from nec_tf.experiments.run_lock import RunLock
from nec_tf.experiments.settings import Settings
from nec_tf.experiments.tasks import Task, task_from
from nec_tf.runtime.errors import Diverged, UserError
from nec_tf.runtime.folders import require_local_folder

_RENAMED = {"seen_to": "handled_frames"}  # names in older checkpoints


@dataclasses.dataclass
class Progress:
    """How far a run is; part of its checkpoints.

    Attributes:
        frames: Trained on.
        handled_frames: Frames up to which evaluations, metrics and checkpoints are complete.
        episodes: Finished episodes up to the last row of metrics.
        best_evaluation: Mean score of the best evaluation.
        wall_seconds: Of training, evaluating and saving, all sessions together.
    """

    frames: int = 0
    handled_frames: int = 0
    episodes: int = 0
    best_evaluation: float | None = None
    wall_seconds: float = 0.0


class Run:
    """The parts of a run, new or as a checkpoint has it.

    Attributes:
        task: What is played.
        settings: Settings of the run.
        config: Configuration of its agent.
        folder: Folder of its files.
        checkpoints: Its checkpoints.
        environment: For training.
        learner: The agent, and what it learns with.
        progress: How far it is.
        resumed: Whether there was a checkpoint.
    """

    def __init__(
        self,
        run_dir: str | Path,
        task: Task,
        settings: Settings,
        config: Any,
        checkpoint: str = "newest",
    ) -> None:
        """Makes a run, and restores its checkpoint if it has one. Writes nothing.

        Raises:
            UserError: The folder is of another configuration.
            DamagedCheckpoint: The newest checkpoint cannot be read.
        """
        require_local_folder("run_dir", run_dir)
        self.task = task
        self.settings = settings
        self.config = config
        kind = find_agent(settings.agent)
        described = {**task.description, **dataclasses.asdict(settings)}
        self.folder = RunFolder(run_dir, {**described, "config": dataclasses.asdict(config)})
        # Bit-identical runs: seeds for all, and only kernels that add in a fixed order.
        tf.keras.utils.set_random_seed(settings.seed)
        tf.config.experimental.enable_op_determinism()
        self.environment = task.environment(settings.num_envs, settings.seed)
        try:
            self.learner = make_learner(kind, task, self.environment, config, settings.seed)
        except (MemoryError, OverflowError, tf.errors.ResourceExhaustedError) as error:
            raise UserError(
                f"there is not enough memory for these settings ({error}): lower replay_capacity,"
                " key_size or num_envs"
            ) from error
        self._variables = tf.train.Checkpoint(**self.learner.trackables())
        self.checkpoints = Checkpoints(self.folder.path)
        self.progress = self._resume(checkpoint)
        # Unfinished episodes are not resumed: each session begins its own.
        self.environment.seed(self.seed_for("train"))

    def seed_for(self, purpose: str) -> int:
        """Returns a seed that differs between purposes and between frames."""
        words = [self.settings.seed, *purpose.encode(), self.progress.frames]
        return int(np.random.SeedSequence(words).generate_state(1)[0])

    def save(self, best: bool = False) -> None:
        """Writes a checkpoint; `best` keeps it as that of the best evaluation, too."""
        self.learner.finish_updates()
        self.checkpoints.save(self._state(), best)

    def save_between(self) -> None:
        """Writes a checkpoint that time asks for, and that must not change the run's numbers.

        Updates that are being computed are not in it: a run that resumes from it lacks one or two.
        """
        self.checkpoints.save(self._state())

    def save_best(self) -> None:
        """Writes a checkpoint to evaluate and export, of the agent as it was just evaluated.

        Updates that are being computed are not in it: to apply them here would change the run.
        """
        self.checkpoints.save_best(self._state())

    def _state(self) -> State:
        self._require_finite()
        progress = dataclasses.asdict(self.progress)
        return State(self.progress.frames, self._variables, self.learner.arrays(), progress)

    def _require_finite(self) -> None:
        """Raises `Diverged` if a weight or a stored key or value is NaN or infinite.

        The loss of the next update would show it, but the checkpoints kept would have it by then.
        """
        for name, part in self.learner.trackables().items():
            variables = getattr(part, "variables", ())
            for variable in () if callable(variables) else variables:
                # A sum: no copy of a large table is made.
                if variable.dtype.is_floating and not np.isfinite(tf.reduce_sum(variable)):
                    raise Diverged(f"training diverged: {name} holds NaN or infinity.")

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
        named = {_RENAMED.get(name, name): value for name, value in progress.items()}
        restored = Progress(**named)
        for name in ("frames", "handled_frames", "episodes"):  # older versions have no checksums
            if type(count := getattr(restored, name)) is not int or count < 0:
                raise ValueError(f"{name} in progress.json is {count!r}")
        return restored


def load_run(run_dir: str | Path, checkpoint: str = "newest") -> Run:
    """Returns the run of a folder, made from its `config.json` and a checkpoint, if it has one."""
    recorded = read_config(Path(run_dir))
    config_class, config = find_agent(recorded["agent"]).config, recorded.pop("config", None)
    if not isinstance(config, dict):
        raise UserError(
            f"{Path(run_dir) / 'config.json'} is damaged: it has no settings of its agent"
        )
    fields = {field.name for field in dataclasses.fields(config_class)}
    config = {name: old for name, old in BEFORE_RECORDED.items() if name in fields} | config
    unknown = sorted({*config} - fields)
    if unknown:
        raise UserError(
            f"{run_dir} is a run of another version of this software, with settings that are not"
            f" known here: {', '.join(unknown)}. commands.txt in it says of which commit; use that"
            " one, or train again"
        )
    names = [field.name for field in dataclasses.fields(Settings)]
    given = {name: recorded.pop(name) for name in names if name in recorded}
    try:
        settings, task = Settings(**given), task_from(recorded)
    except (TypeError, KeyError) as error:
        raise UserError(
            f"{Path(run_dir) / 'config.json'} is damaged: a setting is missing ({error})"
        ) from error
    return Run(run_dir, task, settings, config_class(**config), checkpoint)


def load_trained_run(run_dir: str | Path, checkpoint: str = "newest") -> Run:
    """Returns the run of a folder as a checkpoint has it, the newest or the best.

    Raises:
        UserError: The run has no such checkpoint.
    """
    if checkpoint not in CHECKPOINTS:
        raise UserError(f"checkpoint must be {' or '.join(CHECKPOINTS)}, not {checkpoint!r}")
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


def import_into_run(run_dir: str | Path, memories: Sequence[str]) -> int:
    """Puts exported memories into a run and saves it; returns how many entries it has now."""
    read_config(Path(run_dir))  # refuses a folder without a run before the lock makes it
    with RunLock(run_dir):
        run = load_run(run_dir)
        own = {"run_dir": str(run_dir), "frames": run.progress.frames}
        entries = import_memories(run.learner.agent, memories, own)
        provenance.note(run.folder.path)
        run.save()
    return entries


def default_run_dir(agent: str, task: Task, seed: int) -> str:
    """Returns `runs/<agent>-<task>-<seed>`."""
    return str(Path("runs") / f"{agent}-{task.name}-{seed}")


def default_num_envs(agent: str, run_dir: str | Path) -> int:
    """Returns the number of environments of a run whose settings name none.

    That of the run in the folder, so that it can be resumed on a machine with more or fewer cores;
    for a new run, the agent's default.
    """
    path = Path(run_dir) / "config.json"
    if path.exists():
        with contextlib.suppress(ValueError, KeyError, TypeError):  # `RunFolder` reports damage
            return int(read_object(path)["num_envs"])
    return find_agent(agent).num_envs()
