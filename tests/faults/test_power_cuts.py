"""Power cuts of a run that saves all the time: each is resumed, and no row is lost."""

import json
import random
import signal
import time

import numpy as np
import pytest
from faults import power, runs
from tf_agents.specs import array_spec
from tf_agents.trajectories.time_step import time_step_spec

import nec_tf
from nec_tf.serving import checking, memory_files

pytestmark = pytest.mark.skipif(
    not power.available(), reason="mounting images needs root and loop devices"
)
CUTS = 20 if runs.LONG else 3


def test_a_run_survives_power_cuts(tmp_path):
    rng = random.Random(1)
    disk = power.Disk(tmp_path / "disk")
    with disk.mounted() as place:
        process = runs.start(place / "run", 10_000_000)
        try:
            runs.wait_for_checkpoint(place / "run", process)
            for cut in range(CUTS):
                time.sleep(rng.uniform(0.3, 1.5))
                process.send_signal(signal.SIGSTOP)  # nothing is written while the disk is copied
                with disk.after_a_cut(cut) as left:
                    before = runs.rows(place / "run")
                    process.send_signal(signal.SIGCONT)
                    done = runs.finish(left / "run", 1)  # loads what is there, and is at its end
                    assert done.returncode == 0, done.stderr
                    after = runs.rows(left / "run")
                    reached = int(after[-1]["frames"])
                    # At most two checkpoints of 100 frames and the steps between are lost.
                    assert reached > int(before[-1]["frames"]) - 300
                    assert after == [row for row in before if int(row["frames"]) <= reached]
        finally:
            process.kill()
            process.wait()


def test_an_export_survives_a_power_cut(tmp_path):
    agent = nec_tf.NecAgent(
        time_step_spec(array_spec.ArraySpec([4], np.float32)),
        array_spec.BoundedArraySpec([], np.int64, 0, 1),
        nec_tf.encoders.mlp([4], key_size=8, seed=1),
        nec_tf.NecConfig.small(key_size=8),
    )
    states = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    agent.dnd.write([0, 1] * 10, agent.embedding(states), np.arange(20.0), np.arange(20))
    disk = power.Disk(tmp_path / "disk")
    with disk.mounted() as place:
        version = nec_tf.export(agent, place / "exported", states)
        with disk.after_a_cut(0) as left:
            copy = left / "exported" / version.name
            assert "answers as it did" in checking.check(copy)
            assert len(memory_files.load(left / "exported" / "memory")) == 20
            assert json.loads((copy / "export.json").read_text())["version"] == 1
