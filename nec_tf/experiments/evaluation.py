"""Evaluation: whole episodes with the agent's own policy, in environments of their own."""

import itertools
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import imageio.v2 as imageio
import numpy as np
import tensorflow as tf
from absl import logging
from tf_agents.policies import py_policy, tf_policy
from tf_agents.trajectories import policy_step
from tf_agents.trajectories import time_step as ts

from nec_tf.agents.n_step_driver import numpy_action
from nec_tf.experiments.settings import EVAL_MAX_STEPS, MOST_ENVS, SEEDS
from nec_tf.experiments.tasks import Task
from nec_tf.runtime.errors import UserError

_LONGEST_VIDEO = 5 * 60  # seconds


EVALUATION_COLUMNS = (
    "eval_mean",
    "eval_median",
    "eval_std",
    "eval_distinct",
    "human_normalised",
)


class Episode(NamedTuple):
    """One episode: its undiscounted return, and the seed and actions that repeat it."""

    score: float
    seed: int
    actions: list[int]


class Evaluator:
    """Plays evaluation episodes in parallel, with one forward pass for all unfinished ones."""

    def __init__(
        self,
        task: Task,
        policy: tf_policy.TFPolicy | py_policy.PyPolicy,
        episodes: int,
        max_steps: int = EVAL_MAX_STEPS,
    ) -> None:
        """Makes an evaluator of `episodes` episodes of at most `max_steps` agent steps."""
        self._max_steps = max_steps
        self._task = task
        self._policy = policy
        self._episodes = episodes
        self._actions: dict[int, Callable[..., policy_step.PolicyStep]] = {}
        self.last_observation: np.ndarray | None = None

    def play(
        self,
        seed: int,
        on_finished: Callable[[int], Any] = lambda count: None,
        before_step: Callable[[], Any] = lambda: None,
    ) -> list[Episode]:
        """Plays the first episode of each environment.

        Finished episodes are removed once they are half of the batch. Each batch size costs a
        trace of the policy, and the longest episodes are several times as long as most.

        Args:
            seed: Random seed of the environments.
            on_finished: Called with the number of finished episodes, each time it grows.
            before_step: Called before each step; may raise to stop.
        """
        environment = self._task.environment(self._episodes, seed, evaluation=True)
        seeds = environment.seed(seed)
        time_step = environment.reset()
        policy_state = self._policy.get_initial_state(self._episodes)
        scores = np.zeros(self._episodes)
        actions: list[list[int]] = [[] for _ in range(self._episodes)]
        members = np.arange(self._episodes)  # which episode is at which place of the batch
        playing = np.ones(self._episodes, bool)
        for step in itertools.count():
            if not playing.any():
                break
            if step == self._max_steps:
                logging.warning(
                    "%d evaluation episode(s) were ended after %d steps (--eval_max_steps)",
                    playing.sum(),
                    step,
                )
                break
            before_step()
            if 2 * playing.sum() <= len(members):
                places = np.flatnonzero(playing)
                members, playing = members[places], playing[places]
                time_step = environment.keep(places)
                policy_state = tf.nest.map_structure(operator.itemgetter(places), policy_state)
            self.last_observation = time_step.observation[np.argmax(playing)]
            acted = self._act(len(members))(time_step, policy_state)
            chosen, policy_state = acted.action, acted.state
            for i in np.flatnonzero(playing):
                actions[members[i]].append(int(chosen[i]))
            time_step = environment.step(chosen)
            scores[members] += np.where(playing, time_step.reward, 0.0)
            ended = playing & (time_step.step_type == ts.StepType.LAST)
            if ended.any():
                playing &= ~ended
                on_finished(self._episodes - int(playing.sum()))
        environment.close()
        return [
            Episode(float(score), member_seed, taken)
            for score, member_seed, taken in zip(scores, seeds, actions, strict=True)
        ]

    def _act(self, batch: int) -> Callable[..., policy_step.PolicyStep]:
        if batch not in self._actions:
            self._actions[batch] = numpy_action(self._policy)
        return self._actions[batch]


