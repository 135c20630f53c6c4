"""CartPole as a learning test: one reward for each step that the pole stays up, 500 at most."""

import gymnasium
import numpy as np
from tf_agents.trajectories import time_step as ts

from nec_tf.agents.n_step_driver import NStepDriver, numpy_action
from nec_tf.environments.gymnasium_env import GymnasiumEnvironment
from nec_tf.networks import encoders


def learned_score(learner_class, config, steps, seed, encoder=encoders.mlp):
    """Trains for so many steps and returns the mean score of 20 episodes of the greedy policy."""
    environment = GymnasiumEnvironment([gymnasium.make("CartPole-v1")], seed=seed)
    embedding = encoder((4,), config.key_size, seed=seed)
    specs = environment.time_step_spec(), environment.action_spec()
    learner = learner_class(*specs, embedding, config, seed)
    NStepDriver(environment, learner.agent.collect_policy, [learner.observe]).run(steps)
    act = numpy_action(learner.agent.policy)
    return mean_score(lambda step: act(step, ()).action)


def random_score():
    """Returns the mean score of 20 episodes of random actions: about 22."""
    rng = np.random.default_rng(0)
    return mean_score(lambda step: rng.integers(0, 2, 1))


def mean_score(act):
    environment = GymnasiumEnvironment([gymnasium.make("CartPole-v1")], seed=1)
    total, step = 0.0, environment.reset()
    for _ in range(20):
        while step.step_type[0] != ts.StepType.LAST:
            step = environment.step(act(step))
            total += float(step.reward[0])
        step = environment.step(act(step))  # begins the next episode
    return total / 20
