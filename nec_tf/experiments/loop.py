"""The training loop: act, learn, log, evaluate, save; for any agent and any task."""

import dataclasses
import functools
import sys
import time
from collections.abc import Callable

import numpy as np
from absl import logging
from tqdm import tqdm

from nec_tf.experiments import run_files
from nec_tf.experiments.episode_returns import EpisodeReturns
from nec_tf.experiments.evaluation import (
    EVALUATION_COLUMNS,
    Episode,
    Evaluator,
    record_video,
    summarise,
)
from nec_tf.experiments.evaluation_log import EvaluationLog, EvaluationRecord
from nec_tf.experiments.metrics_log import MetricsLog
from nec_tf.experiments.run import Run
from nec_tf.experiments.run_files import SCREENS, read_config
from nec_tf.experiments.shown_metrics import Shown, TensorBoard, Wandb, require_wandb
from nec_tf.experiments.stopping import StopRequest
from nec_tf.runtime.errors import DamagedCheckpoint, Diverged, UserError
from nec_tf.runtime.streams import Unbreakable

_CHUNK = 50  # agent steps between two checks of what is due
_ON_A_TERMINAL = sys.stderr.isatty()


class Experiment:
    """Trains a run to its end or to Ctrl-C."""

    def __init__(self, run: Run) -> None:
        """Opens the run's folder for writing."""
        if run.settings.keep_screens:  # before the folder is written: it may be refused
            run.learner.keep_screens(run.folder.path / SCREENS)
        if run.settings.wandb:
            require_wandb()
        run.folder.write_config()
        self._run = run
        self._evaluator = Evaluator(
            run.task,
            run.learner.agent.policy,
            run.settings.eval_episodes,
            run.settings.eval_max_steps,
        )
        self._returns = EpisodeReturns()
        self._stop = StopRequest()
        self._log = MetricsLog(
            run.folder.path,
            ("episodes", "episode_return", *run.learner.METRICS, *EVALUATION_COLUMNS),
            run.progress.handled_frames,
            _shown(run),
        )
        self._evaluations = EvaluationLog(run.folder.path, run.progress.handled_frames)
        self._clock = _Clock(run.progress.wall_seconds)
        self._saved = time.monotonic()
        run.checkpoints.drop_bests_after(run.progress.handled_frames)

    def run(self) -> bool:
        """Trains to the end and saves; returns False if Ctrl-C or kill stopped it before.

        An unexpected error, such as a bug in an environment, is raised after saving.
        """
        settings, progress = self._run.settings, self._run.progress
        with self._stop, self._bar() as bar:
            try:
                time_step = None
                while progress.handled_frames < settings.frames:
                    if progress.frames < settings.frames:
                        began = time.monotonic()
                        time_step = self._run.learner.run(
                            self._run.environment, _CHUNK, time_step, [self._returns]
                        )
                        taken = self._count_frames()
                        self._clock.trained(taken, time.monotonic() - began)
                        bar.total = max(settings.frames, progress.frames)  # keeps it a bar
                        bar.update(taken)
                    self._stop.check()
                    self._evaluate_log_save(bar)
            except KeyboardInterrupt:
                bar.set_description("saving")
                self._save()
                return False
            except DamagedCheckpoint:
                raise
            except Diverged as error:
                error.add_note(self._what_to_try())
                raise
            except Exception as error:
                self._save_after(error)
                raise
            finally:
                self._log.close()
        return True

    def _what_to_try(self) -> str:
        """Returns what is kept of a run that diverged, and which settings may prevent it."""
        newest = run_files.checkpoints(self._run.folder.path)
        kept = (
            f"The checkpoint from before it is {newest[-1]}."
            if newest
            else "There is no checkpoint."
        )
        rates = {
            name: value
            for name, value in dataclasses.asdict(self._run.config).items()
            if name.endswith("learning_rate") and value
        }
        given = ", ".join(f"--{name} (now {value:g})" for name, value in rates.items())
        advice = f"lower {given}, or " if rates else ""
        return (
            f"{kept} Nothing was saved after it. Try again in another --run_dir: {advice}scale the"
            " rewards or observations of the environment to about 1"
        )

    def _count_frames(self) -> int:
        """Adds the steps since the last call to the progress; returns them in frames."""
        taken = self._returns.take_steps() * self._run.task.frames_per_step
        self._run.progress.frames += taken
        return taken

    def _save(self) -> None:
        self._write(self._run.save)

    def _write(self, save: Callable[[], None]) -> None:
        """Saves a checkpoint, once all rows up to it are on the disk."""
        self._run.progress.wall_seconds = self._clock.seconds()
        self._log.sync()
        self._evaluations.sync()
        save()
        self._saved = time.monotonic()

    def _save_after(self, error: Exception) -> None:
        """Saves a run that an error ends; a note of the error says where it can be resumed."""
        self._count_frames()
        if not self._run.progress.frames:  # the corrected command may have other settings
            return
        frames = f"{self._run.progress.frames:,} {self._run.task.unit}"
        try:
            self._save()
        except Diverged as cause:  # NaN weights make NaN keys, which the memory refuses
            cause.add_note(self._what_to_try())
            raise cause from error
        except Exception as second:
            error.add_note(f"The run could not be saved at {frames} ({second}).")
        else:
            error.add_note(
                f"The run was saved at {frames} to {self._run.folder.path}; run the same command"
                " again to resume it."
            )

    def _evaluate_log_save(self, bar: tqdm) -> None:
        """Evaluates, logs and saves, each when it is due; after Ctrl-C it is due again."""
        settings, progress = self._run.settings, self._run.progress
        done = progress.frames >= settings.frames
        evaluation: dict[str, float] = {}
        best_before = progress.best_evaluation
        if done or self._due(settings.eval_every_frames):
            evaluation = self._evaluate(bar)
        if evaluation or self._due(settings.log_every_frames):
            self._write_metrics(bar, evaluation)
        save = done or self._due(settings.checkpoint_every_frames)
        progress.handled_frames = progress.frames
        improved = progress.best_evaluation != best_before
        if save:
            self._write(functools.partial(self._run.save, improved))
        elif improved:
            self._write(self._run.save_best)
        elif self._minutes_are_over():
            self._write(self._run.save_between)

    def _minutes_are_over(self) -> bool:
        minutes = self._run.settings.checkpoint_every_minutes
        return bool(minutes) and time.monotonic() - self._saved > 60 * minutes

    def _due(self, every: int) -> bool:
        progress = self._run.progress
        return progress.handled_frames // every < progress.frames // every

    def _bar(self) -> tqdm:
        return tqdm(
            total=self._run.settings.frames,
            initial=self._run.progress.frames,
            desc=f"{self._run.settings.agent} {self._run.task.name}",
            unit=f" {self._run.task.unit}",
            unit_scale=True,
            dynamic_ncols=True,
            mininterval=0.5 if _ON_A_TERMINAL else 30.0,  # fewer lines in a log file
            smoothing=0.1,
            file=Unbreakable(sys.stderr),
        )

    def _write_metrics(self, bar: tqdm, evaluation: dict[str, float]) -> None:
        progress = self._run.progress
        progress.episodes += self._returns.num_episodes
        metrics = {"episodes": float(progress.episodes), **self._run.learner.metrics()}
        if self._returns.num_episodes:
            metrics["episode_return"] = self._returns.take_mean()
        speed = bar.format_dict["rate"] or 0.0
        self._log.write(progress.frames, {**metrics, **evaluation}, frames_per_second=speed)
        shown = {"return": "episode_return", "Q": "q", "loss": "loss", "memory": "memory"}
        postfix = {name: _short(metrics[key]) for name, key in shown.items() if key in metrics}
        if evaluation:
            postfix["eval"] = _short(evaluation["eval_mean"])
        bar.set_postfix(postfix, refresh=False)

    def _evaluate(self, bar: tqdm) -> dict[str, float]:
        """Evaluates with seeds of its own and records the best evaluation so far."""
        seed = self._run.seed_for("evaluate")
        self._run.learner.begin_evaluation(seed)

        def show(finished: int) -> None:
            total = self._run.settings.eval_episodes
            # One line in a log file, not thirty.
            refresh = not finished or _ON_A_TERMINAL
            bar.set_description(f"evaluating {finished}/{total}", refresh=refresh)

        show(0)
        diagnostics = self._run.learner.diagnose(seed)
        episodes = self._evaluator.play(seed, show, self._stop.check)
        summary = summarise(self._run.task, episodes)
        scores = [episode.score for episode in episodes]
        self._evaluations.write(
            EvaluationRecord(
                self._run.progress.frames,
                scores,
                round(self._clock.seconds(), 1),
                self._clock.take_speed(),
            )
        )
        seen = self._evaluator.last_observation
        if seen is not None and seen.ndim == 3:
            tiles = np.concatenate(list(np.moveaxis(seen, -1, 0)), axis=1)[..., None]
            self._log.write_image(self._run.progress.frames, "evaluation/observation", tiles)
        best = self._run.progress.best_evaluation
        if best is None or summary["eval_mean"] > best:
            self._run.progress.best_evaluation = summary["eval_mean"]
            if self._run.settings.video and self._run.task.renders:
                self._record(max(episodes))
        bar.set_description(f"{self._run.settings.agent} {self._run.task.name}")
        return {**diagnostics, **summary}

    def _record(self, episode: Episode) -> None:
        """Writes a video; one that cannot be made does not end a run."""
        folder = self._run.folder.path / "videos"
        folder.mkdir(exist_ok=True)
        try:
            record_video(self._run.task, episode, folder / "best.mp4")
        except UserError as error:
            logging.warning("there is no video: %s", error)


