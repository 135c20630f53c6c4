import json

import pytest

from nec_tf.agents.nec.config import NecLearnerConfig
from nec_tf.experiments.run import Run, load_run, load_trained_run
from nec_tf.experiments.settings import Settings
from nec_tf.experiments.tasks import gym_task
from nec_tf.runtime.errors import UserError

SETTINGS = Settings(
    agent="nec",
    frames=100,
    seed=1,
    num_envs=1,
    eval_every_frames=50,
    eval_episodes=1,
    checkpoint_every_frames=50,
    log_every_frames=50,
    video=False,
)
CONFIG = NecLearnerConfig(
    key_size=4, capacity=100, replay_capacity=100, learning_starts=50, index="exact"
)


@pytest.fixture
def run_dir(tmp_path):
    Run(tmp_path, gym_task("CartPole-v1"), SETTINGS, CONFIG).folder.write_config()
    return tmp_path


def test_a_run_is_made_again_from_its_folder(run_dir):
    run = load_run(run_dir)
    assert run.settings == SETTINGS
    assert run.learner.agent.config == CONFIG
    assert run.task.name == "cartpole-v1"


def test_a_run_of_another_version_is_refused_by_the_settings_it_has(run_dir):
    path = run_dir / "config.json"
    recorded = json.loads(path.read_text())
    recorded["config"]["longest_key"] = 10.0
    path.write_text(json.dumps(recorded))
    with pytest.raises(UserError, match=r"another version .* not known here: longest_key"):
        load_run(run_dir)


def test_a_run_of_a_version_that_lacked_a_setting_is_refused_by_it(run_dir):
    path = run_dir / "config.json"
    recorded = json.loads(path.read_text())
    del recorded["config"]["key_length"]
    path.write_text(json.dumps(recorded))
    with pytest.raises(UserError, match=r"key_length was None and is now 3\.0"):
        load_run(run_dir)


def without(name):
    return lambda recorded: recorded.pop(name)


@pytest.mark.parametrize(
    "change",
    [
        without("agent"),
        without("env"),
        without("config"),
        without("seed"),
        lambda recorded: recorded.update(config=[]),
        lambda recorded: recorded.update(frames="many"),
        lambda recorded: recorded.update(agent=["nec"]),
        lambda recorded: recorded["config"].update(horizon=None),
    ],
)
def test_a_damaged_configuration_is_refused_in_a_sentence(run_dir, change):
    path = run_dir / "config.json"
    recorded = json.loads(path.read_text())
    change(recorded)
    path.write_text(json.dumps(recorded))
    with pytest.raises(UserError):
        load_run(run_dir)


def test_nothing_is_trained_without_a_checkpoint(run_dir):
    with pytest.raises(UserError, match="has no checkpoint yet"):
        load_trained_run(run_dir)


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"not a run.s folder: there is no .*config\.json"):
        load_run(tmp_path)
