"""Long runs in a short time: memory that stays flat, indices that keep their recall.

`python -m benchmarks.soak --seconds=1800` trains NEC on CartPole with a memory of 5,000 entries an
action, so that it evicts at nearly every write, and retrains, saves and evaluates often. It fails
if the run ends with an error, if resident memory grows by 2% or more after the first third, if an
evaluation finds less than 0.99 of the neighbours, or if an index had to be rebuilt.

`python -m benchmarks.soak --writes=5000000` writes keys of a real encoder to one action's memory of
--capacity entries, above the size up to which trees are retrained, and prints the recall on the
way. Keys that come again are moved a little, so that each is a new entry.
"""

import csv
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from absl import app, flags

from nec_tf.runtime import startup

startup.configure(restart=False)

_SECONDS = flags.DEFINE_integer("seconds", 1_800, "Length of the run.", lower_bound=60)
_WRITES = flags.DEFINE_integer("writes", 0, "Entries to write to the layer alone, without a run.")
_CAPACITY = flags.DEFINE_integer("capacity", 350_000, "Entries of the layer.", lower_bound=1_000)
_KEYS = flags.DEFINE_integer("keys", 800_000, "States of a real game behind the keys.")
_ROOT = Path(__file__).parents[1]
_RUN = (
    "--env=CartPole-v1",
    "--novideo",
    "--frames=1000000000",
    "--capacity=5000",  # above 4,000 an index is a tree
    "--replay_capacity=5000",
    "--eval_every_frames=2000",
    "--eval_episodes=4",
    "--eval_max_steps=500",
    "--checkpoint_every_frames=1000",
    "--log_every_frames=500",
)
_MOST_GROWTH = 0.02  # of resident memory
_LEAST_RECALL = 0.99
_EVERY = 2.0  # seconds between two readings of resident memory
_BATCH = 100  # entries of a write
_ROWS = 20  # of the table of the layer
_SHIFT = 0.01  # standard deviation of a repeated key, relative to that of all keys


def soak_run(seconds: int, run_dir: Path) -> list[str]:
    """Trains for some seconds, prints figures, and returns what is wrong, one sentence each."""
    command = [sys.executable, str(_ROOT / "trainers/train_gym.py"), f"--run_dir={run_dir}", *_RUN]
    environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
    resident: list[float] = []
    with (run_dir.parent / "log.txt").open("w+") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        end = time.monotonic() + seconds
        while time.monotonic() < end and process.poll() is None:
            time.sleep(_EVERY)
            resident.append(_resident_mb(process.pid))
        process.send_signal(signal.SIGTERM)  # saves
        code = process.wait(timeout=120)
        log.seek(0)
        wrong = [f"the run ended with {code}: {log.read()[-2_000:]}"] if code else []
    with (run_dir / "metrics.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["recall"]]
    growth = _growth(resident)
    recalls = [float(row["recall"]) for row in rows]
    rebuilds = sum(float(row["rebuilds"]) for row in rows)
    if not rows:
        return [*wrong, "there was no evaluation: give it more --seconds"]
    print(f"frames {rows[-1]['frames']}, entries {rows[-1]['memory']}, evaluations {len(rows)}")
    print(f"resident memory {resident[-1]:.0f} MB, growth after the first third {growth:+.2%}")
    print(f"recall: least {min(recalls):.4f}, last {recalls[-1]:.4f}; rebuilds {rebuilds:.0f}")
    checks = {
        f"resident memory grew by {growth:.2%}": growth >= _MOST_GROWTH,
        f"an evaluation had a recall of {min(recalls):.4f}": min(recalls) < _LEAST_RECALL,
        f"{rebuilds:.0f} indices were rebuilt": rebuilds > 0,
    }
    return wrong + [sentence for sentence, failed in checks.items() if failed]


def _resident_mb(pid: int) -> float:
    """Returns the resident memory of a process in MB, 0 if it has ended."""
    try:
        status = Path(f"/proc/{pid}/statm").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return int(status.split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def _growth(resident: list[float]) -> float:
    """Returns the growth from the tenth after the first third to the last tenth."""
    tenth = max(1, len(resident) // 10)
    begin = len(resident) // 3
    early, late = resident[begin : begin + tenth], resident[-tenth:]
    return sum(late) / len(late) / (sum(early) / len(early)) - 1.0


def soak_layer(writes: int, capacity: int, keys: int) -> None:
    """Writes to one memory and prints its recall on the way."""
    import numpy as np

    from benchmarks import real_keys
    from nec_tf.memory.dnd import DifferentiableNeuralDictionary
    from nec_tf.memory.probe import recall_of

    stored = real_keys.load(keys)
    rng = np.random.default_rng(1)
    spread = _SHIFT * stored.std()
    dnd = DifferentiableNeuralDictionary(
        1, stored.shape[1], capacity, index="scann", recognise_by_key=False
    )
    print(f"{'writes':>12} {'entries':>10} {'recall':>8} {'seconds':>8}")
    began, every = time.monotonic(), max(_BATCH, writes // _ROWS // _BATCH * _BATCH)
    for first in range(0, writes, _BATCH):
        ids = np.arange(first, first + _BATCH)
        batch = stored[ids % len(stored)]
        if first >= len(stored):
            batch = batch + rng.normal(0.0, spread, batch.shape).astype(np.float32)
        dnd.write(np.zeros(_BATCH, np.int64), batch, np.zeros(_BATCH, np.float32), ids)
        if (first + _BATCH) % every == 0:
            dnd.candidates(batch[:1])
            recall = recall_of(dnd, 0, rng, states=64)
            seconds = time.monotonic() - began
            print(f"{first + _BATCH:12,} {dnd.sizes[0]:10,} {recall:8.4f} {seconds:8.0f}")


def main(argv: list[str]) -> None:
    """Runs one of the two; exits with 1 if something is wrong."""
    del argv
    if _WRITES.value:
        soak_layer(_WRITES.value, _CAPACITY.value, _KEYS.value)
        return
    with tempfile.TemporaryDirectory() as folder:
        wrong = soak_run(_SECONDS.value, Path(folder) / "run")
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    app.run(main)
