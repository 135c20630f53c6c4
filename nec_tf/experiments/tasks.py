"""What is played: environments for training and evaluation, and an embedding that fits."""

import dataclasses
from collections.abc import Callable

import gymnasium
import tensorflow as tf

from nec_tf.environments import atari, games
from nec_tf.environments.gymnasium_env import GymnasiumEnvironment
from nec_tf.experiments.run_files import gym_task_name
from nec_tf.networks import encoders

PROTOCOLS = {"paper": atari.PAPER, "machado": atari.MACHADO}


@dataclasses.dataclass(frozen=True)
class Task:
    """A task of any kind, as the experiment loop sees it.

    Attributes:
        name: Short, for file names.
        description: What `task_from` makes the same task from.
        make_env: Returns one environment; the argument is whether it is for evaluation.
        make_embedding: From key size and seed to a network.
        frames_per_step: Environment frames of one agent step.
        human_normalised: From a score to per cent of human, where that is known.
        steps_per_second: Of a video at natural speed.
    """

    name: str
    description: dict[str, str]
    make_env: Callable[[bool], gymnasium.Env]
    make_embedding: Callable[[int, int], tf.keras.Model]
    frames_per_step: int = 1
    human_normalised: Callable[[float], float] | None = None
    steps_per_second: int = 30

    def environment(self, count: int, seed: int, evaluation: bool = False) -> GymnasiumEnvironment:
        """Returns a batch of environments."""
        return GymnasiumEnvironment([self.make_env(evaluation) for _ in range(count)], seed=seed)


def atari_task(name: str, protocol_name: str = "paper") -> Task:
    """Returns an Atari game by its name, `Frostbite`, `frostbite` or `ms_pacman`."""
    game = games.find_game(name)
    if protocol_name not in PROTOCOLS:
        raise ValueError(f"--protocol must be {' or '.join(PROTOCOLS)}, not {protocol_name!r}")
    protocol = PROTOCOLS[protocol_name]

    def make_env(evaluation: bool) -> gymnasium.Env:
        rules = protocol.for_evaluation() if evaluation else protocol
        return atari.make_atari(game.id, rules, render_mode="rgb_array")

    shape = (protocol.screen_size, protocol.screen_size, protocol.frame_stack)
    return Task(
        name=game.id,
        description={"game": game.id, "protocol": protocol_name},
        make_env=make_env,
        make_embedding=lambda key_size, seed: encoders.nature_dqn(shape, key_size, seed),
        frames_per_step=protocol.frame_skip,
        human_normalised=game.human_normalised,
        steps_per_second=60 // protocol.frame_skip,
    )


def gym_task(env_id: str) -> Task:
    """Returns any registered Gymnasium environment with discrete actions."""
    try:
        spec = gymnasium.spec(env_id)
    except gymnasium.error.Error as error:
        raise ValueError(f"unknown environment {env_id!r}: {error}") from error
    with gymnasium.make(spec) as env:
        shape = env.observation_space.shape or ()
    return Task(
        name=gym_task_name(env_id),
        description={"env": env_id},
        make_env=lambda evaluation: gymnasium.make(spec, render_mode="rgb_array"),
        make_embedding=lambda key_size, seed: encoders.mlp(shape, key_size, seed=seed),
    )


def task_from(description: dict[str, str]) -> Task:
    """Returns the task that a run's `config.json` describes."""
    if "game" in description:
        return atari_task(description["game"], description["protocol"])
    return gym_task(description["env"])
