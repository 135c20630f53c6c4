from pathlib import Path

import pytest

from nec_tf.experiments.sweep.plan import make_trials, parse_seeds
from nec_tf.runtime.errors import UserError


def trials(games="pong", agents="nec", seeds="1", settings=(), **kwargs):
    return make_trials(games, agents, seeds, 4_000, settings, Path("/runs"), **kwargs)


def test_there_is_a_trial_for_each_combination_seed_by_seed():
    names = [trial.name for trial in trials("pong,alien", "nec,mfec", "1-2")]
    assert names == [
        f"{agent}-{game}-{seed}"
        for seed in (1, 2)
        for agent in ("nec", "mfec")
        for game in ("pong", "alien")
    ]


def test_a_trial_is_a_train_command_with_a_folder_of_its_own():
    (trial,) = trials(flags=["--eval_episodes=2"])
    assert trial.command()[1:4] == ["-m", "nec_tf", "train"]
    assert trial.command()[4:] == [
        "--game=pong",
        "--seed=1",
        "--frames=4000",
        "--agent=nec",
        "--eval_episodes=2",
        "--run_dir=/runs/nec-pong-1",
    ]


def test_all_combinations_of_settings_are_variants_and_the_defaults_keep_the_agents_name():
    settings = ["learning_rate=1e-3,0.1", "horizon=100,10"]
    made = {trial.variant: trial.flags for trial in trials(settings=settings)}
    assert made == {
        "nec_learning_rate-0.001": ("--agent=nec", "--learning_rate=0.001"),
        "nec_horizon-10_learning_rate-0.001": (
            "--agent=nec",
            "--horizon=10",
            "--learning_rate=0.001",
        ),
        "nec_learning_rate-0.1": ("--agent=nec", "--learning_rate=0.1"),
        "nec_horizon-10_learning_rate-0.1": (
            "--agent=nec",
            "--horizon=10",
            "--learning_rate=0.1",
        ),
    }
    assert [trial.variant for trial in trials(settings=["horizon=100"])] == ["nec"]


def test_a_setting_goes_to_the_agents_that_have_it():
    made = [trial.variant for trial in trials(agents="nec,mfec", settings=["learning_rate=0.1"])]
    assert made == ["nec_learning_rate-0.1", "mfec"]


def test_settings_of_the_run_that_change_what_is_learned_make_variants():
    (trial,) = trials(settings=["num_envs=8", "protocol=machado"])
    assert trial.variant == "nec_num_envs-8_protocol-machado"
    (trial,) = trials(settings=["preset=paper"])
    assert trial.variant == "nec_preset-paper"
    assert "--preset=paper" in trial.command()


def test_a_name_stands_for_the_only_variant():
    assert [t.variant for t in trials(settings=["horizon=10"], name="short")] == ["short"]
    with pytest.raises(UserError, match=r"this sweep has 2: nec, nec_horizon-10"):
        trials(settings=["horizon=100,10"], name="short")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"games": "pongg"}, "did you mean Pong"),
        ({"agents": "neck"}, "did you mean nec"),
        ({"agents": ""}, "no agent was given"),
        ({"seeds": "1-"}, "must be numbers and ranges"),
        ({"seeds": "a"}, "must be numbers and ranges"),
        ({"seeds": "5-1"}, "give the smaller number first"),
        ({"settings": ["horizon"]}, "must be name=value,value"),
        ({"settings": ["horizon=1,"]}, "must be name=value,value"),
        ({"settings": ["horizont=1"]}, "none of nec has such a setting"),
        ({"settings": ["horizon=ten"]}, "--set horizon must be of type int, not 'ten'"),
        ({"settings": ["horizon=0"]}, "horizon must be at least 1"),
        ({"settings": ["horizon=1", "horizon=2"]}, "given twice"),
        ({"settings": ["preset=nature"]}, "preset must be atari, small, paper"),
        ({"agents": "dqn", "settings": ["preset=paper"]}, "'dqn' has no preset 'paper'"),
    ],
)
def test_mistakes_are_found_before_anything_is_started(wrong, words):
    with pytest.raises(ValueError, match=words):
        trials(**wrong)


def test_seeds_are_numbers_and_ranges():
    assert parse_seeds("1-3,7,2") == [1, 2, 3, 7]
    for text in ("1-99999999999", "1-20000", "4294967296"):
        with pytest.raises(UserError, match="--seeds"):
            parse_seeds(text)
