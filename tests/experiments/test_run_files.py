"""What reads the folder of a run: damage is a sentence."""

import json

import pytest

from nec_tf.experiments.run_files import read_config, read_metrics
from nec_tf.runtime.errors import UserError

CONFIG = {"env": "CartPole-v1", "agent": "nec", "seed": 1, "frames": 400, "eval_episodes": 2}


@pytest.mark.parametrize(
    "change",
    [
        {"env": 3},
        {"game": 7},
        {"agent": None},
        {"seed": None},
        {"seed": "1"},
        {"seed": True},
        {"frames": "many"},
        {"eval_episodes": [2]},
    ],
)
def test_a_configuration_with_settings_of_other_types_is_damaged(tmp_path, change):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    assert read_config(tmp_path) == CONFIG
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | change))
    with pytest.raises(UserError, match="is damaged"):
        read_config(tmp_path)


ROWS = b"frames,loss,eval_mean\r\n500,1.5,\r\n1040,1.25,3.0\r\n"


@pytest.mark.parametrize(
    "row", [b"x,1,2", b"2000,1,abc", b"2000,1", b"2000,1,2,3", b"\0\0", b"7,,"]
)
def test_an_unreadable_row_of_the_metrics_is_damage(tmp_path, row):
    (tmp_path / "metrics.csv").write_bytes(ROWS + row + b"\r\n")
    with pytest.raises(UserError, match="is damaged after row 2: resume the run"):
        read_metrics(tmp_path)


def test_a_row_that_is_being_written_is_left_out(tmp_path):
    (tmp_path / "metrics.csv").write_bytes(ROWS + b"15")
    assert [row["frames"] for row in read_metrics(tmp_path)] == ["500", "1040"]
