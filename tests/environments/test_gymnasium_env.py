import functools
import itertools

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from tf_agents.environments import tf_py_environment, utils
from tf_agents.specs import array_spec
from tf_agents.trajectories.time_step import StepType

from nec_tf.environments.gymnasium_env import GymnasiumEnvironment

FIRST, MID, LAST = int(StepType.FIRST), int(StepType.MID), int(StepType.LAST)


class Scripted(gymnasium.Env):
    """Plays a script of episodes, over and over.

    Args:
        script: For each episode its length in steps and how it ends: "terminated", "truncated" or
            "both".

    The observation is [episode number, steps taken in it, a random number drawn at reset], in one
    buffer that each step overwrites. The reward is 10 for each step taken plus the action.
    """

    observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float64)
    action_space = spaces.Discrete(4)
    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(self, *script, render_mode=None):
        self.script = itertools.cycle(script)
        self.buffer = np.array([-1.0, 0.0, 0.0])
        self.render_mode = render_mode
        self.closed = False

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.length, self.ending = next(self.script)
        self.buffer[:] = self.buffer[0] + 1, 0, self.np_random.random()
        return self.buffer, {"seed": seed}

    def step(self, action):
        assert isinstance(action, np.int64)
        assert self.buffer[1] < self.length, "stepped after the end"
        self.buffer[1] += 1
        end = self.buffer[1] == self.length
        terminated = bool(end and self.ending in ("terminated", "both"))
        truncated = bool(end and self.ending in ("truncated", "both"))
        info = {"action": int(action)}
        return self.buffer, float(10 * self.buffer[1] + action), terminated, truncated, info

    def render(self):
        return np.full((2, 5, 3), self.buffer[1], np.uint8)

    def close(self):
        self.closed = True


class Spaces(gymnasium.Env):
    """An environment of which only the spaces matter."""

    def __init__(self, observation_space=Scripted.observation_space, action_space=None):
        self.observation_space = observation_space
        self.action_space = action_space or spaces.Discrete(2)


def rollout(env, num_steps, action=0):
    """Returns the first time step and those of `num_steps` equal actions."""
    actions = np.full(env.batch_size, action, np.int64)
    return [env.reset()] + [env.step(actions) for _ in range(num_steps)]


def test_a_single_member_is_a_batch_of_one():
    env = GymnasiumEnvironment([Scripted((2, "terminated"))])
    assert env.batched
    assert env.batch_size == 1
    steps = rollout(env, 3, action=3)
    assert {step.observation.shape for step in steps} == {(1, 3)}
    assert [step.step_type[0] for step in steps] == [FIRST, MID, LAST, FIRST]
    assert [step.reward[0] for step in steps] == [0, 13, 23, 0]


@pytest.mark.parametrize(
    ("ending", "discount"), [("terminated", 0.0), ("truncated", 1.0), ("both", 0.0)]
)
def test_termination_and_truncation_are_told_apart(ending, discount):
    *_, last = rollout(GymnasiumEnvironment([Scripted((2, ending))]), 2)
    assert last.step_type.tolist() == [LAST]
    assert last.discount.tolist() == [discount]


def test_discount_is_that_of_steps_that_do_not_terminate():
    env = GymnasiumEnvironment([Scripted((2, "truncated"), (1, "terminated"))], discount=0.5)
    assert [step.discount[0] for step in rollout(env, 4)] == [1.0, 0.5, 0.5, 1.0, 0.0]


def test_each_member_is_reset_on_its_own():
    env = GymnasiumEnvironment([Scripted((2, "terminated")), Scripted((3, "truncated"))])
    steps = rollout(env, 7)
    assert [step.step_type[0] for step in steps] == [FIRST, MID, LAST, FIRST, MID, LAST, FIRST, MID]
    assert [step.step_type[1] for step in steps] == [FIRST, MID, MID, LAST, FIRST, MID, MID, LAST]
    episodes = [step.observation[:, 0].tolist() for step in steps]
    assert episodes == [[0, 0], [0, 0], [0, 0], [1, 0], [1, 1], [1, 1], [2, 1], [2, 1]]
    times = [step.observation[:, 1].tolist() for step in steps]
    assert times == [[0, 0], [1, 1], [2, 2], [0, 3], [1, 0], [2, 1], [0, 2], [1, 3]]
    rewards = [step.reward.tolist() for step in steps]
    assert rewards == [[10 * time for time in pair] for pair in times]
    assert [step.discount[0] for step in steps] == [1, 1, 0, 1, 1, 0, 1, 1]
    assert [step.discount[1] for step in steps] == [1] * 8


def test_each_member_gets_its_own_action():
    env = GymnasiumEnvironment([Scripted((9, "terminated")) for _ in range(3)])
    env.reset()
    assert env.step(np.array([2, 0, 3])).reward.tolist() == [12, 10, 13]
    assert [info["action"] for info in env.get_info()] == [2, 0, 3]


