"""metrics.csv after a crash: whole rows are kept, the rest is dropped with a warning."""

import pytest

from nec_tf.experiments.metrics_log import MetricsLog

COLUMNS = ("loss", "eval_mean")
ROWS = b"frames,loss,eval_mean\r\n500,1.5,\r\n1040,1.25,3.0\r\n1540,1.0,\r\n"


def reopened(tmp_path, content, frames=10_000):
    path = tmp_path / "metrics.csv"
    path.write_bytes(content)
    MetricsLog(tmp_path, COLUMNS, frames)
    return path.read_bytes()


def test_a_whole_file_stays_as_it_is(tmp_path, caplog):
    assert reopened(tmp_path, ROWS) == ROWS
    assert caplog.text == ""


def test_the_line_ends_of_an_editor_are_no_damage(tmp_path, caplog):
    assert reopened(tmp_path, ROWS.replace(b"\r\n", b"\n")) == ROWS
    assert caplog.text == ""


def test_rows_after_the_checkpoint_are_dropped(tmp_path):
    assert reopened(tmp_path, ROWS, frames=1040) == ROWS[: ROWS.index(b"1540")]


@pytest.mark.parametrize(
    "end",
    [
        b"\0" * 40,
        b"\0" * 40 + b"\r\n",
        b"15",  # cut inside of 1540
        b"2040,0.5",
        b"2040,0.5\r\n",
        b"2040,0.5,1.0,7.0\r\n",
        b"1540,1.0,\r\n",  # doubled
        b"1000,1.0,\r\n",  # out of order
        b"\xff\xfe,,\r\n",
        b"-5,1.0,\r\n",
        b"1e4,1.0,\r\n",
        b"2040,0.5x,1.0\r\n",
        b"2040,\0\0\0,1.0\r\n",
        b"2040,0.\r5,1.0\r\n",  # a line break inside of a row
    ],
)
def test_unreadable_rows_at_the_end_are_dropped_with_a_warning(tmp_path, caplog, end):
    assert reopened(tmp_path, ROWS + end) == ROWS
    assert "unreadable" in caplog.text


def test_a_file_of_nothing_but_zeros_is_started_again(tmp_path):
    assert reopened(tmp_path, b"\0" * 100) == ROWS[: ROWS.index(b"500")]


def test_columns_whose_names_are_unknown_are_dropped_with_a_warning(tmp_path, caplog):
    changed = ROWS.replace(b"eval_mean", b"eval_meam")
    assert reopened(tmp_path, changed) == ROWS.replace(b"3.0", b"")
    assert "columns with unknown names were dropped: ['eval_meam']" in caplog.text
