"""Tables of a small set of results, worked out by hand."""

import csv
import io
import shutil

import pytest

from nec_tf.experiments.report import (
    analysis,
    comparisons,
    inventory,
    literature,
    records,
    sections,
    tables,
)

from .conftest import save_result


@pytest.fixture
def found(results):
    return records.load_results(results)


def rows(table, **wanted):
    return [row for row in table.rows if wanted.items() <= row.items()]


def test_variants_are_compared_on_every_set_of_games_that_one_of_them_has(found):
    assert analysis.views(found, [400_000, 200_000]) == [
        analysis.View(400_000, ("boxing", "pong"), ("mfec", "nec")),
        analysis.View(200_000, ("boxing", "pong"), ("nec",)),
        analysis.View(200_000, ("pong",), ("dqn", "mfec", "nec")),
    ]


def test_the_summary_weighs_games_equally(found):
    [view, *_] = analysis.views(found, [400_000])
    table = analysis.summary(found, view, "summary-0")
    [nec] = rows(table, variant="nec")
    # Pong 50 and 100%, Boxing 20%, which counts twice.
    assert nec["mean"] == pytest.approx((75 + 20) / 2)
    assert nec["iqm"] == pytest.approx((20 + 50) / 2)
    assert nec["optimality_gap"] == pytest.approx(100 - 47.5)
    assert nec["runs_per_game"] == "1 to 2"
    assert (nec["mean_low"], nec["mean_high"]) == (pytest.approx(35), pytest.approx(60))
    [mfec] = rows(table, variant="mfec")
    assert (mfec["median"], mfec["median_low"]) == (pytest.approx(15), None)
    assert table.to_markdown().splitlines()[2] == "| mfec | 1 | 15.0 | 15.0 | 15.0 | 85.0 |"


def test_scores_of_games_have_the_range_of_several_runs(found):
    table = analysis.game_scores(found, 400_000, "frames", "scores-0")
    assert table.to_markdown().splitlines()[2:] == [
        "| boxing | 2.5 (20.0%) | 2.5 (20.0%) |",
        "| pong | -17.17 (10.0%) | 5.775 (75.0%) [-3.05, 14.6] |",
    ]
    written = list(csv.DictReader(io.StringIO(tables.to_csv([table]))))
    assert [(row["game"], row["variant"], row["scores"]) for row in written] == [
        ("boxing", "mfec", "2.5"),
        ("boxing", "nec", "2.5"),
        ("pong", "mfec", "-17.17"),
        ("pong", "nec", "-3.05 14.6"),
    ]


def test_aggregates_by_frames_begin_where_all_games_have_an_evaluation(found):
    view = analysis.View(0, ("boxing", "pong"), ("mfec", "nec"))
    curves = analysis.aggregate_curves(found, view)
    assert [(row["variant"], row["frames"]) for row in curves] == [
        ("nec", 200_000),
        ("mfec", 400_000),
        ("nec", 400_000),
    ]
    assert curves[0]["mean"] == pytest.approx(0)


def test_pairs_are_compared_on_the_games_that_both_have(found):
    [row] = comparisons.improvement(found, 400_000, "improvement-0").rows
    assert (row["x"], row["y"], row["games"]) == ("mfec", "nec", "boxing pong")
    # Boxing is a tie, Pong always worse.
    assert row["probability"] == pytest.approx(0.25)


def test_the_figure_of_a_run_is_the_mean_of_its_late_evaluations(found):
    figures = comparisons.steering_scores(found)
    assert sorted(figures) == ["mfec", "nec"], "dqn has no evaluation at 400,000 frames"
    assert figures["nec"]["pong"] == pytest.approx([0.25, 0.5])
    assert figures["mfec"]["boxing"] == pytest.approx([0.2]), "it has only the last evaluation"


def test_what_is_missing_is_named(found):
    table = inventory.missing(found, 400_000, "frames")
    assert [(row["variant"], row["game"], row["state"]) for row in table.rows] == [
        ("dqn", "pong", "unfinished: last evaluation at 200,000 of 400,000 frames"),
        ("dqn", "boxing", "not run; another variant has it"),
        ("nec", "boxing", "1 of 2 runs that other games have"),
    ]


def test_published_agents_stand_beside_ours_on_the_same_games(found):
    views = analysis.views(found, [400_000])
    [view] = literature.atari_100k_views(views)
    table = literature.atari_100k(found, view, "atari100k-0")
    [der] = rows(table, agent="DER")
    # DER: Pong -19.3 is 3.97%, Boxing 0.2 is 0.83%.
    assert der["mean"] == pytest.approx((3.9660 + 0.8333) / 2, abs=1e-3)
    [nec] = rows(table, agent="nec")
    assert nec["mean"] == pytest.approx(47.5)
    assert len(literature.atari_100k_not_run(view)) == 24
    paper = literature.paper_on_our_games(found, view, "paper_same_games-0")
    [printed] = rows(paper, agent="NEC (paper)")
    assert (printed["frames"], printed["games"]) == (10_000_000, "boxing pong")


def test_a_variant_may_have_the_name_of_a_published_agent(results):
    shutil.copytree(results / "nec", results / "der")
    table = literature.atari_100k_games(records.load_results(results))
    [pong] = rows(table, game="pong")
    assert pong["der"] == pytest.approx(75)
    assert pong["published_der"] == pytest.approx(3.966, abs=1e-3)


def test_deciles_rank_games_for_each_agent(found):
    table, points = literature.deciles(found, 400_000)
    own = [(p["game"], p["quantile"]) for p in points if p["agent"] == "nec"]
    assert own == [("boxing", 25.0), ("pong", 75.0)]
    [paper] = rows(table, agent="NEC (paper, 10M frames)")
    assert paper["50%"] == pytest.approx(54.6, abs=0.1)


def test_a_report_of_all_budgets_has_each_section_once(found):
    report = sections.build(found, [400_000, 200_000], "frames")
    assert [section.id for section in report.sections] == [
        "summary",
        "games",
        "curves",
        "profiles",
        "improvement",
        "paper",
        "deciles",
        "atari100k",
        "timing",
        "missing",
    ]
    assert {table.name for table in report.tables} >= {"summary-0", "summary-1", "summary-2"}


def test_tasks_without_human_scores_are_reported_in_steps_without_per_cent(gymnasium_results):
    found = records.load_results(gymnasium_results)
    report = sections.build(found, [1000], records.unit_of(found))
    ids = [section.id for section in report.sections]
    assert ids == ["games", "curves", "timing", "missing"]
    text = "\n".join(table.caption + table.to_markdown() for table in report.tables)
    assert "| cartpole-v1 | 10 [10, 10] |" in text
    assert "1,000 steps" in text
    assert "frames" not in text
    assert "human play" not in text
    assert "nan" not in text
    [timing] = [table for table in report.tables if table.name == "timing"]
    assert timing.to_markdown().splitlines()[2] == "| nec | cartpole-v1 | 2 | 1,000 | 1.0 | 812 |"


def test_a_gymnasium_run_beside_atari_shows_its_steps_and_no_per_cent(results):
    timed = "scores,wall_seconds,frames_per_second:9 10 11,61.5,812.5"
    save_result(results, "nec/cartpole-v1/1.csv", (20_009, 462), settings="{}", more=timed)
    found = records.load_results(results)
    report = sections.build(found, [400_000, 20_000], records.unit_of(found))
    shown = {table.name: table.to_markdown() for table in report.tables}
    assert "| nec | cartpole-v1 | 1 | 20,009 | 1.0 | 812 |" in shown["timing"]
    assert "illion" not in shown["timing"]
    assert "nan" not in "".join(shown.values())
