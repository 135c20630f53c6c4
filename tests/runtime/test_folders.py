import os

import pytest

from nec_tf.runtime.errors import UserError
from nec_tf.runtime.folders import require_local_folder


@pytest.mark.parametrize(
    "path",
    ["", " ", "gs://bucket/run", "hdfs://x", "/etc/passwd", "/etc/passwd/run", "/tmp/" + 300 * "a"],
)
def test_what_cannot_be_a_local_folder_is_refused(path):
    with pytest.raises(UserError, match="run_dir"):
        require_local_folder("run_dir", path)


def test_links_to_nothing_and_bytes_that_are_no_text_are_refused(tmp_path):
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing" / "folder")
    for path in ("circle", "circle/run", "nowhere", "nowhere/run", os.fsdecode(b"\xffrun")):
        with pytest.raises(UserError, match="run_dir must be"):
            require_local_folder("run_dir", tmp_path / path)


def test_old_and_new_folders_are_accepted(tmp_path):
    require_local_folder("run_dir", tmp_path)
    require_local_folder("run_dir", tmp_path / "a:b" / "c")
