import dataclasses
import json

import numpy as np
import pytest
from memories import entries, fill, make_dnd

from nec_tf.networks.encoders import mlp
from nec_tf.serving import memory_files
from nec_tf.serving.memory_files import MemoryFilesError


def make_memory(seed=0, count=10, source="a"):
    dnd = make_dnd(recognise_by_key=False, dtype="float32")
    fill(dnd, count, seed)
    return memory_files.of_layer(dnd, mlp((5,), 3, seed=1), {"run_dir": source}), dnd


def test_what_is_saved_is_loaded(tmp_path):
    memory, _ = make_memory()
    memory_files.save(memory, tmp_path / "memory")
    loaded = memory_files.load(tmp_path / "memory")
    for name in ("keys", "values", "actions", "state_ids", "ages"):
        np.testing.assert_array_equal(getattr(loaded.entries, name), getattr(memory.entries, name))
    for mine, theirs in zip(loaded.encoder, memory.encoder, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert loaded.about == memory.about


def test_the_manifest_says_what_is_there(tmp_path):
    memory, _ = make_memory()
    memory_files.save(memory, tmp_path / "memory")
    manifest = json.loads((tmp_path / "memory" / "manifest.json").read_text())
    assert manifest["entries"] == 20
    assert manifest["source"] == {"run_dir": "a"}
    assert manifest["configuration"]["key_size"] == 3
    assert manifest["columns"]["keys"]["shape"] == [20, 3]
    counts = np.load(tmp_path / "memory" / "counts.npy", mmap_mode="r", allow_pickle=False)
    assert counts.tolist() == [10, 10]


def test_a_layer_that_is_filled_answers_like_the_first(tmp_path):
    memory, first = make_memory()
    memory_files.save(memory, tmp_path / "memory")
    second = make_dnd(recognise_by_key=False, dtype="float32")
    fill(second, 3, seed=9)
    embedding = mlp((5,), 3, seed=2)
    memory_files.fill_layer(memory_files.load(tmp_path / "memory"), second, embedding)
    assert entries(second) == entries(first)
    queries = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    np.testing.assert_allclose(second(queries), first(queries), rtol=1e-5)
    np.testing.assert_array_equal(embedding.get_weights()[0], memory.encoder[0])


def test_a_filled_layer_evicts_in_the_order_of_the_first():
    memory, first = make_memory()
    first = make_dnd(recognise_by_key=False, dtype="float32", capacity=10)
    fill(first, 10)
    first(np.zeros((1, 3), np.float32))  # four of each action are used now
    memory = memory_files.of_layer(first, mlp((5,), 3), {})
    second = make_dnd(recognise_by_key=False, dtype="float32", capacity=10)
    memory_files.fill_layer(memory, second, mlp((5,), 3))
    for dnd in (first, second):
        fill(dnd, 6, seed=5)
    assert [sorted(own) for own in entries(first)] == [sorted(own) for own in entries(second)]


@pytest.mark.parametrize("damage", ["missing", "changed", "format", "manifest", "no manifest"])
def test_damage_is_told(tmp_path, damage):
    folder = tmp_path / "memory"
    memory_files.save(make_memory()[0], folder)
    manifest = folder / "manifest.json"
    if damage == "missing":
        (folder / "values.npy").unlink()
    elif damage == "changed":
        content = bytearray((folder / "keys.npy").read_bytes())
        content[-1] ^= 1
        (folder / "keys.npy").write_bytes(content)
    elif damage == "format":
        manifest.write_text(manifest.read_text().replace('"format": 1', '"format": 99'))
    elif damage == "manifest":
        manifest.write_text("{")
    else:
        manifest.unlink()
    message = {
        "missing": "values.npy is missing",
        "changed": "keys.npy is damaged",
        "format": "format 99",
        "manifest": "cannot be read",
        "no manifest": "no manifest.json",
    }[damage]
    with pytest.raises(MemoryFilesError, match=message):
        memory_files.load(folder)


@pytest.mark.parametrize(
    ("arguments", "key_size", "message"),
    [
        ({"num_actions": 3}, 3, "num_actions=2, but the agent has 3"),
        ({"key_size": 4}, 4, "key_size=3, but the agent has 4"),
        ({"recognise_by_key": True}, 3, "recognise_by_key"),
        ({}, 4, "of another network"),
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(arguments, key_size, message):
    memory, _ = make_memory()
    dnd = make_dnd(**{"recognise_by_key": False, "dtype": "float32"} | arguments)
    embedding = mlp((5,), key_size, seed=2)
    before = embedding.get_weights()
    with pytest.raises(MemoryFilesError, match=message):
        memory_files.fill_layer(memory, dnd, embedding)
    assert dnd.sizes.sum() == 0
    np.testing.assert_array_equal(embedding.get_weights()[0], before[0])


def test_merging_keeps_the_newest_within_capacity():
    old, _ = make_memory(0, source="old")
    new, _ = make_memory(1, source="new")
    old.entries = dataclasses.replace(old.entries, ages=old.entries.ages + 100)
    merged = memory_files.merge([old, new], capacity=13)
    assert merged.counts().tolist() == [13, 13]
    assert merged.about["source"] == {"merged": [{"run_dir": "old"}, {"run_dir": "new"}]}
    for action in (0, 1):
        kept = merged.entries.ages[merged.entries.actions == action]
        both = (old.entries, new.entries)
        every = np.sort(np.concatenate([e.ages[e.actions == action] for e in both]))
        np.testing.assert_array_equal(np.sort(kept), every[:13])


def test_a_state_that_several_know_is_taken_from_where_it_was_used_last():
    first, second = make_memory(0)[0], make_memory(0)[0]
    one = first.entries
    other = second.entries = dataclasses.replace(
        second.entries,
        values=second.entries.values + 1,
        ages=one.ages + np.resize([1, -1], len(one)),
    )
    merged = memory_files.merge([first, second], capacity=100)
    assert len(merged) == len(first)
    newest = np.where(other.ages < one.ages, other.values, one.values)
    np.testing.assert_allclose(np.sort(merged.entries.values), np.sort(newest))


def test_memories_of_different_networks_do_not_merge():
    first, second = make_memory(0)[0], make_memory(1)[0]
    second.encoder = [weights + 1 for weights in second.encoder]
    with pytest.raises(MemoryFilesError, match=r"different networks.*name one of them"):
        memory_files.merge([first, second], capacity=100)
