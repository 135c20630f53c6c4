import dataclasses

import imageio
import numpy as np
import pytest
import tensorflow as tf
from gymnasium.envs.classic_control import CartPoleEnv
from tf_agents.policies import py_policy, random_tf_policy
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import policy_step

from nec_tf.experiments import evaluation, tasks
from nec_tf.experiments.loop import Experiment
from nec_tf.experiments.registry import make_config
from nec_tf.experiments.run import Run
from nec_tf.experiments.settings import Settings
from nec_tf.runtime.errors import UserError


def random_policy(task):
    environment = task.environment(1, 0)
    return random_tf_policy.RandomTFPolicy(
        tensor_spec.from_spec(environment.time_step_spec()),
        tensor_spec.from_spec(environment.action_spec()),
    )


def test_scores_are_those_of_whole_episodes_played_again_by_hand():
    task = tasks.gym_task("CartPole-v1")
    tf.random.set_seed(0)
    over: list[int] = []
    episodes = evaluation.Evaluator(task, random_policy(task), 4).play(7, over.append)
    lengths = np.sort([len(episode.actions) for episode in episodes])
    assert over == [int(np.sum(lengths <= length)) for length in np.unique(lengths)]
    for episode in episodes:
        env = task.make_env(True)
        env.reset(seed=episode.seed)
        rewards, ended = 0.0, False
        for action in episode.actions:
            assert not ended
            _, reward, terminated, truncated, _ = env.step(action)
            rewards += reward
            ended = terminated or truncated
        assert ended
        assert rewards == episode.score


def test_an_episode_does_not_depend_on_others_that_end_before_it():
    task = tasks.gym_task("CartPole-v1")
    balance = Upright(task)
    several = evaluation.Evaluator(task, balance.policy, 9).play(7)
    batches = balance.batches
    assert batches[0] == 9
    assert batches[-1] < 9
    assert sorted(batches, reverse=True) == batches
    lengths = np.array([len(episode.actions) for episode in several])
    for step, batch in enumerate(batches):  # at most half of a batch is over
        assert np.sum(lengths > step) <= batch < 2 * max(1, np.sum(lengths > step))
    for episode in several:
        assert episode.actions == balance.by_hand(episode.seed)


class Upright:
    """A policy that pushes to where the pole leans, and notes how many it is asked for."""

    def __init__(self, task):
        self._task = task
        self.batches: list[int] = []
        environment = task.environment(1, 0)
        noted = self.batches

        class Policy(py_policy.PyPolicy):
            def _action(self, time_step, policy_state=(), seed=None):
                noted.append(len(time_step.observation))
                chosen = np.array([lean(state) for state in time_step.observation])
                return policy_step.PolicyStep(chosen, policy_state)

        self.policy = Policy(environment.time_step_spec(), environment.action_spec())

    def by_hand(self, seed):
        """Returns the actions of an episode that is played alone."""
        env = self._task.make_env(True)
        state, ended, actions = env.reset(seed=seed)[0], False, []
        while not ended:
            actions.append(lean(state))
            state, _, terminated, truncated, _ = env.step(actions[-1])
            ended = terminated or truncated
        return actions


def lean(state):
    return int(state[2] > 0)


def test_summary_by_hand():
    episodes = [evaluation.Episode(score, 0, []) for score in (100.0, 200.0, 200.0, 500.0)]
    summary = evaluation.summarise(tasks.atari_task("frostbite"), episodes)
    assert summary["eval_mean"] == 250
    assert summary["eval_median"] == 200
    assert summary["eval_std"] == pytest.approx(np.sqrt(22500))
    assert summary["eval_distinct"] == 3
    assert summary["human_normalised"] == pytest.approx((250 - 65.2) / (4334.7 - 65.2) * 100)


def test_a_gymnasium_task_has_no_human_score():
    episodes = [evaluation.Episode(1.0, 0, [])]
    assert "human_normalised" not in evaluation.summarise(tasks.gym_task("CartPole-v1"), episodes)


def film(tmp_path, name):
    episode = evaluation.Episode(0.0, 3, [0, 1] * 10)
    evaluation.record_video(tasks.atari_task("pong"), episode, tmp_path / name)
    with imageio.get_reader(tmp_path / name) as reader:
        return [picture for picture in reader]


def test_a_film_has_a_picture_for_every_step(tmp_path):
    pictures = film(tmp_path, "film.mp4")
    assert len(pictures) == 21
    assert pictures[0].shape == (210, 160, 3)


def test_a_film_can_be_a_gif(tmp_path):
    pictures = film(tmp_path, "film.gif")
    assert 1 < len(pictures) <= 21  # it leaves out pictures that do not change
    assert pictures[0].shape == (210, 160, 3)


class Blind(CartPoleEnv):
    """Lists the render mode rgb_array and renders nothing."""

    def render(self):
        return None


def blind_task():
    task = tasks.gym_task("CartPole-v1")
    return dataclasses.replace(task, make_env=lambda evaluation: Blind(render_mode="rgb_array"))


def test_an_environment_that_renders_nothing_has_no_film(tmp_path):
    with pytest.raises(UserError, match=r"render\(\) returned no image"):
        evaluation.record_video(blind_task(), evaluation.Episode(0.0, 3, [0]), tmp_path / "a.mp4")


def test_a_film_that_cannot_be_made_does_not_end_a_run(tmp_path, caplog):
    settings = Settings.preset("small", frames=100, eval_every_frames=50, eval_episodes=1)
    config = make_config("nec", "small", learning_starts=50)
    assert Experiment(Run(tmp_path, blind_task(), settings, config)).run()
    assert "there is no video" in caplog.text


def test_an_endless_episode_ends_at_the_limit(caplog):
    task = tasks.gym_task("CartPole-v1")
    with task.environment(1, seed=1) as environment:
        policy = random_tf_policy.RandomTFPolicy(
            tensor_spec.from_spec(environment.time_step_spec()),
            tensor_spec.from_spec(environment.action_spec()),
        )
    played = evaluation.Evaluator(task, policy, 3, max_steps=4).play(1)
    assert [len(episode.actions) for episode in played] == [4, 4, 4]
    assert [episode.score for episode in played] == [4.0, 4.0, 4.0]
    assert "3 evaluation episode(s) were ended after 4 steps" in caplog.text
