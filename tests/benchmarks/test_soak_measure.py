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
    "least_recall": 0.995,
    "rebuilds": 0,
    "end_of_log": "",
}


def test_growth_is_that_after_the_first_third():
    flat = [100.0 + i for i in range(10)] + [110.0] * 20
    assert soak.growth(flat) == 0.0
    assert soak.growth([100.0] * 20 + [103.0] * 10) == pytest.approx(0.03)
    assert soak.growth([]) == 0.0


def test_figures_are_those_of_the_evaluations():
    rows = [
        {"frames": "2000", "memory": "900.0", "recall": "0.98", "rebuilds": "1.0"},
        {"frames": "4000", "memory": "1000.0", "recall": "1.0", "rebuilds": "0.0"},
    ]
    found = soak.figures(rows, [50.0, 50.0, 51.0])
    assert (found["frames"], found["entries"], found["evaluations"]) == (4000, 1000, 2)
    assert (found["least_recall"], found["last_recall"], found["rebuilds"]) == (0.98, 1.0, 1)
    assert found["resident_mb"] == 51.0


def test_a_good_run_has_no_failures():
    assert soak.failures(WHOLE) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"evaluations": 0}, "no evaluation"),
        ({"exit_code": 1}, "ended with 1"),
        ({"exit_code": None}, "ended with None"),
        ({"errors": 2}, "2 error"),
        ({"growth": 0.02}, "grew by 2.00%"),
        ({"least_recall": 0.98}, "recall of 0.98"),
        ({"rebuilds": 1}, "1 indices were rebuilt"),
    ],
)
def test_each_failure_is_a_sentence(change, message):
    (sentence,) = soak.failures(WHOLE | change)
    assert message in sentence


def test_a_process_is_watched_until_it_ends(monkeypatch):
    monkeypatch.setattr(soak, "_EVERY", 0.05)
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1)"]) as process:
        resident = soak._watch(process, 60)
    assert len(resident) >= 3
    assert np.median(resident) > 1.0
