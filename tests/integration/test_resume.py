"""Exact stop and resume of runs; exports of agents without a memory. A3C: tests/agents/a3c."""

import shutil

import numpy as np
import pytest
import tensorflow as tf

from nec_tf.agents.dqn.config import DqnConfig
from nec_tf.agents.dqn.learner import DqnLearner
from nec_tf.agents.lambda_returns.config import QStarLambdaConfig, RetraceLambdaConfig
from nec_tf.agents.mfec.config import MfecConfig, MfecVaeConfig
from nec_tf.agents.nec.config import NecLearnerConfig
from nec_tf.agents.prioritised.config import PrioritisedConfig
from nec_tf.experiments.exporting import export_run
from nec_tf.experiments.loop import Experiment
from nec_tf.experiments.run import Run
from nec_tf.experiments.settings import Settings
from nec_tf.experiments.tasks import gym_task

FRAMES = 600
SMALL = {"learning_starts": 100, "replay_capacity": 400, "target_period": 20, "epsilon_until": 900}
CONFIGS = {
    "dqn": DqnConfig.small(**SMALL),
    "prioritised": PrioritisedConfig.small(**SMALL, importance_until=1_000),
    "q_star_lambda": QStarLambdaConfig.small(**SMALL),
    "retrace_lambda": RetraceLambdaConfig.small(**SMALL),
}
REMEMBERING = {
    "nec": NecLearnerConfig.small(
        learning_starts=100, replay_capacity=400, capacity=300, epsilon_until=900, horizon=20
    ),
    "nec_bfloat16": NecLearnerConfig.small(
        learning_starts=100,
        replay_capacity=400,
        capacity=300,
        epsilon_until=900,
        horizon=20,
        precision="bfloat16",
    ),
    "mfec": MfecConfig.small(capacity=300, epsilon_until=900),
    "mfec_vae": MfecVaeConfig.small(
        capacity=300, vae_steps=200, vae_updates=5, epsilon_from=200, epsilon_until=900
    ),
}


def settings(agent, frames):
    return Settings(
        agent=agent,
        frames=frames,
        seed=3,
        num_envs=2,
        eval_every_frames=300,
        eval_episodes=2,
        checkpoint_every_frames=1_000_000,
        log_every_frames=100,
        video=False,
    )


def drop_what_no_checkpoint_has(learner):
    """Unfinished episodes, and the loss of updates that were finished for the checkpoint."""
    learner.metrics()
    if hasattr(learner, "window"):
        learner.window = learner.new_window()
    else:
        learner.replay.end_streams()


@pytest.mark.parametrize("agent", CONFIGS | REMEMBERING)
def test_stop_and_resume_is_exact(agent, tmp_path):
    task, config = gym_task("CartPole-v1"), (CONFIGS | REMEMBERING)[agent]
    agent = agent.removesuffix("_bfloat16")
    run = Run(tmp_path / "went_on", task, settings(agent, FRAMES), config)
    Experiment(run).run()
    shutil.copytree(tmp_path / "went_on", tmp_path / "resumed")
    stopped_at = (tmp_path / "resumed" / "metrics.csv").read_bytes()

    # The first goes on with all that it has in memory. Like a resumed run it begins new episodes.
    drop_what_no_checkpoint_has(run.learner)
    run.environment.seed(run.seed_for("train"))
    run.settings = settings(agent, 2 * FRAMES)
    Experiment(run).run()

    resumed = Run(tmp_path / "resumed", task, run.settings, config)
    assert resumed.resumed
    Experiment(resumed).run()
    logs = [(tmp_path / name / "metrics.csv").read_bytes() for name in ("went_on", "resumed")]
    assert logs[0] == logs[1]
    assert len(logs[0]) > 1.5 * len(stopped_at)


def test_the_test_above_sees_a_forgotten_state(tmp_path, monkeypatch):
    """Without the random state of the minibatches, the logs differ."""
    restore = DqnLearner.restore_arrays

    def forgetful(learner, arrays):
        kept = learner._rng.bit_generator.state
        restore(learner, arrays)
        learner._rng.bit_generator.state = kept

    monkeypatch.setattr(DqnLearner, "restore_arrays", forgetful)
    with pytest.raises(AssertionError):
        test_stop_and_resume_is_exact("dqn", tmp_path)


@pytest.mark.parametrize("agent", CONFIGS)
def test_an_export_acts_greedily_by_the_network(agent, tmp_path):
    run = Run(tmp_path / "run", gym_task("CartPole-v1"), settings(agent, 150), CONFIGS[agent])
    Experiment(run).run()
    loaded = tf.saved_model.load(str(export_run(run, tmp_path / "export")))
    states = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    served = loaded.signatures["serving_default"](observation=tf.constant(states))
    q = run.learner.agent._q_network(states)[0].numpy()
    np.testing.assert_allclose(served["q_values"], q, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(served["action"], q.argmax(axis=1))
    assert "action" in loaded.signatures
