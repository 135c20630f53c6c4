"""Keys of a real encoder over real Atari frames, collected once and kept on disk.

On random numbers, neighbour search is slower and finds less than on the keys of an encoder. So the
benchmarks use keys of Atari frames: random play, Nature DQN network with random weights.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf
from ale_py.vector_env import AtariVectorEnv
from tqdm import tqdm

from nec_tf.networks.encoders import nature_dqn

CACHE = Path(__file__).parent / ".cache"
STATES = 800_000  # about a fifth of their keys repeat
_MEMBERS = 8  # environments stepped together: the emulator then uses both cores


def load(count: int, key_size: int = 64, game: str = "frostbite") -> np.ndarray:
    """Returns keys [count, key_size] in random order; collects them if they are not on disk.

    Args:
        count: Number of states to encode; 1,000 to 2,000 a second on two cores.
        key_size: Length of a key.
        game: ROM name of the game to play at random.
    """
    path = CACHE / f"keys-{game}-{key_size}-{count}.npy"
    if not path.exists():
        CACHE.mkdir(exist_ok=True)
        keys = collect(count, encoder(key_size), game)
        np.random.default_rng(0).shuffle(keys)
        unfinished = path.with_suffix(".part.npy")
        np.save(unfinished, keys)
        unfinished.rename(path)
    return np.load(path)


def encoder(key_size: int = 64) -> tf.keras.Model:
    """Returns the network that makes the keys."""
    return nature_dqn(key_size=key_size, seed=0)


def states(game: str = "frostbite", seed: int = 0) -> Iterator[np.ndarray]:
    """Plays several games at random; yields the state of each, uint8 [8, 84, 84, 4]."""
    environment = AtariVectorEnv(
        game, _MEMBERS, reward_clipping=False, use_fire_reset=False, full_action_space=True
    )
    rng = np.random.default_rng(seed)
    observations: np.ndarray = environment.reset(seed=seed)[0]
    try:
        while True:
            yield observations.transpose(0, 2, 3, 1).copy()
            observations, *_ = environment.step(rng.integers(0, 18, _MEMBERS))
    finally:
        environment.close()


def collect(count: int, encode: tf.keras.Model, game: str) -> np.ndarray:
    """Plays at random and encodes every state, [count, key_size]."""
    keys = np.empty((count, encode.output_shape[-1]), np.float32)
    waiting: list[np.ndarray] = []
    done = 0
    with tqdm(total=count, desc=f"encoding {game}", unit="state") as bar:
        for played in states(game):
            waiting.append(played)
            if len(waiting) == 64 or done + len(waiting) * _MEMBERS >= count:
                batch = encode(np.concatenate(waiting), training=False).numpy()[: count - done]
                keys[done : done + len(batch)] = batch
                done += len(batch)
                bar.update(len(batch))
                waiting.clear()
            if done == count:
                break
    return keys
