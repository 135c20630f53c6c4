"""Stable-Baselines3's DQN on Pong, run by `benchmarks.loop_agents` in its own environment.

Reads numbers of agent steps from stdin, a line each, trains for as many and prints the seconds.
Network (`CnnPolicy` is Nature DQN's), batch size and update ratio are those of our DQN;
environment, optimizer (Adam) and number of threads are Stable-Baselines3's own, its replay smaller.
"""

import sys
import time

import ale_py
import gymnasium
from stable_baselines3 import DQN
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.vec_env import VecFrameStack


def main(learning_starts: int) -> None:
    """Trains as stdin asks."""
    gymnasium.register_envs(ale_py)
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    model = DQN(
        "CnnPolicy",
        VecFrameStack(make_atari_env("PongNoFrameskip-v4", n_envs=1, seed=0), n_stack=4),
        batch_size=32,
        train_freq=4,
        gradient_steps=1,
        learning_starts=learning_starts,
        buffer_size=100_000,  # its replay fills all memory at the start, ours as steps arrive
        target_update_interval=10_000,
        device="cpu",
        seed=0,
    )
    for line in sys.stdin:
        started = time.perf_counter()
        model.learn(int(line), reset_num_timesteps=False)
        print(time.perf_counter() - started, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