def test_members_that_are_stepped_one_by_one_do_what_they_do_together():
    def make():
        members = [Scripted((2, "terminated")), Scripted((3, "truncated"))]
        return GymnasiumEnvironment(members, seed=1)

    together, alone = make(), make()
    expected = rollout(together, 7, action=2)
    alone.reset()
    for member in (1, 0):  # one after the other has ended, in the other order
        for step in expected[1:]:
            taken = alone.step_member(member, np.array([2]))
            for got, wanted in zip(taken, step, strict=True):
                np.testing.assert_array_equal(got, wanted[member : member + 1])
                assert got.dtype == wanted.dtype
    for got, wanted in zip(alone.current_time_step(), expected[-1], strict=True):
        np.testing.assert_array_equal(got, wanted)
    with pytest.raises(ValueError, match="actions must be in"):
        alone.step_member(0, np.array([9]))


def test_a_member_given_as_a_function_can_be_built_again_elsewhere():
    scripted = functools.partial(Scripted, (2, "terminated"))
    env = GymnasiumEnvironment([scripted, scripted()], seed=1, discount=0.5)
    other = env.member_factory(0)()
    assert other.batch_size == 1
    assert [step.discount[0] for step in rollout(other, 2)] == [1.0, 0.5, 0.0]
    assert env.member_factory(1) is None


def test_seeds_that_were_taken_are_not_used_again():
    env = GymnasiumEnvironment([Scripted((2, "terminated")) for _ in range(2)])
    seeds = env.seed(3)
    assert tuple(env.take_seeds()) == seeds
    assert env.take_seeds() == [None, None]


def test_the_first_step_resets():
    env = GymnasiumEnvironment([Scripted((2, "terminated"))])
    assert env.step(np.array([1])).step_type.tolist() == [FIRST]


def test_reset_resets_all():
    env = GymnasiumEnvironment([Scripted((2, "terminated")), Scripted((5, "terminated"))])
    rollout(env, 2)
    step = env.reset()
    assert step.is_first().all()
    assert step.observation[:, :2].tolist() == [[1, 0], [1, 0]]


def test_arrays_are_never_overwritten():
    env = GymnasiumEnvironment([Scripted((2, "terminated")) for _ in range(2)])
    kept = []
    for step in (env.reset(), *(env.step(np.array([1, 2])) for _ in range(5))):
        kept.append((step, [array.copy() for array in step]))
    for step, copies in kept:
        for array, copy in zip(step, copies, strict=True):
            np.testing.assert_array_equal(array, copy)
    assert len({id(array) for step, _ in kept for array in step}) == 6 * 4


def random_numbers(seed, num_members=3, num_steps=5):
    env = GymnasiumEnvironment([Scripted((1, "terminated")) for _ in range(num_members)], seed=seed)
    return np.array([step.observation[:, 2] for step in rollout(env, num_steps)])[::2]


def test_seeds_repeat_and_members_and_episodes_differ():
    numbers = random_numbers(seed=7)
    np.testing.assert_array_equal(numbers, random_numbers(seed=7))
    assert len(set(numbers.ravel().tolist())) == 9  # 3 members x 3 episodes
    assert not np.isin(random_numbers(seed=8), numbers).any()
    assert not np.isin(random_numbers(seed=None), random_numbers(seed=None)).any()


def test_a_member_keeps_its_seed_when_others_join():
    np.testing.assert_array_equal(random_numbers(7, 1)[:, 0], random_numbers(7, 3)[:, 0])


def test_seed_counts_from_the_next_reset():
    env = GymnasiumEnvironment([Scripted((1, "terminated")) for _ in range(2)], seed=1)
    before = env.reset().observation[:, 2]
    seeds = env.seed(1)
    again = env.step(np.array([0, 0]))
    assert again.is_last().all()
    after = env.step(np.array([0, 0]))
    np.testing.assert_array_equal(before, after.observation[:, 2])
    assert tuple(info["seed"] for info in env.get_info()) == seeds
    env.reset()
    assert [info["seed"] for info in env.get_info()] == [None, None]


def test_specs_are_those_of_one_member():
    env = GymnasiumEnvironment([Scripted((1, "terminated")), Scripted((1, "terminated"))])
    limit = np.finfo(np.float32).max
    assert env.observation_spec() == array_spec.BoundedArraySpec((3,), np.float32, -limit, limit)
    assert env.action_spec() == array_spec.BoundedArraySpec((), np.int64, 0, 3)
    assert env.reward_spec().dtype == np.float32
    step = env.reset()
    assert step.observation.dtype == np.float32
    assert step.reward.dtype == np.float32
    assert step.discount.dtype == np.float32
    assert step.step_type.dtype == np.int32


def test_bounds_follow_the_box():
    box = spaces.Box(np.array([-1.0, -1e300]), np.array([2.5, np.inf]), dtype=np.float64)
    spec = GymnasiumEnvironment([Spaces(box)]).observation_spec()
    limit = np.finfo(np.float32).max
    np.testing.assert_array_equal(spec.minimum, np.array([-1, -limit], np.float32))
    np.testing.assert_array_equal(spec.maximum, np.array([2.5, limit], np.float32))
    spec = GymnasiumEnvironment(
        [Spaces(spaces.Box(0, 255, (4, 4, 2), np.uint8))]
    ).observation_spec()
    assert spec.dtype == np.uint8
    assert (spec.minimum, spec.maximum) == (0, 255)


