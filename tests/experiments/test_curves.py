import pytest

from nec_tf.experiments.curves import load_curves, plot, table
from nec_tf.runtime.errors import UserError

HEAD = "# commit abc: python x\nframes,eval_mean,eval_median,eval_std,episodes,human_normalised\n"


def write(folder, name, *rows):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HEAD + "".join(f"{f},{mean},0,0,10,{human}\n" for f, mean, human in rows))


@pytest.fixture
def results(tmp_path):
    write(tmp_path, "nec/alien/1.csv", (500_100, 100, 1), (1_000_012, 300, 10))
    write(tmp_path, "nec/alien/2.csv", (1_000_100, 500, 20))
    write(tmp_path, "nec/pong/1.csv", (1_000_004, -15, 16))
    write(tmp_path, "nec/venture/1.csv", (1_000_004, 4, 60))
    write(tmp_path, "mfec/alien/1.csv", (1_000_000, 200, 5))
    write(tmp_path, "mfec/pong/1.csv", (1_000_000, -20, 2))
    write(tmp_path, "mfec/venture/1.csv", (800_000, 9, 90))
    return tmp_path


def test_agents_stand_side_by_side_with_the_median_of_games_that_all_have(results):
    assert table(load_curves(results), 1_000_000).splitlines() == [
        "| 1,000,000 frames | mfec | nec |",
        "| --- | --- | --- |",
        "| alien | 200 (5.0%) | 400 (15.0%), 2 seeds |",
        "| pong | -20 (2.0%) | -15 (16.0%) |",
        "| venture | - | 4 (60.0%) |",
        "| median of alien, pong | 3.5% | 15.5% |",
    ]


def test_runs_that_did_not_come_so_far_are_left_out(results):
    assert "| alien | - | 100 (1.0%) |" in table(load_curves(results), 500_000).splitlines()


def test_the_same_curves_give_the_same_plots(results, tmp_path):
    first = plot(load_curves(results), tmp_path / "one")
    second = plot(load_curves(results), tmp_path / "two")
    assert [path.name for path in first] == ["alien.svg", "pong.svg", "venture.svg"]
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
        assert b"<svg" in one.read_bytes()


def test_an_empty_folder_is_said_to_be_empty(tmp_path):
    with pytest.raises(UserError, match="record_result"):
        load_curves(tmp_path)
