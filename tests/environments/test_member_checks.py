import gymnasium
import numpy as np
import pytest
from small_environments import Counting

from nec_tf.environments.gymnasium_env import GymnasiumEnvironment
from nec_tf.runtime.errors import UserError


class Broken(Counting):
    """Does something wrong at the second step of the second episode."""

    def __init__(self, wrong):
        super().__init__(3)
        self._wrong, self._episodes = wrong, 0

    def reset(self, **arguments):
        self._episodes += 1
        return super().reset(**arguments)

    def step(self, action):
        result = super().step(action)
        return self._wrong(*result) if (self._episodes, self._t) == (2, 2) else result


def play(wrong):
    environment = GymnasiumEnvironment([Counting(3), Broken(wrong)], seed=1)
    environment.reset()
    for _ in range(10):
        environment.step(np.zeros(2, int))


def crash(*_):
    raise KeyError("of the environment")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda o, r, *rest: (o, float("nan"), *rest), "the reward nan"),
        (lambda o, r, *rest: (o, np.inf, *rest), "the reward inf"),
        (lambda o, r, *rest: (o, None, *rest), "the reward None"),
        (lambda o, r, *rest: (o, 1e31, *rest), "the reward 1e.31"),
        (lambda o, r, *rest: (o, 10**400, *rest), "the reward 1000"),
        (lambda o, r, *rest: (o, "1", *rest), "the reward '1'"),
        (lambda o, r, *rest: (np.zeros(2, np.float32), r, *rest), r"shape \[2\]"),
        (lambda o, r, *rest: (np.float32(1.0), r, *rest), r"shape \[\]"),
        (lambda o, r, *rest: (np.full(1, np.nan, np.float32), r, *rest), "not finite"),
    ],
)
def test_what_an_environment_returns_is_checked_and_the_message_says_where(wrong, message):
    with pytest.raises(UserError, match=rf"Broken \(episode 2, step 2, member 1\).*{message}"):
        play(wrong)


def test_a_crash_keeps_its_type_and_gets_a_note():
    with pytest.raises(KeyError) as caught:
        play(crash)
    assert caught.value.__notes__ == [
        "This is an error of the environment Broken (episode 2, step 2, member 1)."
    ]


@pytest.mark.parametrize("kind", [SystemExit, GeneratorExit])
def test_an_environment_cannot_end_the_program(kind):
    """The run would not be saved."""

    def leave(*_):
        raise kind

    with pytest.raises(RuntimeError, match="Broken ended the program") as caught:
        play(leave)
    assert "Broken (episode 2, step 2, member 1)" in caught.value.__notes__[0]


def test_an_end_that_is_no_truth_value_gets_a_note():
    with pytest.raises(ValueError, match="ambiguous") as caught:
        play(lambda o, r, ended, *rest: (o, r, np.zeros(2, bool), *rest))
    assert "Broken (episode 2, step 2, member 1)" in caught.value.__notes__[0]


def test_whole_numbers_are_not_rounded_from_others():
    class Screens(Counting):
        observation_space = gymnasium.spaces.Box(0, 255, (1,), np.uint8)

    environment = GymnasiumEnvironment([Screens(3)], seed=1)
    with pytest.raises(UserError, match="dtype float32; its observation_space says uint8"):
        environment.reset()


def test_the_id_of_a_registered_environment_is_named():
    environment = GymnasiumEnvironment([gymnasium.make("CartPole-v1")], seed=1)
    environment.reset()
    assert environment._members[0].where == "CartPole-v1 (episode 1, step 0)"
