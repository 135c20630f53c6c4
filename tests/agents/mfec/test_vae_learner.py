import dataclasses

import cartpole
import numpy as np
import pytest
from small_environments import SmallLock

from nec_tf.agents.mfec.config import MfecVaeConfig
from nec_tf.agents.mfec.vae_learner import MfecVaeLearner
from nec_tf.agents.n_step_driver import NStepDriver
from nec_tf.environments.gymnasium_env import GymnasiumEnvironment
from nec_tf.networks.vae import vae_encoder

CONFIG = MfecVaeConfig(
    key_size=4,
    capacity=500,
    vae_steps=100,
    vae_updates=20,
    epsilon_from=100,
    epsilon_until=200,
    index="exact",
)


def make():
    environment = GymnasiumEnvironment([SmallLock(1)], seed=1)
    specs = environment.time_step_spec(), environment.action_spec()
    learner = MfecVaeLearner(*specs, vae_encoder((4,), 4, seed=1), CONFIG, seed=1)
    return learner, NStepDriver(environment, learner.agent.collect_policy, [learner.observe])


def test_it_watches_then_trains_the_vae_once_and_then_remembers():
    learner, driver = make()
    before = learner.agent.embedding.get_weights()[0]
    step = driver.run(99)
    assert learner.agent.dnd.sizes.sum() == 0
    np.testing.assert_array_equal(learner.agent.embedding.get_weights()[0], before)
    step = driver.run(1, step)
    frozen = learner.agent.embedding.get_weights()[0]
    assert (frozen != before).any()
    driver.run(100, step)
    assert learner.agent.dnd.sizes.sum() > 0
    np.testing.assert_array_equal(learner.agent.embedding.get_weights()[0], frozen)


@pytest.mark.parametrize("steps", [60, 150])
def test_what_was_watched_is_saved_until_it_is_needed_no_more(steps):
    learner, driver = make()
    driver.run(steps)
    arrays = learner.arrays()
    assert len(arrays.get("watched", ())) == (60 if steps == 60 else 0)
    other, driver = make()
    other.restore_arrays(arrays)
    driver.run(30)
    assert (other.agent.dnd.sizes.sum() > 0) == (steps == 150)


def test_epsilon_does_not_fall_while_it_watches():
    with pytest.raises(ValueError, match="epsilon_from"):
        dataclasses.replace(CONFIG, epsilon_from=50)


def test_learns_to_keep_the_pole_up():
    """20 episodes: random play scores about 22, the threshold is 60, an empty memory scores 9."""
    config = MfecVaeConfig.small(vae_steps=500, vae_updates=500, epsilon_until=3_000)
    score = cartpole.learned_score(MfecVaeLearner, config, 5_000, seed=1, encoder=vae_encoder)
    assert score >= 60
