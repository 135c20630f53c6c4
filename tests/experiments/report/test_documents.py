import pytest

from nec_tf.experiments.report import documents, tables
from nec_tf.runtime.errors import UserError

TABLE = tables.Table("summary-0", "Two words", [tables.text("a", "A")], [{"a": 1}])
TEXT = """before
<!-- report:summary -->
old | words
<!-- /report -->
between
<!-- report:curves.png -->
<!-- /report -->
after
"""


@pytest.fixture
def picture(tmp_path):
    path = tmp_path / "made" / "curves.png"
    path.parent.mkdir()
    path.write_bytes(b"png")
    return path


def test_what_stands_between_markers_is_replaced_and_nothing_else(tmp_path, picture):
    document = tmp_path / "docs" / "results.md"
    document.parent.mkdir()
    document.write_text(TEXT)
    written = documents.update([document], [TABLE], [picture], tmp_path / "docs" / "report")
    expected = TEXT.replace("old | words\n", "Two words.\n\n| A |\n| --- |\n| 1 |\n").replace(
        "curves.png -->\n", "curves.png -->\n![Curves](report/curves.png)\n"
    )
    assert document.read_text() == expected
    assert written == [tmp_path / "docs" / "report" / "curves.png", document]
    assert (tmp_path / "docs" / "report" / "curves.png").read_bytes() == b"png"
    again = documents.update([document], [TABLE], [picture], tmp_path / "docs" / "report")
    assert document.read_text() == expected
    assert document not in again


def test_a_marker_of_an_unknown_name_is_refused(tmp_path):
    document = tmp_path / "README.md"
    document.write_text(TEXT)
    with pytest.raises(UserError, match=r"asks for report:curves.png; this report has summary"):
        documents.update([document], [TABLE], [], tmp_path)
    assert document.read_text() == TEXT
