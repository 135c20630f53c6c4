"""Small runs to watch."""

from pathlib import Path

import pytest

from nec_tf.experiments.viewer import watching

OLD = Path(__file__).parents[2] / "data" / "run-4b4e278"  # 600 steps of CartPole


@pytest.fixture(scope="module")
def nec():
    """A run of NEC, opened for watching."""
    watched = watching.watch_run(OLD / "nec", "newest", seed=1)
    watched.replay.wait()
    yield watched
    watched.close()
