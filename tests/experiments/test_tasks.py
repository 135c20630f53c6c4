import pytest

from nec_tf.experiments import tasks


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
