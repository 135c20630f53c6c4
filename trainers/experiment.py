"""The one experiment loop: act, learn, log, evaluate, save; for any agent and any task."""

import dataclasses
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tf_agents.trajectories import time_step as ts
from tf_agents.trajectories import trajectory
from tqdm import tqdm

from nec_tf.n_step_driver import NStepDriver
from trainers.evaluation import Evaluator, record_video, summarise
from trainers.registry import find_agent, make_learner
from trainers.run_folder import MetricsLog, RunFolder
from trainers.tasks import Task

_CHUNK = 50  # steps of the driver between two looks at the clock


@dataclasses.dataclass(frozen=True)
class Settings:
    """What a run is, beside its task and its agent's configuration. Frames are the environment's.

    Attributes:
        agent: Name in the registry.
        frames: How long to train, all sessions together.
        seed: Of everything that is chance.
        run_dir: Where the run keeps its files.
        num_envs: Environments side by side.
        eval_every_frames: From one evaluation to the next.
        eval_episodes: Episodes of an evaluation.
        checkpoint_every_frames: From one checkpoint to the next.
        log_every_frames: From one row of `metrics.csv` to the next.
        video: Whether the best evaluation is filmed.
    """

    agent: str
    frames: int
    seed: int
    run_dir: str
    num_envs: int
    eval_every_frames: int
    eval_episodes: int
    checkpoint_every_frames: int
    log_every_frames: int
    video: bool

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


class Experiment:
    """A run: made or resumed from its folder, then `run` to its end or to Ctrl-C."""

    def __init__(
        self, task: Task, settings: Settings, config: Any, extra: dict[str, Any] | None = None
    ) -> None:
        """Opens the run's folder and goes on where it stands.

        Args:
            task: What is played.
            settings: What the run is.
            config: Of the agent.
            extra: Settings of the program that belong into `config.json`.
        """
        self._task = task
        self._settings = settings
        recorded = {k: v for k, v in dataclasses.asdict(settings).items() if k != "run_dir"}
        self._folder = RunFolder(
            settings.run_dir,
            {"task": task.name, **recorded, **(extra or {}), **dataclasses.asdict(config)},
        )
        # Bit-identical runs: seeds for all, and only kernels that add in a fixed order.
        tf.keras.utils.set_random_seed(settings.seed)
        tf.config.experimental.enable_op_determinism()
        environment = task.environment(settings.num_envs, settings.seed)
        embedding = task.make_embedding(config.key_size, settings.seed)
        kind = find_agent(settings.agent)
        self._learner = make_learner(kind, environment, embedding, config, settings.seed)
        self._checkpoint = tf.train.Checkpoint(**self._learner.trackables())
        self._evaluator = Evaluator(task, self._learner.agent.policy, settings.eval_episodes)
        self._progress = self._resume()
        # An interrupted episode is not gone on with: later sessions have environments of their own.
        environment.seed(_seed(settings.seed, "train", self._progress.frames))
        self._returns = EpisodeReturns()
        self._driver = NStepDriver(
            environment, self._learner.agent.collect_policy, [self._returns, self._learner.observe]
        )
        self._log = MetricsLog(
            self._folder.path,
            ("episodes", "episode_return", *self._learner.METRICS, *_EVALUATION_COLUMNS),
            self._progress.frames,
        )

    @property
    def frames(self) -> int:
        """Frames trained so far."""
        return self._progress.frames

    def run(self) -> bool:
        """Trains to the end; returns False where Ctrl-C came first. Saves in both cases."""
        settings, progress = self._settings, self._progress
        if progress.frames >= settings.frames:
            return True
        started, frames_before = time.perf_counter(), progress.frames
        time_step = None
        evaluation: dict[str, float] = {}
        with self._bar() as bar:
            try:
                while progress.frames < settings.frames:
                    before = progress.frames
                    time_step = self._driver.run(_CHUNK, time_step)
                    progress.frames += self._returns.take_steps() * self._task.frames_per_step
                    bar.update(progress.frames - before)
                    done = progress.frames >= settings.frames
                    evaluate = done or self._due(before, settings.eval_every_frames)
                    if evaluate:
                        evaluation = self._evaluate(bar)
                    if evaluate or self._due(before, settings.log_every_frames):
                        speed = (progress.frames - frames_before) / (time.perf_counter() - started)
                        self._write_metrics(bar, evaluation if evaluate else {}, speed)
                    if done or self._due(before, settings.checkpoint_every_frames):
                        self._save()
            except KeyboardInterrupt:
                bar.set_description("saving")
                self._save()
                return False
            finally:
                self._log.flush()
        return True

    def evaluate(self, seed: int) -> dict[str, float]:
        """Evaluates the agent as it stands, without training it."""
        self._learner.begin_evaluation(seed)
        return summarise(self._task, self._evaluator.play(seed))

    def _due(self, before: int, every: int) -> bool:
        return before // every < self._progress.frames // every

    def _bar(self) -> tqdm:
        return tqdm(
            total=self._settings.frames,
            initial=self._progress.frames,
            desc=f"{self._settings.agent} {self._task.name}",
            unit="frame",
            unit_scale=True,
            dynamic_ncols=True,
            mininterval=0.5 if sys.stderr.isatty() else 30.0,  # a log file wants fewer lines
            smoothing=0.1,
        )

    def _write_metrics(self, bar: tqdm, evaluation: dict[str, float], speed: float) -> None:
        metrics = {"episodes": float(self._progress.episodes), **self._learner.metrics()}
        metrics["episodes"] = self._progress.episodes = (
            self._progress.episodes + self._returns.num_episodes
        )
        if self._returns.num_episodes:
            metrics["episode_return"] = self._returns.take_mean()
        self._log.write(self._progress.frames, {**metrics, **evaluation}, frames_per_second=speed)
        shown = {"return": "episode_return", "Q": "q", "loss": "loss", "memory": "memory"}
        bar.set_postfix(
            {name: f"{metrics[key]:.4g}" for name, key in shown.items() if key in metrics}
            | ({"eval": f"{evaluation['eval_mean']:.4g}"} if evaluation else {}),
            refresh=False,
        )

    def _evaluate(self, bar: tqdm) -> dict[str, float]:
        """Evaluates with seeds of its own and films the best evaluation so far."""
        bar.set_description("evaluating")
        seed = _seed(self._settings.seed, "evaluate", self._progress.frames)
        self._learner.begin_evaluation(seed)
        episodes = self._evaluator.play(seed)
        summary = summarise(self._task, episodes)
        seen = self._evaluator.last_observation
        if seen is not None and seen.ndim == 3:
            tiles = np.concatenate(list(np.moveaxis(seen, -1, 0)), axis=1)[..., None]
            self._log.write_image(self._progress.frames, "what_the_agent_sees", tiles)
        best = self._progress.best_evaluation
        if best is None or summary["eval_mean"] > best:
            self._progress.best_evaluation = summary["eval_mean"]
            if self._settings.video:
                folder = self._folder.path / "videos"
                folder.mkdir(exist_ok=True)
                record_video(self._task, max(episodes), folder / "best.mp4")
        bar.set_description(f"{self._settings.agent} {self._task.name}")
        return summary

    def _save(self) -> None:
        self._folder.save_checkpoint(
            self._progress.frames,
            self._checkpoint,
            self._learner.arrays(),
            dataclasses.asdict(self._progress),
        )

    def _resume(self) -> "Progress":
        saved = self._folder.load_checkpoint(self._checkpoint)
        if saved is None:
            return Progress()
        arrays, progress = saved
        self._learner.restore_arrays(arrays)
        return Progress(**progress)


