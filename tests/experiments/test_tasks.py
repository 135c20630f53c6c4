import sys

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from nec_tf.experiments import tasks
from nec_tf.networks import encoders
from nec_tf.runtime.errors import UserError


@pytest.mark.parametrize(
    "task", [tasks.atari_task("Ms. Pac-Man", "machado"), tasks.gym_task("Acrobot-v1")]
)
def test_a_task_is_made_again_from_its_description(task):
    again = tasks.task_from(task.description)
    assert again.name == task.name
    assert again.description == task.description
    one, other = task.environment(1, 0), again.environment(1, 0)
    assert one.observation_spec() == other.observation_spec()
    assert one.action_spec() == other.action_spec()


def test_the_embedding_fits_the_observations():
    for task in (tasks.atari_task("pong"), tasks.gym_task("CartPole-v1")):
        observation = task.environment(2, 0).reset().observation
        assert task.make_embedding(7, 0)(observation).shape == (2, 7)


def lives_at_the_end(env):
    """Serves balls and lets them drop until the episode terminates."""
    env.reset(seed=0)
    while True:
        _, _, terminated, _, info = env.step(1)
        if terminated:
            return info["lives"]


def test_a_life_lost_ends_a_training_episode_only():
    task = tasks.atari_task("breakout")
    assert lives_at_the_end(task.make_env(False)) == 4
    assert lives_at_the_end(task.make_env(True)) == 0


def test_frames_are_counted_as_the_emulator_does():
    assert tasks.atari_task("pong").frames_per_step == 4
    assert tasks.gym_task("CartPole-v1").frames_per_step == 1


MODULE = """
import gymnasium
from gymnasium import spaces


class Observing(gymnasium.Env):
    action_space = spaces.Discrete(2)

    def __init__(self, space, action_space=action_space):
        self.observation_space, self.action_space = space, action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 0.0, False, False, {}


def register(name, **arguments):
    gymnasium.register(name, Observing, kwargs=arguments)


box = spaces.Box(-1, 1, (3,))
register("Discrete-v0", space=spaces.Discrete(5))
register("MultiDiscrete-v0", space=spaces.MultiDiscrete([2, 3]))
register("MultiBinary-v0", space=spaces.MultiBinary(4))
register("Dict-v0", space=spaces.Dict(a=box, b=spaces.Discrete(2)))
register("Tuple-v0", space=spaces.Tuple([box, spaces.Discrete(2)]))
register("Image-v0", space=spaces.Box(0, 255, (36, 40, 3), "uint8"))
register("Small-v0", space=spaces.Box(0, 255, (35, 40, 3), "uint8"))
register("Ram-v0", space=spaces.Box(0, 255, (16,), "uint8"))
register("Sequence-v0", space=spaces.Sequence(box))
register("Continuous-v0", space=box, action_space=spaces.Box(-1, 1, (1,)))
"""


@pytest.fixture(scope="module")
def own_environments(tmp_path_factory):
    folder = tmp_path_factory.mktemp("modules")
    (folder / "observing.py").write_text(MODULE)
    (folder / "broken.py").write_text("import no_such_package\n")
    sys.path.append(str(folder))
    yield
    sys.path.remove(str(folder))


@pytest.mark.parametrize(
    ("kind", "size"),
    [("Discrete", 5), ("MultiDiscrete", 5), ("MultiBinary", 4), ("Dict", 5), ("Tuple", 5)],
)
def test_observations_that_are_no_box_are_flattened_to_float_vectors(own_environments, kind, size):
    task = tasks.gym_task(f"observing:{kind}-v0")
    assert task.name == f"observing-{kind.lower()}-v0"
    assert not task.renders
    environment = task.environment(2, 0)
    assert environment.observation_spec().shape == (size,)
    observation = environment.reset().observation
    assert observation.dtype == np.float32
    assert task.make_embedding(7, 0)(observation).shape == (2, 7)
    assert tasks.task_from(task.description).description == {"env": f"observing:{kind}-v0"}


def test_a_discrete_observation_is_one_hot():
    task = tasks.gym_task("FrozenLake-v1")
    np.testing.assert_array_equal(task.environment(1, 0).reset().observation, np.eye(16)[:1])