@pytest.mark.parametrize("num_members", [1, 2])
def test_tf_agents_finds_it_valid(num_members):
    script = (3, "terminated"), (2, "truncated")
    utils.validate_py_environment(
        GymnasiumEnvironment([Scripted(*script) for _ in range(num_members)]), episodes=5
    )
    utils.validate_py_environment(
        GymnasiumEnvironment([lambda: gymnasium.make("CartPole-v1")] * num_members), episodes=5
    )


def test_works_under_tf_py_environment():
    members = [Scripted((2, "terminated")), Scripted((3, "truncated"))]
    env = tf_py_environment.TFPyEnvironment(GymnasiumEnvironment(members))
    assert env.batch_size == 2
    assert env.reset().observation.shape == (2, 3)
    step = tf.function(env.step)
    types = [step(tf.constant([0, 1], tf.int64)).step_type.numpy().tolist() for _ in range(3)]
    assert types == [[MID, MID], [LAST, MID], [FIRST, LAST]]


def test_factories_are_called_once_each():
    env = GymnasiumEnvironment([lambda: Scripted((1, "terminated"))] * 2)
    assert [type(member) for member in env.envs] == [Scripted, Scripted]
    assert env.envs[0] is not env.envs[1]


def test_members_are_rendered_and_closed():
    members = [Scripted((9, "terminated"), render_mode="rgb_array") for _ in range(2)]
    with GymnasiumEnvironment(members) as env:
        rollout(env, 4)
        image = env.render()
        assert image.shape == (2, 2, 5, 3)
        assert (image == 4).all()
        with pytest.raises(ValueError, match="only 'rgb_array'"):
            env.render("human")
    assert all(member.closed for member in members)
    with pytest.raises(ValueError, match="built with render_mode='rgb_array'"):
        GymnasiumEnvironment([Scripted((9, "terminated"))]).render()


def test_some_members_go_on_where_they_stood_and_the_others_are_closed():
    members = [Scripted((length, "terminated")) for length in (9, 2, 7)]
    env = GymnasiumEnvironment(members, seed=3)
    env.reset()
    env.step(np.array([0, 1, 2]))
    before = env.step(np.array([0, 1, 2]))
    kept = env.keep(np.array([0, 2]))
    assert [member.closed for member in members] == [False, True, False]
    assert env.batch_size == 2
    for one, other in zip(kept, before, strict=True):
        np.testing.assert_array_equal(one, other[[0, 2]])
    assert [info["action"] for info in env.get_info()] == [0, 2]
    after = env.step(np.array([3, 1]))
    np.testing.assert_array_equal(after.observation[:, 1], [3, 3])
    np.testing.assert_array_equal(after.reward, [33, 31])
    np.testing.assert_array_equal(after.step_type, [MID, MID])


@pytest.mark.parametrize(
    "action_space",
    [spaces.Box(-1, 1, (2,)), spaces.MultiDiscrete([2, 3]), spaces.Discrete(3, start=1)],
)
def test_other_actions_are_refused(action_space):
    with pytest.raises(ValueError, match="must be Discrete and start at 0"):
        GymnasiumEnvironment([Spaces(action_space=action_space)])


@pytest.mark.parametrize(
    "observation_space", [spaces.Dict(a=spaces.Box(0, 1, (2,))), spaces.Discrete(5)]
)
def test_other_observations_are_refused(observation_space):
    with pytest.raises(ValueError, match=r"must be a Box.*FlattenObservation"):
        GymnasiumEnvironment([Spaces(observation_space)])


@pytest.mark.parametrize(
    ("envs", "error", "message"),
    [
        ([], ValueError, "at least one"),
        (Spaces(), TypeError, "sequence of Gymnasium environments"),
        (["CartPole-v1"], TypeError, "not a gymnasium.Env"),
        ([lambda: None], TypeError, "not a gymnasium.Env"),
        ([Spaces()] * 2, ValueError, "twice"),
        ([Spaces(), Spaces(action_space=spaces.Discrete(3))], ValueError, "one action_space"),
        ([Spaces(), Spaces(spaces.Box(0, 1, (2,)))], ValueError, "one observation_space"),
    ],
)
def test_members_that_do_not_fit_are_refused(envs, error, message):
    with pytest.raises(error, match=message):
        GymnasiumEnvironment(envs)


def test_a_discount_out_of_range_is_refused():
    with pytest.raises(ValueError, match=r"discount must be in \[0, 1\]"):
        GymnasiumEnvironment([Spaces()], discount=1.5)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (np.array([0, -1]), r"in \[0, 3\], got \[0, -1\]"),
        (np.array([4, 0]), r"in \[0, 3\]"),
        (np.array([0]), r"shape \(2,\)"),
        (np.array(0), r"shape \(2,\)"),
        (np.array([0.0, 1.0]), "must be integers"),
    ],
)
def test_wrong_actions_are_refused(action, message):
    env = GymnasiumEnvironment([Scripted((9, "terminated")) for _ in range(2)])
    env.reset()
    with pytest.raises(ValueError, match=message):
        env.step(action)
