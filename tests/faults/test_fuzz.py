"""Random nonsense: refused with a `UserError`, or accepted because it is valid; nothing else.

`make fuzz` tries 10,000 pieces and 200 damaged files; `make test` fewer, with the same seeds.
"""

import dataclasses
import json
import math
import os
import random
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from faults import runs
from faults.memory_damage import edit, load, make_memory, rewrite
from small_environments import Counting

from nec_tf.environments.gymnasium_env import GymnasiumEnvironment
from nec_tf.experiments.checkpoints import Checkpoints, State
from nec_tf.experiments.metrics_log import MetricsLog
from nec_tf.experiments.registry import AGENTS, make_config
from nec_tf.experiments.settings import Settings
from nec_tf.runtime.errors import DamagedCheckpoint, UserError
from nec_tf.serving import memory_files

PIECES = int(os.environ.get("NEC_TF_FUZZ", "400"))
FILES = 200 if PIECES >= 10_000 else 30
COLUMNS = ("keys", "values", "actions", "counts", "state_ids", "ages", "encoder/00")
NUMBERS = (0, 1, -1, 2, 7, 50, 10**6, 2**31, 2**53, 2**63, 10**20, -(10**20))
FLOATS = (0.0, -0.0, 0.5, 1.0, -1.0, 2.0, 1e-320, 1e308, math.nan, math.inf, -math.inf)
TEXTS = ("", "nec", "linear", "power", "exact", "scann", "\0", "../..", "ä" * 300, "{}", "nan")
JUNK = (None, True, [], {}, [1], {"a": 1}, *NUMBERS, *TEXTS, 0.5, -2.5)


def random_of(rng, kind):
    choices = {bool: (True, False), int: NUMBERS, float: FLOATS, str: TEXTS}
    return rng.choice(JUNK if rng.random() < 0.1 else choices[kind])


def fits(value, kind):
    return type(value) is kind or (kind is float and type(value) is int)


def fields_of(config):
    return {field.name: type(field.default) for field in dataclasses.fields(config)}