@dataclasses.dataclass
class Progress:
    """How far a run is; part of its checkpoints."""

    frames: int = 0
    episodes: int = 0
    best_evaluation: float | None = None


_EVALUATION_COLUMNS = (
    "eval_mean",
    "eval_median",
    "eval_std",
    "eval_distinct",
    "human_normalised",
)


class EpisodeReturns:
    """An observer that counts steps and adds up rewards, episode by episode."""

    def __init__(self) -> None:
        """Nothing seen yet."""
        self._running: np.ndarray | float = 0.0
        self._finished: list[float] = []
        self._steps = 0

    @property
    def num_episodes(self) -> int:
        """Episodes finished since `take_mean`."""
        return len(self._finished)

    def __call__(self, experience: trajectory.Trajectory) -> None:
        """Takes one step of every environment; the step between episodes counts nothing."""
        between = experience.step_type == ts.StepType.LAST
        self._steps += int(np.sum(~between))
        self._running = self._running + np.where(between, 0.0, experience.reward)
        ended = ~between & (experience.next_step_type == ts.StepType.LAST)
        self._finished.extend(self._running[ended].tolist())
        self._running = np.where(ended, 0.0, self._running)

    def take_steps(self) -> int:
        """Returns the agent steps since the last call."""
        steps, self._steps = self._steps, 0
        return steps

    def take_mean(self) -> float:
        """Returns the mean return of the episodes that finished since the last call."""
        finished, self._finished = self._finished, []
        return float(np.mean(finished))


def default_run_dir(agent: str, task: Task, seed: int) -> str:
    """Returns `runs/<agent>-<task>-<seed>`."""
    return str(Path("runs") / f"{agent}-{task.name}-{seed}")


def _seed(seed: int, purpose: str, frames: int) -> int:
    """Returns a seed for one purpose at one time, unlike every other."""
    words = [seed, *purpose.encode(), frames]
    return int(np.random.SeedSequence(words).generate_state(1)[0])
