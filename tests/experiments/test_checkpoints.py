"""Checkpoints are whole or not there; damage is found, named, and the one before is used."""

import errno
import json
import os
import shutil

import numpy as np
import pytest
import tensorflow as tf

from nec_tf.experiments.checkpoints import Checkpoints, State
from nec_tf.runtime.errors import DamagedCheckpoint


def checkpoint(number):
    return tf.train.Checkpoint(number=tf.Variable(float(number)))


def state(number):
    return State(number, checkpoint(number), {"array": np.arange(number)}, {"episodes": 7})


def save(folder, number, best=False):
    folder.save(state(number), best)


def both(arrays, progress):
    return arrays, progress


def load(folder):
    restored = checkpoint(0)
    arrays, progress = folder.load(restored, both)
    return float(restored.number), arrays["array"].tolist(), progress


def test_the_newest_checkpoint_comes_back(tmp_path):
    folder = Checkpoints(tmp_path)
    assert folder.load(checkpoint(0), both) is None
    for number in (3, 9, 12):
        save(folder, number)
    assert load(Checkpoints(tmp_path)) == (12, list(range(12)), {"episodes": 7, "frames": 12})


def test_two_checkpoints_are_kept(tmp_path):
    folder = Checkpoints(tmp_path)
    for number in (3, 9, 12):
        save(folder, number)
    names = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert names == ["frames-0000000009", "frames-0000000012"]


def best(folder):
    restored = checkpoint(0)
    saved = folder.load(restored, both, "best")
    return saved and float(restored.number)


def test_the_checkpoint_of_the_best_evaluation_is_kept_beside_the_newest(tmp_path):
    folder = Checkpoints(tmp_path)
    assert best(folder) is None
    for number in (3, 9, 12, 15, 18):
        save(folder, number, best=number in (3, 9))
    assert best(folder) == 9
    assert load(folder)[0] == 18
    names = sorted(path.name for path in (tmp_path / "checkpoints" / "best").iterdir())
    assert names == ["frames-0000000009"]


def test_the_best_checkpoint_shares_its_files_with_the_newest(tmp_path):
    folder = Checkpoints(tmp_path)
    save(folder, 3, best=True)
    kept, newest = (
        tmp_path / "checkpoints" / place / "frames-0000000003" / "arrays.npz"
        for place in ("best", ".")
    )
    assert kept.samefile(newest)


def test_a_best_evaluation_between_two_checkpoints_gets_one_of_its_own(tmp_path):
    folder = Checkpoints(tmp_path)
    save(folder, 3, best=True)
    folder.save_best(state(5))
    assert best(folder) == 5
    assert load(folder)[0] == 3
    save(folder, 9)
    assert best(folder) == 5
    assert len(list((tmp_path / "checkpoints" / "best").iterdir())) == 1


def test_the_best_of_a_lost_session_is_dropped_and_the_one_before_comes_back(tmp_path):
    folder = Checkpoints(tmp_path)
    save(folder, 3, best=True)
    folder.save_best(state(5))
    folder.drop_bests_after(3)
    assert best(folder) == 3


def test_a_full_disk_leaves_the_checkpoint_before_whole(tmp_path, monkeypatch):
    folder = Checkpoints(tmp_path)
    save(folder, 3)

    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(DamagedCheckpoint, match=r"No space left.*the one before is whole"):
        save(folder, 9)
    monkeypatch.undo()
    assert load(folder)[0] == 3
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["frames-0000000003"]


def harm(path, how):
    content = path.read_bytes()
    middle = len(content) // 2
    if how == "removed":
        path.unlink()
    elif how == "emptied":
        path.write_bytes(b"")
    elif how == "cut":
        path.write_bytes(content[:middle])
    else:
        path.write_bytes(content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :])


FILES = (
    "model.data-00000-of-00001",
    "model.index",
    "arrays.npz",
    "progress.json",
    "manifest.json",
)


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("how", ["cut", "emptied", "flipped"])
def test_a_damaged_checkpoint_is_named_and_the_one_before_is_used(tmp_path, caplog, file, how):
    folder = Checkpoints(tmp_path)
    save(folder, 40)
    save(folder, 50)
    harm(tmp_path / "checkpoints" / "frames-0000000050" / file, how)
    assert load(folder)[0] == 40
    assert "frames-0000000050 is damaged" in caplog.text
    harm(tmp_path / "checkpoints" / "frames-0000000040" / file, how)
    with pytest.raises(DamagedCheckpoint, match="frames-0000000040 is damaged"):
        load(folder)


