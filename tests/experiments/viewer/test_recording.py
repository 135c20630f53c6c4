import imageio.v2 as imageio
import numpy as np
import pytest

from nec_tf.experiments.viewer import recording
from nec_tf.runtime.errors import UserError


def test_a_film_shows_each_moment_of_an_episode(nec, tmp_path):
    nec.session.restart(3)
    line = recording.record(nec, tmp_path / "film.mp4", seconds=1)
    frames = imageio.mimread(tmp_path / "film.mp4", memtest=False)
    shown = min(30, len(nec.session.moments))  # 30 a second
    assert len(frames) == shown
    assert f"score {shown - 1}, " in line, "1 for each step"
    assert frames[0].shape == (540, 960, 3)
    assert not list(tmp_path.glob("unfinished*"))


def test_a_picture_has_the_game_bars_and_neighbours(nec):
    nec.session.restart(3)
    picture = recording.compose(nec, nec.session.moments[0])
    assert picture[:490, :420].std() > 10, "the game"
    accent = np.all(picture == (0x5A, 0xA7, 0xFF), axis=-1)
    assert accent[40:100, 560:].sum() > 1000, "the bar of the action taken"
    assert picture[150:500, 440:].std() > 20, "the neighbours"


def test_a_gif_stays_small_or_is_refused(nec, tmp_path, monkeypatch):
    nec.session.restart(3)
    recording.record(nec, tmp_path / "whole.gif", seconds=1)
    size = (tmp_path / "whole.gif").stat().st_size
    assert size <= recording.GIF_BYTES
    monkeypatch.setattr(recording, "GIF_BYTES", size // 2)
    recording.record(nec, tmp_path / "smaller.gif", seconds=1)
    assert (tmp_path / "smaller.gif").stat().st_size <= size // 2
    monkeypatch.setattr(recording, "GIF_BYTES", 1000)
    with pytest.raises(UserError, match="do not fit into a GIF"):
        recording.record(nec, tmp_path / "none.gif", seconds=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["smaller.gif", "whole.gif"]


@pytest.mark.parametrize(
    ("name", "seconds", "reason"),
    [
        ("film.avi", 5, r"\*.mp4 or \*.gif"),
        ("nowhere/film.mp4", 5, "there is no folder"),
        ("film.mp4", 0, "record_seconds must be at least 1"),
    ],
)
def test_a_film_that_cannot_be_written_is_refused(tmp_path, name, seconds, reason):
    with pytest.raises(UserError, match=reason):
        recording.require_file(tmp_path / name, seconds)