@pytest.mark.parametrize(
    ("env", "asked", "network"),
    [
        ("Image", "auto", "nature_dqn"),
        ("Image", "cnn", "nature_dqn"),
        ("Image", "mlp", "mlp"),
        ("Small", "auto", "mlp"),
        ("Ram", "auto", "mlp"),
        ("Dict", "auto", "mlp"),
    ],
)
def test_the_encoder_fits_the_observations_and_scales_pixels(own_environments, env, asked, network):
    task = tasks.gym_task(f"observing:{env}-v0", asked)
    embedding = task.make_embedding(7, 0)
    assert embedding.name == network
    assert (encoders.pixels_of(embedding) is None) == (env == "Dict")
    observation = task.environment(1, 0).reset().observation
    again = tasks.task_from(task.description).make_embedding(7, 0)
    np.testing.assert_array_equal(embedding(observation), again(observation))
    assert embedding(observation).shape == (1, 7)


def test_a_run_that_recorded_no_encoder_reads_pixels_as_it_did(own_environments):
    task = tasks.task_from({"env": "observing:Image-v0"})
    assert task.description == {"env": "observing:Image-v0"}
    assert task.make_embedding(7, 0).name == "mlp"
    assert encoders.pixels_of(task.make_embedding(7, 0)) is None


@pytest.mark.parametrize(
    ("env", "encoder", "message"),
    [
        ("no_such_module:Mine-v0", "auto", "there is no module 'no_such_module'"),
        ("../envs:Mine-v0", "auto", "'../envs' is not the name of a module"),
        (".:Mine-v0", "auto", "'.' is not the name of a module"),
        ("observing:Imag-v0", "auto", "did you mean Image-v0"),
        ("CartPol-v1", "auto", "did you mean CartPole-v1"),
        ("Pendulum-v1", "auto", "must be Discrete and start at 0"),
        ("observing:Continuous-v0", "auto", "must be Discrete and start at 0"),
        ("observing:Sequence-v0", "auto", "observation space .* is not supported"),
        (
            "observing:Small-v0",
            "cnn",
            r"at least 36 x 36, but observations are uint8 \[35, 40, 3\]",
        ),
        ("CartPole-v1", "cnn", r"float32 \[4\]: use 'mlp'"),
        ("CartPole-v1", "resnet", "encoder must be auto, cnn, mlp"),
    ],
)
def test_what_is_not_supported_is_refused_with_a_reason(own_environments, env, encoder, message):
    with pytest.raises(UserError, match=message):
        tasks.gym_task(env, encoder)


def test_a_bug_in_a_module_of_the_user_keeps_its_traceback(own_environments):
    with pytest.raises(ModuleNotFoundError, match="no_such_package"):
        tasks.gym_task("broken:Mine-v0")


@pytest.mark.parametrize(
    ("name", "description"),
    [
        ("Frostbite", {"game": "frostbite", "protocol": "paper"}),
        ("ALE/MsPacman-v5", {"game": "ms_pacman", "protocol": "paper"}),
        ("CartPole-v1", {"env": "CartPole-v1"}),
    ],
)
def test_a_name_is_an_atari_game_or_a_gymnasium_id(name, description):
    assert tasks.find_task(name).description == description


@pytest.mark.parametrize(("name", "near"), [("Frostbit", "Frostbite"), ("cartpole", "CartPole-v1")])
def test_a_wrong_name_gets_the_nearest_of_both_kinds(name, near):
    with pytest.raises(UserError, match=f"did you mean .*{near}"):
        tasks.find_task(name)


def test_an_option_of_the_other_kind_is_refused():
    with pytest.raises(UserError, match="encoder cannot be set for Pong"):
        tasks.find_task("Pong", encoder="cnn")
    assert tasks.find_task("Pong", protocol="machado").description["protocol"] == "machado"


class ListsRendering(gymnasium.Env):
    """Lists a render mode that its constructor does not take."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012
    observation_space = spaces.Box(0, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self):
        pass


def test_an_environment_that_takes_no_render_mode_is_played_without_videos():
    gymnasium.register("ListsRendering-v0", ListsRendering)
    try:
        assert not tasks.gym_task("ListsRendering-v0").renders
    finally:
        del gymnasium.registry["ListsRendering-v0"]