@pytest.mark.parametrize("file", FILES)
def test_a_missing_file_is_damage(tmp_path, file):
    folder = Checkpoints(tmp_path)
    save(folder, 50)
    harm(tmp_path / "checkpoints" / "frames-0000000050" / file, "removed")
    with pytest.raises(DamagedCheckpoint, match="frames-0000000050 is damaged"):
        load(folder)


def test_files_of_two_checkpoints_are_not_mixed(tmp_path):
    folder = Checkpoints(tmp_path)
    save(folder, 40)
    save(folder, 50)
    places = [tmp_path / "checkpoints" / f"frames-00000000{n}" / "arrays.npz" for n in (40, 50)]
    places[1].write_bytes(places[0].read_bytes())
    assert load(folder)[0] == 40


def test_what_cannot_be_restored_is_damage(tmp_path):
    """Arrays or progress that another version wrote, or that lack what is needed."""
    folder = Checkpoints(tmp_path)
    save(folder, 50)
    for error in (KeyError("rng"), TypeError("unexpected keyword"), ValueError("shape")):

        def refuse(arrays, progress, error=error):
            raise error

        with pytest.raises(DamagedCheckpoint, match="frames-0000000050"):
            folder.load(checkpoint(0), refuse)


def test_a_checkpoint_without_a_manifest_is_of_an_older_version_and_loads(tmp_path):
    folder = Checkpoints(tmp_path)
    save(folder, 50)
    saved = tmp_path / "checkpoints" / "frames-0000000050"
    (saved / "manifest.json").unlink()
    progress = json.loads((saved / "progress.json").read_text())
    del progress["manifest"]
    (saved / "progress.json").write_text(json.dumps(progress))
    assert load(folder)[0] == 50


@pytest.mark.parametrize("manifest", ["{}", "[]", "null", "7", "[" * 100_000, '{"arrays.npz": 1}'])
def test_a_manifest_that_is_none_is_damage(tmp_path, manifest):
    folder = Checkpoints(tmp_path)
    save(folder, 50)
    (tmp_path / "checkpoints" / "frames-0000000050" / "manifest.json").write_text(manifest)
    with pytest.raises(DamagedCheckpoint, match="frames-0000000050 is damaged"):
        load(folder)


def test_a_file_that_the_manifest_does_not_name_is_damage(tmp_path):
    folder = Checkpoints(tmp_path)
    save(folder, 40)
    save(folder, 50)
    before, saved = (tmp_path / "checkpoints" / f"frames-00000000{n}" for n in (40, 50))
    manifest = json.loads((saved / "manifest.json").read_text())
    del manifest["arrays.npz"]
    (saved / "manifest.json").write_text(json.dumps(manifest))
    (saved / "arrays.npz").write_bytes((before / "arrays.npz").read_bytes())
    assert load(folder)[0] == 40


def test_a_damaged_best_checkpoint_says_that_the_newest_may_be_whole(tmp_path):
    folder = Checkpoints(tmp_path)
    save(folder, 50, best=True)
    save(folder, 60)
    harm(tmp_path / "checkpoints" / "best" / "frames-0000000050" / "arrays.npz", "removed")
    with pytest.raises(DamagedCheckpoint, match="--checkpoint=newest"):
        best(folder)


def test_a_checkpoint_that_a_training_process_replaces_while_it_is_read_is_not_damage(
    tmp_path, caplog
):
    folder = Checkpoints(tmp_path)
    save(folder, 40)
    restored, first = checkpoint(0), True

    def replace_then_restore(arrays, progress):
        nonlocal first
        if first:
            first = False
            save(folder, 50)
            save(folder, 60)  # removes 40
            raise FileNotFoundError
        return progress["frames"]

    assert folder.load(restored, replace_then_restore) == 60
    assert "damaged" not in caplog.text


def test_a_kill_while_a_frame_number_is_saved_again_leaves_a_whole_checkpoint(
    tmp_path, monkeypatch
):
    """At every operation on the way: what has the name of a checkpoint is whole."""
    folder = Checkpoints(tmp_path)
    save(folder, 50, best=True)
    operations = (("os", "rename"), ("shutil", "rmtree"), ("os", "fsync"))

    class Killed(BaseException):
        pass

    survived = 0
    for stop_at in range(40):
        count = 0

        def counted(function, stop_at=stop_at):
            def call(*arguments, **keywords):
                nonlocal count
                count += 1
                if count > stop_at:
                    raise Killed
                return function(*arguments, **keywords)

            return call

        with monkeypatch.context() as patch:
            for module, name in operations:
                own = {"os": os, "shutil": shutil}[module]
                patch.setattr(own, name, counted(getattr(own, name)))
            try:
                save(folder, 50, best=True)
                survived += 1
            except Killed:
                pass
        assert load(folder)[0] == 50
        assert best(folder) == 50
    assert 0 < survived < 40
