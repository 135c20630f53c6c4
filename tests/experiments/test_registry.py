import pytest

from nec_tf.experiments.registry import AGENTS, Learner, find_agent


def test_every_agent_has_what_the_loop_asks_for():
    asked = [name for name in vars(Learner) if not name.startswith("_")]
    for kind in AGENTS.values():
        assert all(hasattr(kind.learner, name) for name in asked)


def test_an_unknown_agent_gets_the_nearest_names():
    with pytest.raises(ValueError, match="did you mean nec"):
        find_agent("nce")
