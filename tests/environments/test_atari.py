import dataclasses

import ale_py
import cv2
import gymnasium
import numpy as np
import pytest
from gymnasium.utils import env_checker
from tf_agents.environments import utils

from nec_tf.environments import atari
from nec_tf.environments.atari import MACHADO, PAPER, make_atari, make_atari_environment

EVALUATION = PAPER.for_evaluation()
WHOLE_STEP = 4  # frames


class ByHand:
    """The paper's protocol, played frame by frame on the plain emulator, as slowly as one likes.

    Keeps every grey frame of the game; `step` and `reset` return what `AtariGame` should.
    """

    def __init__(self, env_id, life_loss=True):
        gymnasium.register_envs(ale_py)
        self.env = gymnasium.make(
            env_id, frameskip=1, repeat_action_probability=0.0, obs_type="grayscale"
        )
        self.life_loss = life_loss
        self.lost_life = False

    def reset(self, seed=None):
        if self.lost_life:
            self.advance(0, WHOLE_STEP)
        else:
            frame, info = self.env.reset(seed=seed)
            self.frames, self.lives = [frame, frame], info["lives"]
            self.advance(0, self.env.unwrapped.np_random.integers(1, 30, endpoint=True))
        self.screens = [np.zeros((84, 84), np.uint8)] * 3
        return self.observation()

    def step(self, action):
        reward, over = self.advance(action, WHOLE_STEP)
        return self.observation(), reward, over or self.lost_life

    def advance(self, action, num_frames):
        total = 0.0
        self.lost_life = False
        for _ in range(num_frames):
            frame, reward, over, truncated, info = self.env.step(action)
            assert not truncated
            self.frames.append(frame)
            total += reward
            self.lost_life = self.life_loss and not over and info["lives"] < self.lives
            self.lives = info["lives"]
            if over or self.lost_life:
                return total, over
        return total, False

    def observation(self):
        pooled = np.maximum(self.frames[-1], self.frames[-2])
        self.screens.append(cv2.resize(pooled, (84, 84), interpolation=cv2.INTER_AREA))
        return np.stack(self.screens[-4:], axis=-1)


def play(env, num_steps, seed=1):
    """Yields (action, observation, reward, terminated, truncated, info) of random play."""
    rng = np.random.default_rng(seed)
    for _ in range(num_steps):
        action = int(rng.integers(env.action_space.n))
        yield action, *env.step(action)


def until_end(env):
    """Yields the steps of random play up to the end of an episode."""
    for step in play(env, 1000):
        yield step
        if step[3] or step[4]:
            return


@pytest.mark.parametrize(
    ("game", "life_loss"), [("Breakout", True), ("Breakout", False), ("Frostbite", True)]
)
def test_play_by_hand_gives_the_same(game, life_loss):
    env = make_atari(game, PAPER if life_loss else EVALUATION)
    by_hand = ByHand(f"ALE/{game}-v5", life_loss)
    np.testing.assert_array_equal(env.reset(seed=3)[0], by_hand.reset(seed=3))
    lives_lost = games_over = points = 0
    for action, observation, reward, terminated, truncated, info in play(env, 500):
        expected_observation, expected_reward, expected_end = by_hand.step(action)
        np.testing.assert_array_equal(observation, expected_observation)
        assert (reward, terminated, truncated) == (expected_reward, expected_end, False)
        points += reward
        if terminated:
            lives_lost += not info["game_over"]
            games_over += info["game_over"]
            np.testing.assert_array_equal(env.reset()[0], by_hand.reset())
    assert points > 0
    assert (lives_lost > 3) == life_loss
    assert games_over > 0


def test_observations_are_stacks_of_screens_newest_last():
    env = make_atari("frostbite")
    assert env.observation_space == gymnasium.spaces.Box(0, 255, (84, 84, 4), np.uint8)
    before, _ = env.reset(seed=1)
    assert not before[..., :3].any()
    assert before[..., 3].any()
    for _, observation, *_ in play(env, 10):
        np.testing.assert_array_equal(observation[..., :3], before[..., 1:])
        assert np.shares_memory(observation, observation[..., -1])
        before = observation


def test_observations_are_never_overwritten():
    env = make_atari("frostbite", dataclasses.replace(PAPER, frame_stack=1))
    kept = [observation for _, observation, *_ in [(None, *env.reset(seed=1)), *play(env, 6)]]
    copies = [observation.copy() for observation in kept]
    list(play(env, 6))
    np.testing.assert_array_equal(kept, copies)
    assert kept[0].shape == (84, 84, 1)


def test_a_lost_life_ends_the_episode_but_not_the_game():
    env = make_atari("breakout")
    _, info = env.reset(seed=1)
    assert info["lives"] == 5
    *_, (*_, terminated, _, info) = until_end(env)
    assert terminated
    assert info["lives"] == 4
    assert not info["game_over"]
    observation, next_info = env.reset()
    assert next_info["lives"] == 4
    assert next_info["episode_frame_number"] == info["episode_frame_number"] + WHOLE_STEP
    assert not observation[..., :3].any()


