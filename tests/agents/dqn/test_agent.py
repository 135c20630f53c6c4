"""DQN against numbers worked out by hand, and on a task that it can solve."""

import dataclasses

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from small_environments import Counting, SmallLock
from tf_agents.trajectories import time_step as ts
from tf_agents.trajectories import trajectory

from nec_tf.agents.dqn.config import DqnConfig
from nec_tf.agents.dqn.learner import DqnLearner
from nec_tf.agents.n_step_driver import NStepDriver
from nec_tf.environments.gymnasium_env import GymnasiumEnvironment
from nec_tf.networks import encoders

SMALL = DqnConfig(
    key_size=16,
    replay_capacity=1000,
    learning_starts=20,
    target_period=5,
    epsilon_until=200,
    rmsprop_epsilon=1e-5,
)


def make(env_class=Counting, config=SMALL, seed=0, argument=7, count=1):
    environment = GymnasiumEnvironment([env_class(argument) for _ in range(count)], seed=seed)
    shape = environment.observation_spec().shape
    embedding = encoders.mlp(shape, config.key_size, seed=seed)
    learner = DqnLearner(
        environment.time_step_spec(), environment.action_spec(), embedding, config, seed
    )
    return environment, learner


def drive(environment, learner, steps):
    NStepDriver(environment, learner.agent.collect_policy, [learner.observe]).run(steps)


def weights(learner):
    return [variable.numpy() for variable in learner.agent._q_network.variables]


def test_the_network_is_that_of_nature_dqn():
    embedding = encoders.nature_dqn((84, 84, 4), DqnConfig().key_size, 0)
    environment = GymnasiumEnvironment([Pixels()], seed=0)
    specs = environment.time_step_spec(), environment.action_spec()
    config = dataclasses.replace(DqnConfig(), replay_capacity=50_000)
    learner = DqnLearner(*specs, embedding, config, 0)
    # Convolutions 8 x 8 x 4 x 32, 4 x 4 x 32 x 64, 3 x 3 x 64 x 64; 7 x 7 x 64 to 512 to 18.
    expected = 8_224 + 32_832 + 36_928 + 1_606_144 + 9_234
    trained = learner.agent._q_network.trainable_variables  # DQN takes no mean screen off
    assert sum(np.size(weight) for weight in trained) == expected
    untrained = learner.agent._q_network.non_trainable_variables
    assert all(not np.any(weight) for weight in untrained)


class Pixels(gymnasium.Env):
    """Only its spaces matter."""

    observation_space = gymnasium.spaces.Box(0, 255, (84, 84, 4), np.uint8)
    action_space = gymnasium.spaces.Discrete(18)


def step(reward, discount, observation, step_type=ts.StepType.MID):
    return trajectory.Trajectory(
        step_type=np.array([step_type], np.int32),
        observation=np.array([[observation]], np.float32),
        action=np.array([1], np.int64),
        policy_info=(),
        next_step_type=np.array([ts.StepType.MID], np.int32),
        reward=np.array([reward], np.float32),
        discount=np.array([discount], np.float32),
    )


@pytest.mark.parametrize(
    ("reward", "discount", "clipped"), [(0.5, 1, 0.5), (400, 1, 1), (-7, 1, -1), (9, 0, 1)]
)
def test_the_loss_is_hubers_of_the_clipped_reward_and_the_targets_best(reward, discount, clipped):
    config = dataclasses.replace(SMALL, batch_size=1, learning_starts=1, update_period=1)
    _, learner = make(config=config)
    # The target network differs from the network, and is the one that is asked.
    for variable in learner.agent._target_q_network.variables:
        variable.assign(variable + 0.3)
    state, following = (np.float32([[x]]) for x in (3, 4))
    q = learner.agent._q_network(state)[0].numpy()[0, 1]
    best = learner.agent._target_q_network(following)[0].numpy().max()
    learner.observe(step(reward, discount, 3))
    learner.observe(step(0, 1, 4))
    error = abs(q - (clipped + 0.99 * discount * best))
    huber = error**2 / 2 if error < 1 else error - 0.5
    assert learner.metrics()["loss"] == pytest.approx(huber, rel=1e-4)


def test_updates_begin_when_told_and_come_every_few_steps():
    environment, learner = make(argument=1000)
    before = weights(learner)
    drive(environment, learner, 20)
    assert int(learner.agent.train_step_counter) == 0
    np.testing.assert_array_equal(weights(learner)[0], before[0])
    drive(environment, learner, 40)
    assert int(learner.agent.train_step_counter) == 60 // 4 - 20 // 4
    assert any((a != b).any() for a, b in zip(before, weights(learner), strict=True))


def test_several_environments_have_as_many_updates_for_a_step():
    environment, learner = make(argument=1000, count=8)
    drive(environment, learner, 10)
    assert int(learner.agent.train_step_counter) == (80 - 24) // 4


def test_the_target_network_follows_every_period():
    environment, learner = make(argument=1000)
    lags = []
    for _ in range(30):
        drive_once = learner.agent.train_step_counter.numpy()
        drive(environment, learner, 4)
        if int(learner.agent.train_step_counter) == drive_once:
            continue
        own, target = learner.agent._q_network, learner.agent._target_q_network
        same = [np.array_equal(a, b) for a, b in zip(own.variables, target.variables, strict=True)]
        lags.append(all(same))
    updates = int(learner.agent.train_step_counter)
    assert lags == [(update + 1) % 5 == 0 for update in range(updates)]


def test_epsilon_falls_from_the_first_step_on():
    environment, learner = make(argument=1000)
    drive(environment, learner, 100)
    assert learner.metrics()["epsilon"] == pytest.approx(1 - 0.9 * 100 / 200)


def test_the_same_seed_gives_the_same_weights():
    runs = []
    for seed in (3, 3, 4):
        environment, learner = make(seed=seed)
        drive(environment, learner, 60)
        runs.append(np.concatenate([weight.ravel() for weight in weights(learner)]))
    np.testing.assert_array_equal(runs[0], runs[1])
    assert (runs[0] != runs[2]).any()


def test_goes_on_from_a_checkpoint_as_if_never_stopped(tmp_path):
    runs = []
    for stop in (False, True):
        environment, learner = make(seed=1)
        drive(environment, learner, 50)
        if stop:
            tf.train.Checkpoint(**learner.trackables()).write(str(tmp_path / "c"))
            arrays = {name: np.copy(array) for name, array in learner.arrays().items()}
            _, learner = make(seed=2)
            tf.train.Checkpoint(**learner.trackables()).read(str(tmp_path / "c"))
            learner.restore_arrays(arrays)
        else:
            learner.replay.end_streams()
        environment.seed(5)
        drive(environment, learner, 50)
        runs.append(weights(learner))
    for one, other in zip(*runs, strict=True):
        np.testing.assert_array_equal(one, other)


def test_learns_to_open_a_lock():
    """Random play opens it in 1 of 27 episodes, greedy play has to; learning rate 0 does not."""
    config = dataclasses.replace(SMALL, epsilon_until=4000, epsilon_end=0.0, learning_rate=1e-3)
    environment, learner = make(SmallLock, config, seed=2, argument=3)
    drive(environment, learner, 5000)
    time_step = environment.reset()
    rewards = 0.0
    for _ in range(SmallLock.LENGTH):
        time_step = environment.step(learner.agent.policy.action(time_step).action.numpy())
        rewards += float(time_step.reward[0])
    assert rewards == 1.0


def test_a_replay_smaller_than_what_learning_waits_for_is_refused():
    with pytest.raises(ValueError, match="replay_capacity"):
        DqnConfig(replay_capacity=10_000)
