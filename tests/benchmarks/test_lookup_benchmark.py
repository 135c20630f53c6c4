"""The whole benchmark, small: every field is there, and what is exact is exact."""

import json

import numpy as np
import pytest
from absl import app, flags
from absl.testing import flagsaver

from benchmarks import lookup, lookup_paper_scale, lookup_rivals, real_keys
from benchmarks.lookup_measure import Truth, distinct
from benchmarks.lookup_summary import bars

FIELDS = {
    "backend",
    "entries",
    "recall_at_50",
    "recall_after_gradients",
    "recall_after_replacement",
    "query_ms",
    "numpy_query_ms",
    "write_ms",
    "gradient_step_ms",
    "bytes_per_entry",
    "build_s",
}
RECALLS = ("recall_at_50", "recall_after_gradients", "recall_after_replacement")


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs the benchmark with flags, on keys that are collected for it; returns its output."""
    monkeypatch.setattr(real_keys, "CACHE", tmp_path)

    @flagsaver.flagsaver
    def call(*arguments):
        flags.FLAGS(["lookup", "--states=1000", "--queries=20", "--steps=20", *arguments])
        lookup.main([])
        return capsys.readouterr()

    return call


def test_json_has_a_row_for_each_backend(run):
    installed = [name for name in lookup_rivals.RIVALS if lookup_rivals.is_installed(name)]
    output = run("--json", "--entries=300")
    report = json.loads(output.out)
    rows = {row["backend"]: row for row in report["rows"]}
    assert list(rows) == ["scann", "exact", *installed]
    for row in rows.values():
        assert row.keys() >= FIELDS
        assert row["entries"] == 300
        assert all(0.0 <= row[field] <= 1.0 for field in RECALLS)
        assert row["query_ms"] > 0.0
        assert row["numpy_query_ms"] > 0.0
        assert row["write_ms"] > 0.0
    assert [rows["exact"][field] for field in RECALLS] == [1.0, 1.0, 1.0]
    assert rows["exact"]["keys_moved"] > 0
    assert rows["scann"]["gradient_step_ms"] > 0.0
    assert report["keys_learning_rate"] > 0.0
    for name in set(lookup_rivals.RIVALS) - set(installed):
        assert f"{name} IS LEFT OUT" in output.err
        assert "make benchmark" in output.err


def test_a_missing_rival_is_named_loudly(monkeypatch, capsys):
    monkeypatch.setattr(lookup_rivals, "is_installed", lambda name: name != "hnswlib")
    assert lookup._available(["hnswlib", "faiss_flat", "exact"]) == ["exact", "faiss_flat"]
    error = capsys.readouterr().err
    assert "WARNING: hnswlib IS LEFT OUT" in error
    assert "make benchmark" in error


def test_backends_that_cannot_be_measured_are_refused():
    with pytest.raises(app.UsageError, match="annoy is not one of scann, exact"):
        lookup._available(["annoy"])
    with pytest.raises(app.UsageError, match="add scann"):
        lookup._available(["faiss_flat"])


def test_paper_scale_is_refused_where_memory_is_short():
    assert lookup_paper_scale.refusal(1) is None
    assert "GB of free memory" in lookup_paper_scale.refusal(10**9)


def test_recall_counts_ties_and_misses():
    live = np.float32([[0.0], [1.0], [-1.0], [5.0], *([9.0 + i] for i in range(50))])
    truth = Truth(live, np.float32([[0.0]]))
    nearest = np.argsort(np.abs(live[:, 0]), kind="stable")
    assert truth.recall(nearest[None, :50]) == 1.0
    assert truth.recall(nearest[None, 2:52]) == pytest.approx(48 / 50)
    assert truth.recall(np.where(np.arange(50) < 20, nearest[:50], -1)[None]) == 20 / 50
    live[-1] = live[nearest[49]]  # as near as the 50th
    assert Truth(live, np.float32([[0.0]])).recall(np.r_[nearest[:49], len(live) - 1][None]) == 1.0


def test_distinct_keeps_the_order():
    keys = np.float32([[3, 1], [1, 2], [3, 1], [0, 5], [1, 2]])
    np.testing.assert_array_equal(distinct(keys), [[3, 1], [1, 2], [0, 5]])


def test_bars_compare_the_sizes():
    row = dict.fromkeys(RECALLS, 0.97) | {"backend": "scann", "query_ms": 0.1, "write_ms": 1.0}
    small = {**row, "entries": 50_000, "numpy_query_ms": 1.0, "gradient_step_ms": 10.0}
    large = {**row, "entries": 500_000, "numpy_query_ms": 4.0, "gradient_step_ms": 14.0}
    verdicts = [(bar["value"], bar["met"], bar["goal_met"]) for bar in bars([small, large])]
    assert verdicts[:3] == [(0.97, True, False)] * 3
    assert verdicts[3:] == [
        (pytest.approx(40.0), True, None),
        (1.0, True, None),
        (1.0, True, None),
        (pytest.approx(1.4), True, None),
    ]
    assert [bar["met"] for bar in bars([small])][3:] == [None] * 4
    large["gradient_step_ms"] = 16.0
    assert bars([small, large])[-1]["met"] is False