def _shown(run: Run) -> list[Shown]:
    """Returns where the metrics of a run are shown."""
    shown: list[Shown] = [TensorBoard(run.folder.path)]
    if run.settings.wandb:
        shown.append(Wandb(run.folder.path, read_config(run.folder.path)))
    return shown


class _Clock:
    """Wall time of a run over all its sessions, and the speed of training alone."""

    def __init__(self, seconds_before: float) -> None:
        """Continues at the wall time of the sessions before."""
        self._start = time.monotonic() - seconds_before
        self._frames = 0
        self._training_seconds = 0.0

    def seconds(self) -> float:
        """Returns the wall time up to now."""
        return time.monotonic() - self._start

    def trained(self, frames: int, seconds: float) -> None:
        """Adds frames that were trained on in `seconds`."""
        self._frames += frames
        self._training_seconds += seconds

    def take_speed(self) -> float | None:
        """Returns frames/s of training since the last call, None if there were no frames."""
        frames, seconds = self._frames, self._training_seconds
        self._frames, self._training_seconds = 0, 0.0
        return round(frames / seconds, 1) if frames else None


def _short(value: float) -> str:
    """Returns a number as 0.1234, 12.34 or 10.0k."""
    return tqdm.format_sizeof(value) if abs(value) >= 1_000 else f"{value:.4g}"