def test_a_seed_starts_a_new_game_after_a_lost_life():
    env = make_atari("breakout")
    first, _ = env.reset(seed=1)
    assert any(terminated for *_, terminated, _, _ in until_end(env))
    again, info = env.reset(seed=1)
    assert info["lives"] == 5
    np.testing.assert_array_equal(first, again)


def test_a_reset_in_the_middle_of_an_episode_starts_a_new_game():
    env = make_atari("breakout")
    env.reset(seed=1)
    list(play(env, 20))
    assert env.reset()[1]["episode_frame_number"] <= 30


def test_nothing_of_the_last_game_is_left_in_a_new_one():
    env = make_atari("breakout", dataclasses.replace(PAPER, noop_max=0))
    first, _ = env.reset(seed=1)
    list(play(env, 20))
    env.unwrapped.ale.setRAM(57, 9)  # the number of lives, more than a game begins with
    *_, info = env.step(0)
    assert info["lives"] == 9
    observation, _ = env.reset()
    np.testing.assert_array_equal(observation, first)
    _, _, terminated, _, info = env.step(0)
    assert info["lives"] == 5
    assert not terminated


def test_evaluation_plays_whole_games():
    env = make_atari("space_invaders", EVALUATION)
    _, start = env.reset(seed=1)
    steps = list(until_end(env))
    infos = [info for *_, info in steps]
    assert [info["game_over"] for info in infos] == [False] * (len(infos) - 1) + [True]
    assert {info["lives"] for info in infos} == {0, 1, 2, 3}
    points = start["raw_reward"] + sum(reward for _, _, reward, *_ in steps)
    assert infos[-1]["game_score"] == points > 0


def test_the_score_is_counted_over_all_lives():
    env = make_atari("breakout", dataclasses.replace(PAPER, clip_rewards=True))
    _, info = env.reset(seed=1)
    points, episodes = info["raw_reward"], 0
    while not info["game_over"]:
        if episodes:
            points += env.reset()[1]["raw_reward"]
        for *_, info in until_end(env):
            points += info["raw_reward"]
        episodes += 1
    assert episodes == 5
    assert info["game_score"] == points > 0
    assert env.reset()[1]["game_score"] == 0


def test_rewards_are_clipped_only_if_asked():
    def rewards(protocol):
        env = make_atari("space_invaders", protocol)
        env.reset(seed=1)
        return [(reward, info["raw_reward"]) for _, _, reward, *_, info in play(env, 80)]

    clipping = dataclasses.replace(EVALUATION, clip_rewards=True)
    plain = rewards(EVALUATION)
    assert max(reward for reward, _ in plain) >= 5
    assert all(reward == raw for reward, raw in plain)
    assert rewards(clipping) == [(min(raw, 1), raw) for _, raw in plain]
    assert rewards(clipping.for_evaluation()) == plain


def test_negative_rewards_are_clipped():
    env = make_atari("skiing", dataclasses.replace(PAPER, clip_rewards=True))
    env.reset(seed=1)
    steps = list(play(env, 5))
    assert min(info["raw_reward"] for *_, info in steps) < -1
    assert {reward for _, _, reward, *_ in steps} == {-1.0}


@pytest.mark.parametrize("max_frames", [101, 102, 103, 104])
def test_too_long_a_game_is_truncated_at_the_very_frame(max_frames):
    env = make_atari("frostbite", dataclasses.replace(PAPER, max_frames_per_episode=max_frames))
    env.reset(seed=1)
    *_, (*_, terminated, truncated, info) = until_end(env)
    assert (terminated, truncated) == (False, True)
    assert info["episode_frame_number"] == max_frames
    assert info["game_over"]
    assert env.reset()[1]["episode_frame_number"] <= 30


def test_the_frames_of_all_lives_count_towards_truncation():
    env = make_atari("breakout", dataclasses.replace(PAPER, max_frames_per_episode=400))
    env.reset(seed=1)
    *_, (*_, terminated, truncated, life) = until_end(env)
    assert (terminated, truncated) == (True, False)
    while not truncated:
        env.reset()
        *_, (*_, truncated, game) = until_end(env)
    assert game["lives"] < 5
    assert life["episode_frame_number"] < game["episode_frame_number"] == 400


def test_no_op_starts_last_1_to_30_frames():
    env = make_atari("pong")
    env.reset(seed=1)
    frames = [env.reset()[1]["episode_frame_number"] for _ in range(120)]
    assert min(frames) == 1
    assert max(frames) == 30
    assert len(set(frames)) > 20


