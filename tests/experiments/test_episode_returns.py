import numpy as np
from tf_agents.trajectories import time_step as ts
from tf_agents.trajectories import trajectory

from nec_tf.experiments.episode_returns import EpisodeReturns

FIRST, MID, LAST = ts.StepType.FIRST, ts.StepType.MID, ts.StepType.LAST


def step(types, following, rewards):
    return trajectory.Trajectory(
        np.array(types), (), (), (), np.array(following), np.array(rewards), np.ones(len(rewards))
    )


def test_rewards_add_up_by_episode_and_the_step_between_counts_nothing():
    returns = EpisodeReturns()
    returns(step([FIRST, FIRST], [MID, LAST], [1.0, 5.0]))
    returns(step([MID, LAST], [MID, FIRST], [2.0, 99.0]))
    returns(step([MID, FIRST], [LAST, LAST], [4.0, 9.0]))
    assert returns.take_steps() == 5
    assert returns.take_steps() == 0
    assert returns.num_episodes == 3
    assert returns.take_mean() == (5 + 7 + 9) / 3
    assert returns.num_episodes == 0