def summarise(task: Task, episodes: list[Episode]) -> dict[str, float]:
    """Returns mean, median and spread of the scores, and per cent of human if that is known."""
    scores = np.array([episode.score for episode in episodes])
    summary = {
        "eval_mean": float(scores.mean()),
        "eval_median": float(np.median(scores)),
        "eval_std": float(scores.std()),
        "eval_distinct": float(len(np.unique(scores))),
    }
    if task.human_normalised is not None:
        summary["human_normalised"] = task.human_normalised(summary["eval_mean"])
    return summary


class Evaluation(NamedTuple):
    """Whole episodes that a policy played.

    Attributes:
        episodes: One for each game, with its score, seed and actions.
        summary: Mean, median and standard deviation of the scores, and per cent of human if known.
    """

    episodes: list[Episode]
    summary: dict[str, float]

    @property
    def scores(self) -> list[float]:
        """Undiscounted return of each episode."""
        return [episode.score for episode in self.episodes]

    @property
    def mean(self) -> float:
        """Mean score."""
        return self.summary["eval_mean"]


def evaluate(
    task: Task,
    policy: tf_policy.TFPolicy | py_policy.PyPolicy,
    episodes: int,
    seed: int,
    video: str | Path | None = None,
    on_finished: Callable[[int], Any] = lambda count: None,
    max_steps: int = EVAL_MAX_STEPS,
) -> Evaluation:
    """Plays whole episodes and can record the best one.

    Args:
        task: What is played.
        policy: Plays.
        episodes: How many.
        seed: Random seed of the environments.
        video: File for a video of the best episode, *.mp4 or *.gif.
        on_finished: Called with the number of finished episodes, each time it grows.
        max_steps: Most agent steps of an episode.

    Raises:
        UserError: As in `require_evaluation`.
    """
    require_evaluation(task, episodes, seed, video)
    if max_steps < 1:
        raise UserError(f"eval_max_steps must be at least 1, not {max_steps}")
    played = Evaluator(task, policy, episodes, max_steps).play(seed, on_finished)
    if video:
        record_video(task, max(played), Path(video))
    return Evaluation(played, summarise(task, played))


def require_evaluation(task: Task, episodes: int, seed: int, video: str | Path | None) -> None:
    """Validates what an evaluation is asked for.

    Raises:
        UserError: The number of episodes or the seed is out of range, or no such video can be made.
    """
    if not 1 <= episodes <= MOST_ENVS:
        raise UserError(f"episodes must be from 1 to {MOST_ENVS}, not {episodes}")
    if not 0 <= seed < SEEDS:
        raise UserError(f"seed must be at least 0 and below 2**32, not {seed}")
    if video:
        require_video(task, Path(video))


def require_video(task: Task, path: Path) -> None:
    """Raises `UserError` if no video of a task can be written to a file."""
    if not task.renders:
        raise UserError(f"{task.name} does not render to arrays: there can be no video of it")
    if path.suffix not in (".mp4", ".gif"):
        raise UserError(f"a video must be a *.mp4 or *.gif file, not {path}")
    if not path.parent.is_dir():
        raise UserError(f"there is no folder {path.parent} for the video {path.name}")


def record_video(task: Task, episode: Episode, path: Path) -> None:
    """Plays an episode again, from its seed and actions, and writes a video of it.

    Raises:
        UserError: The environment renders no images.
    """
    env = task.make_env(True)
    env.reset(seed=episode.seed)
    fps = task.steps_per_second
    unfinished = path.with_name(f"unfinished-{path.name}")
    # Two, not the default 16: frames of Atari, 210 x 160, then need no rescaling.
    writer: Any = imageio.get_writer(unfinished, fps=fps, macro_block_size=2)
    with writer as video:
        video.append_data(_image(task, env))
        for action in episode.actions[: _LONGEST_VIDEO * fps]:
            env.step(action)
            video.append_data(_image(task, env))
    env.close()
    unfinished.rename(path)


def _image(task: Task, env: gymnasium.Env) -> np.ndarray:
    image = env.render()
    if not isinstance(image, np.ndarray) or image.dtype != np.uint8 or image.ndim != 3:
        raise UserError(
            f"{task.name} lists the render mode rgb_array, but its render() returned no image,"
            " uint8 [height, width, 3]"
        )
    return image
