import dataclasses
import re

import pytest

from nec_tf import NecConfig
from nec_tf.agents.learner import Learner
from nec_tf.experiments.registry import AGENTS, find_agent, make_config, make_learner
from nec_tf.experiments.tasks import gym_task
from nec_tf.runtime.errors import UserError


@pytest.mark.parametrize("name", AGENTS)
def test_every_agent_makes_a_learner_with_the_settings_of_its_preset(name):
    task = gym_task("CartPole-v1")
    kind = AGENTS[name]
    learner = make_learner(kind, task, task.environment(1, 0), kind.config.small(), seed=0)
    assert isinstance(learner, Learner)
    assert set(learner.metrics()) <= set(learner.METRICS)
    assert learner.trackables()


@pytest.mark.parametrize("name", AGENTS)
def test_every_setting_names_its_source(name):
    helps = {f.name: f.metadata["help"] for f in dataclasses.fields(AGENTS[name].config)}
    without = [setting for setting, text in helps.items() if not re.search(r"\[.{3,}\]", text)]
    assert without == []


def test_nec_is_configured_with_what_its_agent_is():
    assert issubclass(AGENTS["nec"].config, NecConfig)


def test_an_unknown_agent_gets_the_nearest_names():
    with pytest.raises(ValueError, match="did you mean nec"):
        find_agent("nce")


def test_the_preset_of_the_paper_turns_off_what_the_paper_does_not_have():
    config = make_config("nec", "paper", capacity=700)
    assert config.exploration_repeats == 1
    assert config.recognise_by_key
    assert config.key_length == config.averaging == 0
    assert not config.centred_screens
    assert config.values_learning_rate < config.alpha  # section 3.4
    assert (config.capacity, config.horizon, config.num_neighbours) == (700, 100, 50)
    with pytest.raises(UserError, match="'dqn' has no preset 'paper': its defaults are"):
        make_config("dqn", "paper")
    with pytest.raises(UserError, match="preset must be atari, small, paper, not '__init__'"):
        make_config("nec", "__init__")


def test_a_learner_by_the_preset_of_the_paper_trains():
    task = gym_task("CartPole-v1")
    small = {"learning_starts": 20, "batch_size": 4, "capacity": 200, "horizon": 5}
    config = make_config("nec", "paper", **small)
    environment = task.environment(1, 0)
    learner = make_learner(AGENTS["nec"], task, environment, config, seed=0)
    learner.run(environment, 60)
    learner.finish_updates()
    assert learner.metrics()["loss"] > 0
