"""Memory files with right checksums and wrong content: refused before anything is changed."""

import os

import numpy as np
import pytest
from faults.memory_damage import describe, edit, load, make_memory, rewrite

from nec_tf.runtime.errors import UserError
from nec_tf.serving import memory_files


@pytest.fixture
def folder(tmp_path):
    """The files of a memory of 40 entries, two actions, keys of 3 numbers."""
    return make_memory(tmp_path / "memory")


def with_value(value, place=3):
    def change(array):
        array = array.copy()
        array.reshape(-1)[place] = value
        return array

    return change


def test_the_files_load_as_they_are(folder):
    load(folder)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("keys", with_value(np.nan)),
        ("keys", with_value(np.inf)),
        ("keys", with_value(3e38)),  # its squared distances are not finite
        ("keys", lambda keys: with_value(1e300)(keys.astype(np.float64))),
        ("keys", lambda keys: keys.astype(np.complex64)),
        ("keys", lambda keys: keys[:, :2]),
        ("keys", lambda keys: np.pad(keys, ((0, 0), (0, 1)))),
        ("keys", lambda keys: keys.reshape(-1)),
        ("keys", lambda keys: keys[:-1]),
        ("keys", lambda keys: keys.astype(str)),
        ("values", with_value(np.nan)),
        ("values", with_value(-np.inf)),
        ("values", lambda values: with_value(1e300)(values.astype(np.float64))),
        ("values", lambda values: values[:, None]),
        ("values", lambda values: np.append(values, 1.0)),
        ("values", lambda values: values.astype(np.int64)),
        ("actions", with_value(-1, place=0)),
        ("actions", with_value(2, place=-1)),
        ("actions", with_value(10**9, place=-1)),
        ("actions", lambda actions: actions.astype(np.uint64)),
        ("actions", lambda actions: actions[::-1]),
        ("actions", lambda actions: actions.astype(np.float32)),
        ("counts", with_value(19, place=0)),
        ("counts", lambda counts: counts[:1]),
        ("state_ids", lambda ids: ids.astype(np.float64)),
        ("state_ids", lambda ids: ids[:5]),
        ("state_ids", lambda ids: ids.astype(np.uint64)),
        ("ages", with_value(2**63 - 1)),
        ("ages", lambda ages: ages.astype(np.uint64)),
        ("ages", with_value(-4)),
        ("ages", lambda ages: ages[None]),
        ("encoder/00", with_value(np.nan)),
        ("encoder/00", lambda weights: weights.T),
        ("encoder/01", lambda weights: weights + 1),
    ],
)
def test_wrong_columns_are_refused(folder, name, change):
    rewrite(folder, name, change)
    with pytest.raises(UserError):
        load(folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda manifest: [],
        lambda manifest: {"format": 1},
        lambda manifest: manifest.update(entries=41),
        lambda manifest: manifest.update(entries="40"),
        lambda manifest: manifest.update(entries=40.0),
        lambda manifest: manifest.update(format=True),
        lambda manifest: manifest["columns"]["keys"].update(shape="text"),
        lambda manifest: manifest["columns"]["keys"].update(shape=[-40, 3]),
        lambda manifest: manifest["columns"]["keys"].update(dtype="no dtype"),
        lambda manifest: manifest.update(encoder="0" * 64),
        lambda manifest: manifest.update(columns=[]),
        lambda manifest: manifest.update(configuration=None),
        lambda manifest: manifest.pop("source"),
        lambda manifest: manifest["columns"].pop("ages"),
        lambda manifest: manifest["columns"].pop("counts"),
        lambda manifest: manifest["columns"]["keys"].pop("sha256"),
        lambda manifest: manifest["columns"]["keys"].update(shape=[20, 6]),
        lambda manifest: manifest["configuration"].update(num_actions=10**9),
        lambda manifest: manifest["configuration"].update(num_actions=2.0),
        lambda manifest: manifest["configuration"].update(key_size=0),
    ],
)
def test_wrong_manifests_are_refused(folder, change):
    edit(folder, change)
    with pytest.raises(UserError):
        load(folder)


@pytest.mark.parametrize("name", ["../keys", "/etc/passwd", "encoder/../keys", "keys\n", "other"])
def test_columns_outside_of_the_folder_are_refused(folder, name):
    edit(folder, lambda manifest: manifest["columns"].update({name: manifest["columns"]["keys"]}))
    with pytest.raises(UserError, match="unknown column"):
        load(folder)


@pytest.mark.parametrize("name", ["keys.npy", "manifest.json"])
@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_regular_file_is_refused(folder, name, kind):
    path = folder / name
    content = path.read_bytes()
    path.unlink()
    if kind == "link":
        (folder.parent / name).write_bytes(content)
        path.symlink_to(folder.parent / name)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    with pytest.raises(UserError, match="regular file"):
        load(folder)


@pytest.mark.parametrize("content", [b"", b"[" * 100_000, b"\xff\xfe", b"{}"])
def test_manifests_that_are_no_manifests_are_refused(folder, content):
    (folder / "manifest.json").write_bytes(content)
    with pytest.raises(UserError, match=r"manifest\.json"):
        load(folder)


@pytest.mark.parametrize("change", [with_value(3e38), lambda w: with_value(1e300)(w.astype(float))])
def test_weights_that_make_no_finite_keys_are_refused(folder, change):
    rewrite(folder, "encoder/00", change)
    weights = [np.load(path) for path in sorted((folder / "encoder").glob("*.npy"))]
    own = memory_files.fingerprint(weights)
    edit(folder, lambda manifest: manifest.update(encoder=own))
    with pytest.raises(UserError, match="weights 0 of the network"):
        load(folder)


def test_an_archive_in_the_place_of_an_array_is_refused(folder):
    values = np.load(folder / "values.npy")
    with (folder / "values.npy").open("wb") as file:
        np.savez_compressed(file, values=values[:1])
    about = describe(folder / "values.npy", values)
    edit(folder, lambda manifest: manifest["columns"].update(values=about))
    with pytest.raises(UserError, match="archive"):
        load(folder)


def test_a_file_that_is_far_too_large_is_refused_without_being_read(folder):
    with (folder / "keys.npy").open("r+b") as file:
        file.truncate(1 << 40)  # a sparse file: its checksum would take an hour
    with pytest.raises(UserError, match=r"keys\.npy is larger than"):
        load(folder)
