"""What is played: environments for training and evaluation, and an embedding that fits."""

import dataclasses
import functools
import importlib
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import tensorflow as tf
from tf_agents.specs import array_spec

from nec_tf.environments import games
from nec_tf.environments.gymnasium_env import GymnasiumEnvironment
from nec_tf.experiments.run_files import gym_task_name
from nec_tf.networks import encoders
from nec_tf.runtime.errors import UserError, did_you_mean

ENCODERS = ("auto", "cnn", "mlp")
TASK_OPTIONS = ("protocol", "encoder")
# The network of runs that recorded no encoder: an MLP that does not scale pixels.
_UNSCALED = "mlp_unscaled"


@dataclasses.dataclass(frozen=True)
class Task:
    """A task of any kind, as the training loop sees it.

    Attributes:
        name: Short, for file names.
        description: What `task_from` makes the same task from.
        make_env: Returns one environment; the argument is True for evaluation.
        make_embedding: From key size and seed to a network.
        preset: Preset of settings that fits: "atari" or "small".
        frames_per_step: Environment frames of one agent step.
        human_normalised: From a score to per cent of human, None if that is unknown.
        steps_per_second: Of a video at natural speed.
        renders: Whether environments render to arrays, from which videos are made.
        encoder_given: Whether the user chose the encoder.
    """

    name: str
    description: dict[str, str]
    make_env: Callable[[bool], gymnasium.Env]
    make_embedding: Callable[[int, int], tf.keras.Model]
    preset: str = "small"
    frames_per_step: int = 1
    human_normalised: Callable[[float], float] | None = None
    steps_per_second: int = 30
    renders: bool = True
    encoder_given: bool = False

    @property
    def unit(self) -> str:
        """What the frames of this task are called."""
        return "frames" if self.preset == "atari" else "steps"

    def environment(self, count: int, seed: int, evaluation: bool = False) -> GymnasiumEnvironment:
        """Returns a batch of environments."""
        factory = functools.partial(self.make_env, evaluation)
        return GymnasiumEnvironment([factory] * count, seed=seed)


def find_task(name: str, **options: str) -> Task:
    """Returns an Atari game by its name, or else a Gymnasium environment by its id.

    Args:
        name: Such as `Frostbite`, `CartPole-v1` or `my_module:MyEnv-v0`.
        **options: `protocol` of an Atari game, or `encoder` of a Gymnasium environment.

    Raises:
        UserError: There is neither; the message gives the nearest names of both kinds.
    """
    if games.is_game(name):
        make: Callable[..., Task] = atari_task
        foreign = {*options} - {"protocol"}
    elif ":" in name or name in gymnasium.registry:
        make, foreign = gym_task, {*options} - {"encoder"}
    else:
        known = [game.name for game in games.GAMES.values()] + list(gymnasium.registry)
        suggestion = did_you_mean(name, known) or "nec_tf.environments.games.GAMES lists the games."
        raise UserError(
            f"{name!r} is neither an Atari game nor the id of a Gymnasium environment:"
            f" {suggestion} (id of an environment of your own: module:Name-v0)"
        )
    if foreign:
        raise UserError(f"{sorted(foreign)[0]} cannot be set for {name}")
    return make(name, **options)


def atari_task(name: str, protocol: str = "paper") -> Task:
    """Returns an Atari game by its name, `Frostbite`, `frostbite` or `ms_pacman`."""
    from nec_tf.environments import atari  # the emulator is optional

    game = games.find_game(name)
    protocols = {"paper": atari.PAPER, "machado": atari.MACHADO}
    if protocol not in protocols:
        raise UserError(f"protocol must be {' or '.join(protocols)}, not {protocol!r}")
    rules = protocols[protocol]

    def make_env(evaluation: bool) -> gymnasium.Env:
        return atari.make_atari(
            game.id, rules.for_evaluation() if evaluation else rules, render_mode="rgb_array"
        )

    shape = (rules.screen_size, rules.screen_size, rules.frame_stack)
    return Task(
        name=game.id,
        description={"game": game.id, "protocol": protocol},
        make_env=make_env,
        make_embedding=lambda key_size, seed: encoders.nature_dqn(shape, key_size, seed),
        preset="atari",
        frames_per_step=rules.frame_skip,
        human_normalised=game.human_normalised,
        steps_per_second=60 // rules.frame_skip,
    )


