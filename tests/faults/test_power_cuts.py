"""Power cuts of a run that saves all the time: each is resumed, and no row is lost."""

import random
import signal
import time

import pytest
from faults import power, runs

pytestmark = pytest.mark.skipif(
    not power.available(), reason="mounting images needs root and loop devices"
)
CUTS = 20 if runs.LONG else 3


def test_a_run_survives_power_cuts(tmp_path):
    rng = random.Random(1)
    disk = power.Disk(tmp_path / "disk")
    with disk.mounted() as place:
        process = runs.start(place / "run", 10_000_000)
        try:
            runs.wait_for_checkpoint(place / "run", process)
            for cut in range(CUTS):
                time.sleep(rng.uniform(0.3, 1.5))
                process.send_signal(signal.SIGSTOP)  # nothing is written while the disk is copied
                with disk.after_a_cut(cut) as left:
                    before = runs.rows(place / "run")
                    process.send_signal(signal.SIGCONT)
                    done = runs.finish(left / "run", 1)  # loads what is there, and is at its end
                    assert done.returncode == 0, done.stderr
                    after = runs.rows(left / "run")
                    reached = int(after[-1]["frames"])
                    # At most two checkpoints of 100 frames and the steps between are lost.
                    assert reached > int(before[-1]["frames"]) - 300
                    assert after == [row for row in before if int(row["frames"]) <= reached]
        finally:
            process.kill()
            process.wait()
