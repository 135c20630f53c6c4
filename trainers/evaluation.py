"""Evaluation: whole episodes with the agent's own policy, in environments of their own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import imageio.v2 as imageio
import numpy as np
from tf_agents.policies import tf_policy
from tf_agents.trajectories import time_step as ts

from nec_tf.n_step_driver import numpy_action
from trainers.tasks import Task

_LONGEST_VIDEO = 5 * 60  # seconds


EVALUATION_COLUMNS = (
    "eval_mean",
    "eval_median",
    "eval_std",
    "eval_distinct",
    "human_normalised",
)


class Episode(NamedTuple):
    """One episode: its undiscounted return and what it takes to play it again."""

    score: float
    seed: int
    actions: list[int]


class Evaluator:
    """Plays evaluation episodes side by side, one forward pass for all."""

    def __init__(self, task: Task, policy: tf_policy.TFPolicy, episodes: int) -> None:
        """An evaluator of so many episodes."""
        self._task = task
        self._policy = policy
        self._episodes = episodes
        self._action = numpy_action(policy)
        self._initial_state = policy.get_initial_state(episodes)
        self.last_observation: np.ndarray | None = None

    def play(
        self,
        seed: int,
        over: Callable[[int], Any] = lambda count: None,
        before_step: Callable[[], Any] = lambda: None,
    ) -> list[Episode]:
        """Plays the first episode of each environment.

        Args:
            seed: Decides how they begin.
            over: Told how many are over, each time that another one is.
            before_step: Called before each step; may raise to break off.
        """
        environment = self._task.environment(self._episodes, seed, evaluation=True)
        seeds = environment.seed(seed)
        time_step = environment.reset()
        policy_state = self._initial_state
        scores = np.zeros(self._episodes)
        actions: list[list[int]] = [[] for _ in range(self._episodes)]
        playing = np.ones(self._episodes, bool)
        while playing.any():
            before_step()
            self.last_observation = time_step.observation[np.argmax(playing)]
            acted = self._action(time_step, policy_state)
            chosen, policy_state = acted.action, acted.state
            for i in np.flatnonzero(playing):
                actions[i].append(int(chosen[i]))
            time_step = environment.step(chosen)
            scores += np.where(playing, time_step.reward, 0.0)
            ended = playing & (time_step.step_type == ts.StepType.LAST)
            if ended.any():
                playing &= ~ended
                over(int(np.sum(~playing)))
        environment.close()
        return [
            Episode(float(score), member_seed, taken)
            for score, member_seed, taken in zip(scores, seeds, actions, strict=True)
        ]


def summarise(task: Task, episodes: list[Episode]) -> dict[str, float]:
    """Returns mean, median and spread of the scores, human-normalised where that is known."""
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


def record_video(task: Task, episode: Episode, path: Path) -> None:
    """Plays an episode again, from its seed and actions, and films it."""
    env = task.make_env(True)
    env.reset(seed=episode.seed)
    fps = task.steps_per_second
    unfinished = path.with_name(f"unfinished-{path.name}")
    # Two, not the default 16: frames of Atari, 210 x 160, then need no rescaling.
    writer: Any = imageio.get_writer(unfinished, fps=fps, macro_block_size=2)
    with writer as video:
        video.append_data(env.render())
        for action in episode.actions[: _LONGEST_VIDEO * fps]:
            env.step(action)
            video.append_data(env.render())
    env.close()
    unfinished.rename(path)