def gym_task(env_id: str, encoder: str = "auto") -> Task:
    """Returns a Gymnasium environment with discrete actions.

    Args:
        env_id: As in `gymnasium.make`: `Name-v0`, or `module:Name-v0` to import a module first.
        encoder: "cnn" for images, "mlp" for everything else, "auto" to choose by the observations.

    Raises:
        UserError: It is unknown, or its actions or observations are not supported.
    """
    if encoder not in (*ENCODERS, _UNSCALED):
        raise UserError(f"encoder must be {', '.join(ENCODERS)}, not {encoder!r}")
    spec = _find_spec(env_id)
    renders = _renders(spec)

    def make_env(evaluation: bool) -> gymnasium.Env:
        del evaluation
        return _with_box_observations(_make(spec, **_rendering(renders)))

    with GymnasiumEnvironment([make_env(False)]) as environment:  # refuses unsupported spaces
        observation = environment.observation_spec()
    chosen = _choose_encoder(encoder, observation)
    # Runs of versions that had no choice are the same runs, unless they read pixels.
    recorded = {"encoder": chosen} if _is_pixels(observation) and chosen != _UNSCALED else {}

    def make_embedding(key_size: int, seed: int) -> tf.keras.Model:
        if chosen == "cnn":
            return encoders.nature_dqn(observation.shape, key_size, seed)
        return encoders.mlp(observation.shape, key_size, seed=seed, pixels=bool(recorded))

    return Task(
        name=gym_task_name(env_id),
        description={"env": env_id, **recorded},
        make_env=make_env,
        make_embedding=make_embedding,
        renders=renders,
        encoder_given=encoder in ("cnn", "mlp"),
    )


def task_from(description: dict[str, str]) -> Task:
    """Returns the task that a run's `config.json` describes."""
    if "game" in description:
        return atari_task(description["game"], description["protocol"])
    return gym_task(description["env"], description.get("encoder", _UNSCALED))


def _find_spec(env_id: str) -> gymnasium.envs.registration.EnvSpec:
    """Returns a registered environment, after importing its module if the id names one."""
    module, _, name = env_id.rpartition(":")
    if module:
        if not all(part.isidentifier() for part in module.split(".")):  # such as ../envs
            raise UserError(f"environment {env_id!r}: {module!r} is not the name of a module")
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module}.".startswith(f"{error.name}."):
                raise  # the module exists, and an import in it fails
            raise UserError(
                f"environment {env_id!r}: there is no module {module!r} in the current folder or"
                " in PYTHONPATH"
            ) from error
    try:
        return gymnasium.spec(name)
    except gymnasium.error.Error as error:
        suggestion = did_you_mean(name, gymnasium.registry) or error
        raise UserError(f"unknown environment {env_id!r}: {suggestion}") from error


def _make(spec: gymnasium.envs.registration.EnvSpec, **arguments: Any) -> gymnasium.Env:
    try:
        return gymnasium.make(spec, **arguments)
    except gymnasium.error.Error as error:  # a package that is not installed, or a retired version
        raise UserError(f"environment {spec.id!r} cannot be made: {error}") from error


def _renders(spec: gymnasium.envs.registration.EnvSpec) -> bool:
    """Returns whether an environment can be built to render to arrays."""
    with _make(spec) as env:
        if "rgb_array" not in ((env.metadata or {}).get("render_modes") or ()):
            return False
    try:
        _make(spec, **_rendering(True)).close()
    except TypeError as error:
        if "render_mode" not in str(error):
            raise
        return False  # it lists the mode and takes no such argument
    return True


def _rendering(renders: bool) -> dict[str, str]:
    return {"render_mode": "rgb_array"} if renders else {}


def _with_box_observations(env: gymnasium.Env) -> gymnasium.Env:
    """Flattens Discrete, MultiDiscrete, MultiBinary, Dict and Tuple to float32 vectors."""
    space = env.observation_space
    if isinstance(space, gymnasium.spaces.Box):
        return env
    if not space.is_np_flattenable:
        raise UserError(
            f"observation space {space} is not supported: it must be a Box, or be of a fixed size"
            " that Gymnasium can flatten to one"
        )
    flat: gymnasium.Env = gymnasium.wrappers.FlattenObservation(env)
    if np.issubdtype(flat.observation_space.dtype, np.floating):
        return flat  # `GymnasiumEnvironment` makes them float32
    return gymnasium.wrappers.DtypeObservation(flat, np.float32)


def _is_pixels(observation: array_spec.BoundedArraySpec) -> bool:
    return observation.dtype == np.uint8


def _choose_encoder(asked: str, observation: array_spec.BoundedArraySpec) -> str:
    """Returns "cnn", "mlp" or `_UNSCALED`; refuses convolutions that do not fit."""
    shape, smallest = observation.shape, encoders.SMALLEST_SCREEN
    fits = _is_pixels(observation) and len(shape) == 3 and min(shape[:2]) >= smallest
    if asked == "auto":
        return "cnn" if fits else "mlp"
    if asked == "cnn" and not fits:
        raise UserError(
            f"encoder 'cnn' takes uint8 images [height, width, channels] of at least {smallest} x"
            f" {smallest}, but observations are {observation.dtype.name} {list(shape)}: use 'mlp'"
        )
    return asked
