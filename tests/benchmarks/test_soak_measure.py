import subprocess
import sys

import numpy as np
import pytest

from benchmarks import soak_measure as soak

WHOLE = {
    "evaluations": 3,
    "exit_code": 0,
    "errors": 0,
    "growth": 0.001,
    "bytes_per_frame": 5_000,
    "least_recall": 0.995,
    "rebuilds": 0,
    "end_of_log": "",
}


def readings(megabytes):
    return [soak.Reading(mb, 100 * i) for i, mb in enumerate(megabytes)]


def test_growth_is_that_after_the_first_third():
    early, late = soak.early_and_late(readings([100.0 + i for i in range(10)] + [110.0] * 20))
    assert (early.megabytes, late.megabytes) == (110.0, 110.0)
    found = soak.figures([], readings([100.0] * 20 + [103.0] * 10))
    assert found["growth"] == 0.03
    assert found["bytes_per_frame"] == round(3e6 / 1_700)  # from frame 1,100 to 2,800
    assert soak.figures([], [])["growth"] == 0.0


def test_figures_are_those_of_the_evaluations():
    rows = [
        {"frames": "2000", "memory": "900.0", "recall": "0.98", "rebuilds": "1.0"},
        {"frames": "4000", "memory": "1000.0", "recall": "1.0", "rebuilds": "0.0"},
    ]
    found = soak.figures(rows, readings([50.0, 50.0, 51.0]))
    assert (found["frames"], found["entries"], found["evaluations"]) == (4000, 1000, 2)
    assert (found["least_recall"], found["last_recall"], found["rebuilds"]) == (0.98, 1.0, 1)
    assert found["resident_mb"] == 51.0


def test_a_good_run_has_no_failures():
    assert soak.failures(WHOLE) == []
    assert soak.failures(WHOLE | {"growth": 0.2, "bytes_per_frame": 1_300}) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"evaluations": 0}, "no evaluation"),
        ({"exit_code": 1}, "ended with 1"),
        ({"exit_code": None}, "ended with None"),
        ({"errors": 2}, "2 error"),
        ({"growth": 0.02}, "grew by 2.00%, 5000 bytes a frame"),
        ({"least_recall": 0.98}, "recall of 0.98"),
        ({"rebuilds": 1}, "1 indices were rebuilt"),
    ],
)
def test_each_failure_is_a_sentence(change, message):
    (sentence,) = soak.failures(WHOLE | change)
    assert message in sentence


def test_a_process_is_watched_until_it_ends(monkeypatch, tmp_path):
    (tmp_path / "metrics.csv").write_text("frames,loss\r\n10,1\r\n20,1\r\n3")
    monkeypatch.setattr(soak, "_EVERY", 0.05)
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1)"]) as process:
        resident = soak._watch(process, 60, tmp_path)
    assert len(resident) >= 3
    assert np.median([reading.megabytes for reading in resident]) > 1.0
    assert {reading.frames for reading in resident} == {20}
