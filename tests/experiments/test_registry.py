import pytest

from nec_tf import NecConfig
from nec_tf.agents.learner import Learner
from nec_tf.experiments.registry import AGENTS, find_agent, make_learner
from nec_tf.experiments.tasks import gym_task


@pytest.mark.parametrize("name", AGENTS)
def test_every_agent_makes_a_learner_with_the_settings_of_its_preset(name):
    task = gym_task("CartPole-v1")
    kind = AGENTS[name]
    learner = make_learner(kind, task, task.environment(1, 0), kind.config.small(), seed=0)
    assert isinstance(learner, Learner)
    assert set(learner.metrics()) <= set(learner.METRICS)
    assert learner.trackables()


def test_nec_is_configured_with_what_its_agent_is():
    assert issubclass(AGENTS["nec"].config, NecConfig)


def test_an_unknown_agent_gets_the_nearest_names():
    with pytest.raises(ValueError, match="did you mean nec"):
        find_agent("nce")