def test_flags():
    attack = "from faults import flag_attack; flag_attack.main()"
    done = subprocess.run(
        [sys.executable, "-c", attack, str(PIECES // 8)],
        env={**runs.environment(), "PYTHONPATH": f"{runs.ROOT}:{runs.ROOT / 'tests'}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["wrong"] == []
    assert found["accepted"] + found["refused"] == PIECES // 8
    assert found["accepted"]


def test_settings():
    rng, accepted = random.Random(1), 0
    run_kinds = {field.name: field.type for field in dataclasses.fields(Settings)}
    for _ in range(PIECES // 8):
        agent = rng.choice([*AGENTS])
        kinds = fields_of(AGENTS[agent].config)
        given = {name: random_of(rng, kinds[name]) for name in rng.sample([*kinds], 2)}
        of_run = rng.sample([name for name in run_kinds if name != "agent"], 1)
        try:
            config = make_config(agent, "small", **given)
            of_run = {name: random_of(rng, run_kinds[name]) for name in of_run}
            settings = Settings.preset("small", **of_run)
        except UserError:
            continue
        accepted += 1
        for made in (config, settings):
            for field in dataclasses.fields(made):
                value = getattr(made, field.name)
                assert fits(value, field.type), (given, of_run)
                assert field.type is str or math.isfinite(value), (given, of_run)
    assert 0 < accepted < PIECES // 8


@pytest.fixture
def folder(tmp_path):
    return make_memory(tmp_path / "memory")


def copies(folder, count):
    """Yields a fresh copy of a folder, `count` times."""
    for _ in range(count):
        copy = folder.parent / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy)
        yield copy


def spoil(rng, node):
    """Replaces, adds or removes something in a tree of dictionaries."""
    while True:
        name = rng.choice([*node])
        if isinstance(node[name], dict) and node[name] and rng.random() < 0.7:
            node = node[name]
            continue
        action = rng.randrange(3)
        if action == 0:
            del node[name]
        else:
            node[name if action == 1 else rng.choice(TEXTS)] = rng.choice(JUNK)
        return


def test_manifests(folder):
    rng, refused = random.Random(2), 0
    original = memory_files.load(folder)
    for copy in copies(folder, PIECES // 4):
        edit(copy, lambda manifest: spoil(rng, manifest))
        text = (copy / "manifest.json").read_text()
        try:
            loaded = memory_files.load(copy)
            load(copy)
        except UserError:
            refused += 1
            continue
        for name in ("actions", "keys", "values", "state_ids"):
            got, wanted = getattr(loaded.entries, name), getattr(original.entries, name)
            np.testing.assert_array_equal(got, wanted, err_msg=text)
    assert refused > PIECES // 16


@np.errstate(over="ignore")  # numbers that do not fit are what is tried
def spoiled(rng, array):
    kind = rng.randrange(5)
    if kind == 0:
        changed = array.copy()
        value = rng.choice(FLOATS) if array.dtype.kind == "f" else rng.choice((-1, 2, 10**9))
        changed.reshape(-1)[rng.randrange(array.size)] = value
        return changed
    if kind == 1:
        return array.astype(rng.choice([np.int8, np.float16, np.float64, np.complex64, "U5", bool]))
    if kind == 2:
        return array[: rng.randrange(len(array))]
    if kind == 3:
        return array.reshape(rng.choice([(-1,), (1, -1), (-1, 1, 1)]))
    return np.concatenate([array, array])


def test_arrays(folder):
    rng = random.Random(3)
    for copy in copies(folder, PIECES // 4):
        name = rng.choice(COLUMNS)
        rewrite(copy, name, lambda array: spoiled(rng, array))
        try:
            load(copy)
        except UserError:
            continue
        loaded = memory_files.load(copy).entries
        assert np.isfinite(loaded.keys).all()
        assert np.isfinite(loaded.values).all()
        assert loaded.keys.shape == (40, 3)


def test_observations_and_rewards():
    rng, refused = random.Random(4), 0
    arrays = [np.array(f, np.float64) for f in FLOATS] + [np.zeros(s) for s in (0, 1, 2, (1, 1))]
    things = [*FLOATS, *arrays, None, "text", [], [0.5], [0.5, 1.0], {}, np.array(["a"])]

    class Fuzzed(Counting):
        def step(self, action):
            return *given, False, False, {}

    environment = GymnasiumEnvironment([Fuzzed(10)], seed=1)
    environment.reset()
    for _ in range(PIECES // 4):
        given = rng.choice([*things, np.zeros(1, np.float32)]), rng.choice([*things, 1.0])
        try:
            step = environment.step(np.zeros(1, int))
        except UserError:
            refused += 1
            continue
        assert np.isfinite(step.observation).all()
        assert np.isfinite(step.reward).all()
        assert step.observation.shape == (1, 1)
    assert refused


def damage(rng, path):
    content = bytearray(path.read_bytes())
    kind = rng.randrange(4)
    if kind == 0 or not content:
        path.unlink()
    elif kind == 1:
        path.write_bytes(content[: rng.randrange(len(content))])
    elif kind == 2:
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        path.write_bytes(content)
    else:
        path.write_bytes(rng.randbytes(len(content)))


def test_damaged_checkpoints(tmp_path):
    rng = random.Random(5)
    whole = tmp_path / "run"
    variable = tf.Variable(tf.zeros([50]))
    state = tf.train.Checkpoint(variable=variable)
    for frames in (100, 200):
        variable.assign(tf.fill([50], float(frames)))
        arrays = {"steps": np.full(20, frames)}
        Checkpoints(whole).save(State(frames, state, arrays, {"handled_frames": frames}))
    for copy in copies(whole, FILES // 2):
        files = sorted((copy / "checkpoints/frames-0000000200").iterdir())
        damage(rng, rng.choice(files))
        frames, steps = Checkpoints(copy).load(
            state, lambda arrays, progress: (progress["frames"], arrays["steps"])
        )
        assert frames in (100, 200)
        assert (variable.numpy() == frames).all()  # 200 only if nothing that is read was damaged
        assert (steps == frames).all()
    shutil.rmtree(whole / "checkpoints/frames-0000000100")
    (whole / "checkpoints/frames-0000000200/arrays.npz").write_bytes(b"")
    with pytest.raises(DamagedCheckpoint):
        Checkpoints(whole).load(state, lambda arrays, progress: None)


def test_damaged_memories_and_metrics(folder, tmp_path):
    rng = random.Random(6)
    original = memory_files.load(folder)
    for copy in copies(folder, FILES // 4):
        damage(rng, rng.choice(sorted(path for path in copy.rglob("*") if path.is_file())))
        try:
            loaded = memory_files.load(copy)
        except UserError:
            continue
        np.testing.assert_array_equal(loaded.entries.keys, original.entries.keys)
        np.testing.assert_array_equal(loaded.entries.values, original.entries.values)
    log = tmp_path / "log"
    log.mkdir()
    for _ in range(FILES - 3 * (FILES // 4)):
        (log / "metrics.csv").unlink(missing_ok=True)
        metrics = MetricsLog(log, ("loss",), 0)
        for frames in range(10, 200, 10):
            metrics.write(frames, {"loss": 1.0})
        damage(rng, log / "metrics.csv")
        MetricsLog(log, ("loss",), 200).write(210, {"loss": 2.0})
        rows = (log / "metrics.csv").read_text().splitlines()
        assert rows[0] == "frames,loss"
        frames = [int(row.split(",")[0]) for row in rows[1:]]
        assert frames == sorted(set(frames))
        assert json.loads(rows[-1].split(",")[1]) == 2.0