def test_machado_has_sticky_actions_instead_of_no_ops():
    env = make_atari("breakout", MACHADO)
    assert env.action_space.n == 18
    assert env.unwrapped.ale.getFloat("repeat_action_probability") == 0.25
    assert env.reset(seed=1)[1]["episode_frame_number"] == 0
    assert env.reset()[1]["episode_frame_number"] == 0
    steps = list(until_end(env))
    assert steps[-1][-1]["game_over"]
    assert steps[-1][-1]["lives"] == 0


def test_the_paper_has_no_sticky_actions_and_a_minimal_action_set():
    env = make_atari("breakout")
    assert env.action_space.n == 4
    assert env.unwrapped.ale.getFloat("repeat_action_probability") == 0.0


@pytest.mark.parametrize("protocol", [EVALUATION, MACHADO])
def test_a_seed_makes_the_game_repeatable(protocol):
    def trajectory(seed):
        env = make_atari("frostbite", protocol)
        env.reset(seed=seed)
        return [observation for _, observation, *_ in play(env, 60)]

    np.testing.assert_array_equal(trajectory(5), trajectory(5))
    assert not np.array_equal(trajectory(5), trajectory(6))


def test_without_pooling_the_last_frame_is_seen():
    env = make_atari("space_invaders", dataclasses.replace(PAPER, max_pool=False))
    by_hand = ByHand("ALE/SpaceInvaders-v5")
    env.reset(seed=1)
    by_hand.reset(seed=1)
    pooling_mattered = False
    for action, observation, *_ in play(env, 40):
        pooled, *_ = by_hand.step(action)
        last = cv2.resize(by_hand.frames[-1], (84, 84), interpolation=cv2.INTER_AREA)
        np.testing.assert_array_equal(observation[..., -1], last)
        pooling_mattered |= not np.array_equal(last, pooled[..., -1])
    assert pooling_mattered


def test_colour_has_three_channels_a_screen():
    protocol = dataclasses.replace(PAPER, greyscale=False, max_pool=False, noop_max=0)
    env = make_atari("frostbite", protocol, render_mode="rgb_array")
    env.reset(seed=1)
    *_, (_, observation, *_) = play(env, 5)
    assert env.observation_space.shape == observation.shape == (84, 84, 12)
    expected = cv2.resize(env.render(), (84, 84), interpolation=cv2.INTER_AREA)
    np.testing.assert_array_equal(observation[..., -3:], expected)


@pytest.mark.filterwarnings("ignore:.*different from the unwrapped version")
def test_gymnasium_finds_it_valid():
    env_checker.check_env(make_atari("pong"), skip_render_check=True)


def test_the_game_is_found_by_any_name():
    assert make_atari("Ms. Pac-Man").unwrapped.spec.id == "ALE/MsPacman-v5"
    with pytest.raises(ValueError, match="did you mean Frostbite"):
        make_atari("frostbit")


def test_members_of_a_batch_play_their_own_games():
    protocol = dataclasses.replace(PAPER, max_frames_per_episode=100)
    env = make_atari_environment("frostbite", num_envs=2, seed=1, protocol=protocol)
    assert env.batch_size == 2
    assert env.observation_spec().shape == (84, 84, 4)
    assert env.observation_spec().dtype == np.uint8
    assert env.action_spec().maximum == 17
    env.reset()
    ones, others = (info["episode_frame_number"] for info in env.get_info())
    assert ones != others
    utils.validate_py_environment(env, episodes=4)


def test_truncation_reaches_tf_agents_as_such():
    protocol = dataclasses.replace(PAPER, max_frames_per_episode=50)
    env = make_atari_environment("frostbite", seed=1, protocol=protocol)
    step = env.reset()
    while not step.is_last():
        step = env.step(np.array([0]))
    assert step.discount.tolist() == [1.0]
    env = make_atari_environment("breakout", seed=1)
    step = env.reset()
    while not step.is_last():
        step = env.step(np.array([1]))
    assert step.discount.tolist() == [0.0]
    assert not env.get_info()[0]["game_over"]


def test_stepping_without_a_reset_is_refused():
    env = make_atari("pong", dataclasses.replace(PAPER, max_frames_per_episode=40))
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)
    env.reset(seed=1)
    list(until_end(env))
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)


@pytest.mark.parametrize("action", [-1, 6, 1.5])
def test_wrong_actions_are_refused(action):
    env = make_atari("pong")
    env.reset(seed=1)
    with pytest.raises(ValueError, match=r"not in Discrete\(6\)"):
        env.step(action)


@pytest.mark.parametrize(
    "change",
    [
        {"frame_skip": 0},
        {"screen_size": 0},
        {"frame_stack": 0},
        {"max_frames_per_episode": 0},
        {"noop_max": -1},
        {"noop_max": 10, "max_frames_per_episode": 10},
        {"repeat_action_probability": 1.5},
    ],
)
def test_protocols_that_make_no_sense_are_refused(change):
    with pytest.raises(ValueError, match=f"{next(iter(change))} must be"):
        atari.AtariProtocol(**change)
