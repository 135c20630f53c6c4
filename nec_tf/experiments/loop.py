"""The one experiment loop: act, learn, log, evaluate, save; for any agent and any task."""

import sys
import time

import numpy as np
from tf_agents.trajectories import time_step as ts
from tf_agents.trajectories import trajectory
from tqdm import tqdm

from nec_tf.experiments.evaluation import EVALUATION_COLUMNS, Evaluator, record_video, summarise
from nec_tf.experiments.evaluation_log import EvaluationLog, EvaluationRecord
from nec_tf.experiments.run import Run
from nec_tf.experiments.run_folder import MetricsLog
from nec_tf.experiments.stopping import StopRequest

_CHUNK = 50  # steps of the driver between two looks at the clock
_ON_A_TERMINAL = sys.stderr.isatty()


class Experiment:
    """A run: made or resumed from its folder, then `run` to its end or to Ctrl-C."""

    def __init__(self, run: Run) -> None:
        """Prepares to go on where the run stands."""
        self._run = run
        self._evaluator = Evaluator(run.task, run.learner.agent.policy, run.settings.eval_episodes)
        self._returns = EpisodeReturns()
        self._stop = StopRequest()
        self._log = MetricsLog(
            run.folder.path,
            ("episodes", "episode_return", *run.learner.METRICS, *EVALUATION_COLUMNS),
            run.progress.handled_frames,
        )
        self._evaluations = EvaluationLog(run.folder.path, run.progress.handled_frames)
        self._clock = _Clock(run.progress.wall_seconds)
        run.checkpoints.drop_bests_after(run.progress.handled_frames)

    def run(self) -> bool:
        """Trains to the end; returns False where Ctrl-C came first, or a polite kill. Saves."""
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
                        taken = self._returns.take_steps() * self._run.task.frames_per_step
                        self._clock.trained(taken, time.monotonic() - began)
                        progress.frames += taken
                        bar.update(taken)
                    self._stop.check()
                    self._evaluate_log_save(bar)
            except KeyboardInterrupt:
                bar.set_description("saving")
                progress.wall_seconds = self._clock.seconds()
                self._run.save()
                return False
            finally:
                self._log.flush()
        return True

    def _evaluate_log_save(self, bar: tqdm) -> None:
        """Evaluates, logs and saves, each when it is due; what Ctrl-C breaks off is due again."""
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
        progress.wall_seconds = self._clock.seconds()
        if save:
            self._run.save(improved)
        elif improved:
            self._run.save_best()

    def _due(self, every: int) -> bool:
        progress = self._run.progress
        return progress.handled_frames // every < progress.frames // every

    def _bar(self) -> tqdm:
        return tqdm(
            total=self._run.settings.frames,
            initial=self._run.progress.frames,
            desc=f"{self._run.settings.agent} {self._run.task.name}",
            unit="frame",
            unit_scale=True,
            dynamic_ncols=True,
            mininterval=0.5 if _ON_A_TERMINAL else 30.0,  # a log file wants fewer lines
            smoothing=0.1,
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
        postfix = {name: f"{metrics[key]:.4g}" for name, key in shown.items() if key in metrics}
        if evaluation:
            postfix["eval"] = f"{evaluation['eval_mean']:.4g}"
        bar.set_postfix(postfix, refresh=False)

    def _evaluate(self, bar: tqdm) -> dict[str, float]:
        """Evaluates with seeds of its own and films the best evaluation so far."""
        seed = self._run.seed_for("evaluate")
        self._run.learner.begin_evaluation(seed)

        def tell(over: int) -> None:
            total = self._run.settings.eval_episodes
            # A log file wants one line and not thirty.
            bar.set_description(f"evaluating {over}/{total}", refresh=not over or _ON_A_TERMINAL)

        tell(0)
        diagnostics = self._run.learner.diagnose(seed)
        episodes = self._evaluator.play(seed, tell, self._stop.check)
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
            self._log.write_image(self._run.progress.frames, "what_the_agent_sees", tiles)
        best = self._run.progress.best_evaluation
        if best is None or summary["eval_mean"] > best:
            self._run.progress.best_evaluation = summary["eval_mean"]
            if self._run.settings.video:
                folder = self._run.folder.path / "videos"
                folder.mkdir(exist_ok=True)
                record_video(self._run.task, max(episodes), folder / "best.mp4")
        bar.set_description(f"{self._run.settings.agent} {self._run.task.name}")
        return {**diagnostics, **summary}


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
