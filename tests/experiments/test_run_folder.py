import pytest

from nec_tf.experiments.run_folder import RunFolder
from nec_tf.runtime.errors import UserError

CONFIG = {"task": "pong", "frames": 100, "alpha": 0.1}


def begun(path, config=CONFIG):
    folder = RunFolder(path, config)
    folder.write_config()
    (path / "metrics.csv").write_text("frames,loss\r\n50,1.0\r\n", newline="")
    return folder


@pytest.mark.parametrize("metrics", [None, "", "frames,loss\r\n"])
def test_the_configuration_of_a_run_that_never_trained_may_be_replaced(tmp_path, metrics):
    RunFolder(tmp_path, CONFIG).write_config()
    if metrics is not None:
        (tmp_path / "metrics.csv").write_text(metrics, newline="")
    RunFolder(tmp_path, CONFIG | {"alpha": 0.2}).write_config()
    (tmp_path / "checkpoints" / "frames-0000000000").mkdir(parents=True)
    with pytest.raises(UserError, match=r"alpha was 0.2 and is now 0.1"):
        RunFolder(tmp_path, CONFIG)


def test_opening_a_folder_writes_nothing(tmp_path):
    RunFolder(tmp_path / "run", CONFIG)
    assert not (tmp_path / "run").exists()


def test_another_configuration_is_refused_with_its_differences(tmp_path):
    begun(tmp_path)
    with pytest.raises(UserError, match=r"alpha was 0.1 and is now 0.2.*task was 'pong'"):
        RunFolder(tmp_path, CONFIG | {"alpha": 0.2, "task": "alien"})


def test_more_frames_are_the_same_configuration(tmp_path):
    begun(tmp_path)
    begun(tmp_path, CONFIG | {"frames": 200})
    begun(tmp_path)


def test_a_setting_that_came_later_and_is_left_alone_is_no_difference(tmp_path):
    begun(tmp_path)
    RunFolder(tmp_path, {**CONFIG, "init_memory": ""})
    with pytest.raises(UserError, match="init_memory"):
        RunFolder(tmp_path, {**CONFIG, "init_memory": "exported"})


def test_a_run_from_before_the_precision_was_recorded_used_float32(tmp_path):
    begun(tmp_path)
    RunFolder(tmp_path, {**CONFIG, "precision": "float32"})
    with pytest.raises(UserError, match="precision was 'float32' and is now 'bfloat16'"):
        RunFolder(tmp_path, {**CONFIG, "precision": "bfloat16"})


@pytest.mark.parametrize("content", ["", "{", "[]", "[" * 100_000])
def test_an_unreadable_configuration_is_named(tmp_path, content):
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(UserError, match=r"config\.json"):
        RunFolder(tmp_path, CONFIG)
