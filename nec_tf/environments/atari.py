"""The paper's Atari protocol, as a Gymnasium environment and as a batched TF-Agents one.

A frame is one frame of the emulator (60 a second), a step is one decision of the agent: with the
paper's frame skip, 1 step = 4 frames.

Gymnasium's own wrappers are not used: `AtariPreprocessing` returns a stale screen when an episode
ends within a frame skip and restarts the game when a life is lost, `FrameStackObservation` puts
the stack first, and together they are slower.
"""

import collections
import dataclasses
from typing import Any

import ale_py
import cv2
import gymnasium
import numpy as np

from nec_tf.environments import games, gymnasium_env

__all__ = [
    "MACHADO",
    "PAPER",
    "AtariGame",
    "AtariProtocol",
    "make_atari",
    "make_atari_environment",
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class AtariProtocol:
    """How a game is played and what the agent sees of it.

    The paper (section 4) takes the preprocessing of Mnih et al. (2015), "Nature DQN" below, and
    does not clip rewards. What neither states is marked as ours.
    """

    # Paper, section 4: each action is repeated four times.
    frame_skip: int = 4
    # Nature DQN, Methods: maximum over the last two frames, since sprites flicker.
    max_pool: bool = True
    # Nature DQN, Methods: the luminance, rescaled to 84 x 84, of the four most recent screens.
    greyscale: bool = True
    screen_size: int = 84
    frame_stack: int = 4
    # Nature DQN, Extended Data Table 1. Its code draws 1 to 30 frames of "do nothing", as here.
    noop_max: int = 30
    # Nature DQN: only the actions that do something in the game (its minimal action set).
    full_action_space: bool = False
    # Nature DQN's emulator was deterministic; sticky actions came with Machado et al. (2018).
    repeat_action_probability: float = 0.0
    # Paper, section 4: NEC and MFEC learn from the game's own scores. DQN and A3C clip to [-1, 1].
    clip_rewards: bool = False
    # Ours: half an hour of play, over all lives of a game, as in ale-py's v5 games.
    max_frames_per_episode: int = 108_000
    # Nature DQN, Methods: a lost life ends an episode in training, never in evaluation.
    terminal_on_life_loss: bool = True

    def __post_init__(self):
        """Validates the numbers."""
        for name in ("frame_skip", "screen_size", "frame_stack", "max_frames_per_episode"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not 0 <= self.noop_max < self.max_frames_per_episode:
            raise ValueError(
                f"noop_max must be in [0, max_frames_per_episode), not {self.noop_max}"
            )
        if not 0.0 <= self.repeat_action_probability <= 1.0:
            raise ValueError(
                f"repeat_action_probability must be in [0, 1], not {self.repeat_action_probability}"
            )

    def for_evaluation(self) -> "AtariProtocol":
        """Returns the protocol that measures the score of whole games."""
        return dataclasses.replace(self, terminal_on_life_loss=False, clip_rewards=False)


#: The paper's protocol, for training.
PAPER = AtariProtocol()

#: Machado et al. (2018): randomness from sticky actions instead of no-op starts, all 18 actions,
#: and no knowledge of lives.
MACHADO = AtariProtocol(
    repeat_action_probability=0.25,
    full_action_space=True,
    noop_max=0,
    terminal_on_life_loss=False,
)


def make_atari(
    game: str, protocol: AtariProtocol = PAPER, render_mode: str | None = None
) -> "AtariGame":
    """Builds a game under a protocol.

    Args:
        game: Any spelling that `games.find_game` takes, e.g. `frostbite` or `ALE/Frostbite-v5`.
        protocol: The rules; `PAPER` is for training, `PAPER.for_evaluation()` for measuring.
        render_mode: `rgb_array` or `human`, as in Gymnasium; None does not render.
    """
    env_id = games.find_game(game).env_id
    gymnasium.register_envs(ale_py)
    # Before the first emulator is built: it would print its banner.
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    env = gymnasium.make(
        env_id,
        frameskip=1,
        repeat_action_probability=protocol.repeat_action_probability,
        full_action_space=protocol.full_action_space,
        max_num_frames_per_episode=protocol.max_frames_per_episode,
        render_mode=render_mode,
        disable_env_checker=True,
    )
    return AtariGame(env, protocol)


def make_atari_environment(
    game: str,
    num_envs: int = 1,
    seed: int | None = None,
    protocol: AtariProtocol = PAPER,
    render_mode: str | None = None,
) -> gymnasium_env.GymnasiumEnvironment:
    """Builds `num_envs` independent games as one batched TF-Agents environment.

    Args:
        game: See `make_atari`, as for `protocol` and `render_mode`.
        num_envs: Batch size.
        seed: Seed from which each game gets its own; None draws one.
    """
    members = [make_atari(game, protocol, render_mode) for _ in range(num_envs)]
    return gymnasium_env.GymnasiumEnvironment(members, seed=seed)


class AtariGame(
    gymnasium.Wrapper[np.ndarray, int, np.ndarray, int], gymnasium.utils.RecordConstructorArgs
):
    """An Atari game under a protocol.

    Observations are uint8 `[screen_size, screen_size, frame_stack]`, oldest screen first; each is
    a new array. `observation[..., -1]` is the newest screen alone, as a view without a copy. (In
    colour a screen has three channels, and the stack three times as many.) At the start of an
    episode the older screens are zero, as in Nature DQN, whose code blanks all that comes from
    before the episode.

    When a lost life ends an episode, the game is not over: the next `reset` plays one no-op step
    and the game continues. Any other `reset`, and each one with a seed, starts a new game.

    The infos of `step` and `reset` hold:
        lives: Lives left, as the emulator counts them; 0 in games without lives.
        episode_frame_number: Frames since the game began, over all its lives, no-ops included.
        frame_number: Frames since the environment was built or seeded.
        raw_reward: Points of this step, not clipped; of `reset`, those of its no-op frames.
        game_score: Points since the game began, over all its lives, not clipped.
        game_over: Whether the game, not only a life, has ended or was truncated.
    """

    def __init__(self, env: gymnasium.Env, protocol: AtariProtocol):
        """Wraps an ale-py environment that does not skip frames; `make_atari` builds both."""
        # Lets `gymnasium.make(env.spec)` build the same environment again.
        gymnasium.utils.RecordConstructorArgs.__init__(self, protocol=protocol)
        gymnasium.Wrapper.__init__(self, env)
        self._protocol = protocol
        ale: ale_py.ALEInterface = env.unwrapped.ale  # type: ignore[attr-defined]
        self._ale = ale
        minimal, full = ale.getMinimalActionSet(), ale.getLegalActionSet()
        self._actions = full if protocol.full_action_space else minimal
        self._read_screen = ale.getScreenGrayscale if protocol.greyscale else ale.getScreenRGB

        colours = () if protocol.greyscale else (3,)
        frame_shape = (*ale.getScreenDims(), *colours)
        # The two most recent frames of the emulator, newest first.
        self._frames = [np.zeros(frame_shape, np.uint8) for _ in range(2)]
        size, length = protocol.screen_size, protocol.frame_stack
        self._blank = np.zeros((size, size, *colours), np.uint8)
        self._stack: collections.deque[np.ndarray] = collections.deque(maxlen=length)
        self._shape = (size, size, length * self._blank[0, 0].size)
        self.observation_space = gymnasium.spaces.Box(0, 255, self._shape, np.uint8)

        self._lives = 0
        self._score = 0
        self._life_lost = False
        self._needs_reset = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Starts an episode: the next life after a lost one, else a new game.

        Args:
            seed: Seeds the emulator and the number of no-ops, and starts a new game.
            options: Passed on to ale-py.

        Returns:
            The observation and the info.
        """
        same_game = self._life_lost and seed is None
        if same_game:
            raw_reward = self._play(ale_py.Action.NOOP, self._protocol.frame_skip)
        # The game may have ended with that life, or does so within the no-op step.
        if not same_game or self._ale.game_over():
            raw_reward = self._new_game(seed, options)
        self._life_lost = False
        self._needs_reset = False
        self._stack.extend([self._blank] * self._protocol.frame_stack)
        return self._observe(), self._info(raw_reward)

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Repeats `action` for `frame_skip` frames, or until the episode ends.

        Args:
            action: Index into the action set.

        Returns:
            Observation, reward in points (clipped to [-1, 1] if the protocol says so), whether the
            episode terminated, whether the game was truncated, and the info.
        """
        if self._needs_reset:
            raise gymnasium.error.ResetNeeded("the episode has ended or not begun: call reset()")
        if not self.action_space.contains(action):
            raise ValueError(f"action {action!r} is not in {self.action_space}")
        raw_reward = self._play(self._actions[action], self._protocol.frame_skip)
        terminated = self._life_lost or self._ale.game_over(with_truncation=False)
        truncated = self._ale.game_truncated()
        self._needs_reset = terminated or truncated
        reward = float(raw_reward)
        if self._protocol.clip_rewards:
            reward = max(-1.0, min(1.0, reward))
        return self._observe(), reward, terminated, truncated, self._info(raw_reward)

    def _new_game(self, seed: int | None, options: dict[str, Any] | None) -> int:
        self.env.reset(seed=seed, options=options)
        self._score = 0
        self._lives = self._ale.lives()
        for _ in self._frames:  # None of the last game may be left to pool with.
            self._grab_frame()
        noop_max = self._protocol.noop_max
        noops = int(self.np_random.integers(1, noop_max + 1)) if noop_max else 0
        return self._play(ale_py.Action.NOOP, noops)

    def _play(self, action: ale_py.Action, num_frames: int) -> int:
        """Repeats `action`, until the game ends or a life that matters is lost; returns points."""
        points = 0
        for _ in range(num_frames):
            points += self._ale.act(action)
            self._grab_frame()
            lives = self._ale.lives()
            # Some games add lives and some, like Bank Heist, play on with 0: only a fall counts.
            self._life_lost = self._protocol.terminal_on_life_loss and lives < self._lives
            self._lives = lives
            if self._life_lost or self._ale.game_over():
                break
        self._score += points
        return points

    def _grab_frame(self) -> None:
        self._frames.reverse()
        self._read_screen(self._frames[0])

    def _observe(self) -> np.ndarray:
        """Adds the current screen to the stack and returns a copy of the stack."""
        screen = cv2.max(*self._frames) if self._protocol.max_pool else self._frames[0]
        # Ours: area interpolation, as in Gymnasium, where Nature DQN's code is bilinear.
        screen = cv2.resize(screen, self._blank.shape[:2], interpolation=cv2.INTER_AREA)
        self._stack.append(screen)
        # Several times as fast as np.stack along the last axis.
        return cv2.merge(list(self._stack)).reshape(self._shape)

    def _info(self, raw_reward: int) -> dict[str, Any]:
        return {
            "lives": self._lives,
            "episode_frame_number": self._ale.getEpisodeFrameNumber(),
            "frame_number": self._ale.getFrameNumber(),
            "raw_reward": float(raw_reward),
            "game_score": float(self._score),
            "game_over": self._ale.game_over(),
        }
