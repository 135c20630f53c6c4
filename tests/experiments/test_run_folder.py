import csv
import errno

import numpy as np
import pytest
import tensorflow as tf

from nec_tf.experiments.run_folder import MetricsLog, RunFolder
from nec_tf.runtime.errors import DamagedCheckpoint, UserError

CONFIG = {"task": "pong", "frames": 100, "alpha": 0.1}


def checkpoint(number):
    return tf.train.Checkpoint(number=tf.Variable(float(number)))


def save(folder, number, best=False):
    folder.save_checkpoint(
        number, checkpoint(number), {"array": np.arange(number)}, {"episodes": 7}, best
    )


def load(folder):
    restored = checkpoint(0)
    arrays, progress = folder.load_checkpoint(restored)
    return float(restored.number), arrays["array"].tolist(), progress


def test_the_newest_checkpoint_comes_back(tmp_path):
    folder = RunFolder(tmp_path, CONFIG)
    assert folder.load_checkpoint(checkpoint(0)) is None
    for number in (3, 9, 12):
        save(folder, number)
    assert load(RunFolder(tmp_path, CONFIG)) == (12, list(range(12)), {"episodes": 7, "frames": 12})


def test_two_checkpoints_are_kept(tmp_path):
    folder = RunFolder(tmp_path, CONFIG)
    for number in (3, 9, 12):
        save(folder, number)
    names = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert names == ["frames-0000000009", "frames-0000000012"]


def best(folder):
    restored = checkpoint(0)
    saved = folder.load_checkpoint(restored, "best")
    return saved and float(restored.number)


def test_the_checkpoint_of_the_best_evaluation_is_kept_beside_the_newest(tmp_path):
    folder = RunFolder(tmp_path, CONFIG)
    assert best(folder) is None
    for number in (3, 9, 12, 15, 18):
        save(folder, number, best=number in (3, 9))
    assert best(folder) == 9
    assert load(folder)[0] == 18
    names = sorted(path.name for path in (tmp_path / "checkpoints" / "best").iterdir())
    assert names == ["frames-0000000009"]


def test_the_best_checkpoint_shares_its_files_with_the_newest(tmp_path):
    folder = RunFolder(tmp_path, CONFIG)
    save(folder, 3, best=True)
    kept, newest = (
        tmp_path / "checkpoints" / place / "frames-0000000003" / "arrays.npz"
        for place in ("best", ".")
    )
    assert kept.samefile(newest)


def test_a_best_evaluation_between_two_checkpoints_gets_one_of_its_own(tmp_path):
    folder = RunFolder(tmp_path, CONFIG)
    save(folder, 3, best=True)
    folder.save_best(5, checkpoint(5), {"array": np.arange(5)}, {})
    assert best(folder) == 5
    assert load(folder)[0] == 3
    save(folder, 9)
    assert best(folder) == 5
    assert len(list((tmp_path / "checkpoints" / "best").iterdir())) == 1


def test_the_best_of_a_lost_session_is_dropped_and_the_one_before_comes_back(tmp_path):
    folder = RunFolder(tmp_path, CONFIG)
    save(folder, 3, best=True)
    folder.save_best(5, checkpoint(5), {"array": np.arange(5)}, {})
    folder.drop_bests_after(3)
    assert best(folder) == 3


def test_a_full_disk_leaves_the_checkpoint_before_whole(tmp_path, monkeypatch):
    folder = RunFolder(tmp_path, CONFIG)
    save(folder, 3)

    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(DamagedCheckpoint, match=r"No space left.*the one before is whole"):
        save(folder, 9)
    monkeypatch.undo()
    assert load(folder)[0] == 3
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["frames-0000000003"]


@pytest.mark.parametrize("file", ["model.data-00000-of-00001", "arrays.npz", "progress.json"])
@pytest.mark.parametrize("harm", ["cut", "removed", "flipped"])
def test_a_damaged_checkpoint_is_named(tmp_path, file, harm):
    folder = RunFolder(tmp_path, CONFIG)
    save(folder, 50)
    path = tmp_path / "checkpoints" / "frames-0000000050" / file
    content = path.read_bytes()
    if harm == "removed":
        path.unlink()
    elif harm == "cut":
        path.write_bytes(content[: len(content) // 2])
    else:
        middle = len(content) // 2
        path.write_bytes(content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :])
    with pytest.raises(DamagedCheckpoint, match="frames-0000000050 is damaged"):
        load(folder)


def test_another_configuration_is_refused_with_its_differences(tmp_path):
    RunFolder(tmp_path, CONFIG)
    with pytest.raises(UserError, match=r"alpha was 0.1 and is now 0.2.*task was 'pong'"):
        RunFolder(tmp_path, CONFIG | {"alpha": 0.2, "task": "alien"})


def test_more_frames_are_the_same_configuration(tmp_path):
    RunFolder(tmp_path, CONFIG)
    RunFolder(tmp_path, CONFIG | {"frames": 200})
    RunFolder(tmp_path, CONFIG)


def test_a_setting_that_came_later_and_is_left_alone_is_no_difference(tmp_path):
    RunFolder(tmp_path, CONFIG)
    RunFolder(tmp_path, {**CONFIG, "init_memory": ""})
    with pytest.raises(UserError, match="init_memory"):
        RunFolder(tmp_path, {**CONFIG, "init_memory": "exported"})


def test_an_unreadable_configuration_is_named(tmp_path):
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(UserError, match=r"config\.json"):
        RunFolder(tmp_path, CONFIG)


def read(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def test_metrics_are_rows_with_blanks_for_what_is_not_known(tmp_path):
    log = MetricsLog(tmp_path, ("loss", "eval_mean"), 0)
    log.write(10, {"loss": 0.5})
    log.write(20, {"loss": 0.25, "eval_mean": 3.0}, frames_per_second=7.0)
    assert read(tmp_path / "metrics.csv") == [
        {"frames": "10", "loss": "0.5", "eval_mean": ""},
        {"frames": "20", "loss": "0.25", "eval_mean": "3.0"},
    ]
    assert list((tmp_path / "events").glob("events*"))


def test_rows_after_the_checkpoint_are_dropped_when_a_run_resumes(tmp_path):
    log = MetricsLog(tmp_path, ("loss",), 0)
    for frames in (10, 20, 30):
        log.write(frames, {"loss": 1.0})
    MetricsLog(tmp_path, ("loss",), 20).write(25, {"loss": 2.0})
    assert [row["frames"] for row in read(tmp_path / "metrics.csv")] == ["10", "20", "25"]
