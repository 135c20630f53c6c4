"""Metrics are shown in TensorBoard, and in Weights & Biases if asked for; no number depends on it.

wandb is not in the lock: a module that records calls stands in its place. docs/watch.md says what
was run with the package itself.
"""

import json
import sys
import types

import pytest
import tensorflow as tf

import nec_tf
from nec_tf.runtime.errors import UserError

SMALL = dict(
    eval_every_frames=100, eval_episodes=1, log_every_frames=50, learning_starts=50, video=False
)


class FakeWandb(types.ModuleType):
    """Records the calls that `Wandb` makes."""

    class errors:
        class Error(Exception):
            pass

    def __init__(self, refuses=False):
        super().__init__("wandb")
        self.begun, self.logged, self.defined, self.finished = [], [], [], 0
        self._refuses = refuses

    def init(self, **arguments):
        if self._refuses:
            raise self.errors.Error("no API key")
        self.begun.append(arguments)
        return self

    def define_metric(self, name, step_metric=None):
        self.defined.append((name, step_metric))

    def log(self, metrics):
        self.logged.append(metrics)

    def finish(self):
        self.finished += 1


def train(folder, frames=100, **settings):
    return nec_tf.train("CartPole-v1", frames, run_dir=folder, **SMALL, **settings)


def test_wandb_gets_the_metrics_of_the_file_and_changes_none(tmp_path, monkeypatch):
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    train(tmp_path / "plain")
    assert fake.begun == [], "it is not used unless asked for"
    train(tmp_path / "with", wandb=True)
    plain, shown = ((tmp_path / name / "metrics.csv").read_bytes() for name in ("plain", "with"))
    assert plain == shown
    [begun] = fake.begun
    assert begun["name"] == "with"
    assert begun["config"]["env"] == "CartPole-v1"
    assert ("*", "frames") in fake.defined
    frames = [int(row.split(",")[0]) for row in shown.decode().split("\r\n")[1:-1]]
    assert [metrics["frames"] for metrics in fake.logged] == frames
    assert {"evaluation/eval_mean", "memory/memory"} <= {*fake.logged[-1]}
    assert fake.finished == 1


def test_a_run_resumes_with_or_without_wandb_as_the_same_wandb_run(tmp_path, monkeypatch):
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    train(tmp_path, wandb=True)
    train(tmp_path, 150)
    train(tmp_path, 200, wandb=True)
    first, second = fake.begun
    assert first["id"] == second["id"]
    assert second["resume"] == "allow"
    assert min(metrics["frames"] for metrics in fake.logged[-1:]) >= 150
    assert json.loads((tmp_path / "config.json").read_text())["wandb"] is True


def test_without_the_package_or_a_login_there_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)  # as if it were not installed
    with pytest.raises(UserError, match=r"not installed: pip install 'nec_tf\[wandb\]'"):
        train(tmp_path / "run", wandb=True)
    assert not (tmp_path / "run" / "config.json").exists()
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "wandb", FakeWandb(refuses=True))
    with pytest.raises(UserError, match=r"could not begin: no API key.*WANDB_MODE=offline"):
        train(tmp_path / "run", wandb=True)


def test_tensorboard_shows_the_metrics_of_the_file(tmp_path):
    train(tmp_path)
    names = set()
    for path in (tmp_path / "events").iterdir():
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            names |= {value.tag for value in event.summary.value}
    assert {"evaluation/eval_mean", "memory/memory", "speed/frames_per_second"} <= names
