"""A long run in a short time: memory that stays flat, indices that keep their recall.

`python -m benchmarks.soak [--seconds=1800] [--json]` trains NEC on CartPole with a memory of 5,000
entries an action, so that it evicts at nearly every write, and retrains, saves and evaluates often.
It fails if the run ends with an error or logs one, if resident memory grows by 2% or more after the
first third and by more than TensorFlow's own leak explains, if an evaluation finds less than 0.99
of the neighbours, or if an index had to be rebuilt. `benchmarks.turnover` has the indices that are
too large to be retrained.
"""

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from absl import app, flags

from benchmarks.soak_measure import describe, failures, soak

_SECONDS = flags.DEFINE_integer("seconds", 1_800, "Length of the run.", lower_bound=60)
_JSON = flags.DEFINE_bool("json", False, "Print only JSON to stdout.")


def main(argv: Sequence[str]) -> None:
    """Measures and prints; exits with 1 if something is wrong."""
    del argv
    with tempfile.TemporaryDirectory() as folder:
        found = soak(_SECONDS.value, Path(folder))
    wrong = failures(found)
    print(json.dumps({**found, "failures": wrong}, indent=1) if _JSON.value else describe(found))
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    app.run(main)
