"""Exports a run: visits states with its policy, then writes a version for a server."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from nec_tf.agents.n_step_driver import NStepDriver
from nec_tf.experiments import provenance
from nec_tf.experiments.evaluation_log import read_evaluations
from nec_tf.experiments.run import Run
from nec_tf.serving.compacting import Compact
from nec_tf.serving.exporting import export

STATES = 256  # states of the run on which a lookup is measured
_ENVS = 8  # environments that are played to visit them
_EVERY = 8  # steps from one state to the next


def export_run(
    run: Run,
    output_dir: Path,
    lookup: str = "ivf",
    recall: float = 0.99,
    version: int | None = None,
    compact: Compact | None = None,
    log: Callable[[str], None] = lambda text: None,
) -> Path:
    """Writes a new version of a run's newest checkpoint and returns its folder.

    Args:
        run: The run to export.
        output_dir: The folder that a server watches.
        lookup: As in `nec_tf.serving.exporting.export`.
        recall: See there.
        version: See there.
        compact: See there.
        log: See there.
    """
    log(f"visiting {STATES} states")
    states = visited_states(run)
    source = {
        "run_dir": str(run.folder.path),
        "commit": provenance.commit(),
        "frames": run.progress.frames,
        "score": _score(run),
        "best_evaluation": run.progress.best_evaluation,
        "commands": [*provenance.notes(run.folder.path), provenance.this_command()],
    }
    source |= run.task.description
    return export(
        run.learner.agent, output_dir, states, lookup, recall, version, compact, source, log
    )


def _score(run: Run) -> dict[str, Any] | None:
    """Returns the newest evaluation of the exported checkpoint; None if there was none."""
    frames = run.progress.frames
    known = [record for record in read_evaluations(run.folder.path) if record.frames <= frames]
    if not known:
        return None
    scores = known[-1].scores
    return {
        "mean": float(np.mean(scores)),
        "episodes": len(scores),
        "frames": known[-1].frames,
    }


def visited_states(run: Run) -> np.ndarray:
    """Plays evaluation games and returns states that the policy visits, [STATES, ...]."""
    environment = run.task.environment(_ENVS, run.seed_for("export"), evaluation=True)
    run.learner.begin_evaluation(run.seed_for("export"))
    seen: list[np.ndarray] = []
    driver = NStepDriver(
        environment, run.learner.agent.policy, [lambda step: seen.append(step.observation)]
    )
    driver.run(_EVERY * (1 + -(-STATES // _ENVS)))
    environment.close()
    return np.concatenate(seen[_EVERY::_EVERY])[:STATES]
