"""NaN in training ends a run in a sentence, and the checkpoint from before it is whole."""

import dataclasses

import numpy as np
import pytest

from nec_tf.experiments.loop import Experiment
from nec_tf.experiments.registry import AGENTS, make_config
from nec_tf.experiments.run import Run, load_trained_run
from nec_tf.experiments.settings import Settings
from nec_tf.experiments.tasks import gym_task
from nec_tf.runtime.errors import Diverged

SETTINGS = Settings.preset(
    "small",
    frames=2_000,
    eval_every_frames=10_000,
    eval_episodes=1,
    checkpoint_every_frames=100,
    log_every_frames=50,
    video=False,
)
SMALL = {"learning_starts": 40, "replay_capacity": 500, "batch_size": 8, "vae_steps": 300}


def run_of(agent, folder):
    names = {field.name for field in dataclasses.fields(AGENTS[agent].config)}
    config = make_config(agent, "small", **{k: v for k, v in SMALL.items() if k in names})
    settings = dataclasses.replace(SETTINGS, agent=agent)
    return Run(folder, gym_task("CartPole-v1"), settings, config)


def networks(run):
    return [part for part in run.learner.trackables().values() if hasattr(part, "layers")]


@pytest.mark.parametrize("agent", ["nec", "dqn", "prioritised", "retrace_lambda", "a3c"])
def test_a_run_that_diverges_keeps_the_checkpoint_from_before(agent, tmp_path, monkeypatch):
    run = run_of(agent, tmp_path)
    original = Run.save

    def save_then_damage(self, best=False):
        original(self, best)
        if self.progress.frames > 200:
            for network in networks(self):
                network.set_weights([np.full_like(w, np.nan) for w in network.get_weights()])

    monkeypatch.setattr(Run, "save", save_then_damage)
    with pytest.raises(Diverged) as caught:
        Experiment(run).run()
    (note,) = caught.value.__notes__
    assert "learning_rate (now" in note
    newest = sorted((tmp_path / "checkpoints").glob("frames-*"))[-1]
    assert str(newest) in note
    monkeypatch.undo()
    loaded = load_trained_run(tmp_path)
    assert loaded.progress.frames < 500
    for network in networks(loaded):
        assert all(np.isfinite(weights).all() for weights in network.get_weights())


def test_weights_that_are_not_finite_are_not_saved(tmp_path):
    run = run_of("nec", tmp_path)
    network = run.learner.agent.online_network
    network.set_weights([np.full_like(w, np.inf) for w in network.get_weights()])
    with pytest.raises(Diverged, match="holds NaN or infinity"):
        run.save()
    assert not list(tmp_path.glob("checkpoints/*"))
