"""Training in one call of Python: `nec_tf.train` and `nec_tf.load_run`.

This module does not import TensorFlow: `startup.configure` has to come first.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from nec_tf.runtime import startup

if TYPE_CHECKING:
    from nec_tf.experiments.trained_run import TrainedRun


def train(
    task: str,
    frames: int | None = None,
    *,
    agent: str = "nec",
    seed: int = 1,
    run_dir: str | Path | None = None,
    **settings: Any,
) -> "TrainedRun":
    """Trains an agent, or resumes training; the same call again continues where the run stands.

    Args:
        task: Atari game such as "Frostbite", or id of a Gymnasium environment such as
            "CartPole-v1" or "my_module:MyEnv-v0".
        frames: Length of training in total: emulator frames (4 for each agent step) for Atari,
            steps elsewhere. None for 10,000,000 and 30,000.
        agent: Name in `nec_tf.experiments.registry.AGENTS`.
        seed: Random seed.
        run_dir: Folder of the run. None for `runs/<agent>-<task>-<seed>`.
        **settings: Settings of the run (`nec_tf.experiments.settings`), of the agent (such as
            `capacity` of `NecConfig`) and of the task (`protocol`, `encoder`).

    Raises:
        UserError: A name or a setting is not valid, or the folder holds another run.
        KeyboardInterrupt: Ctrl-C or kill stopped it. A checkpoint was saved before.
    """
    startup.configure(restart=False, headless=False)
    from nec_tf.experiments.tasks import TASK_OPTIONS, find_task
    from nec_tf.experiments.trained_run import train_task

    options = {name: settings.pop(name) for name in TASK_OPTIONS if name in settings}
    given = {"agent": agent, "seed": seed, **settings}
    if frames is not None:
        given["frames"] = frames
    run, finished = train_task(find_task(task, **options), run_dir, given)
    if not finished:
        raise KeyboardInterrupt
    return run


def load_run(run_dir: str | Path, checkpoint: str = "newest") -> "TrainedRun":
    """Returns the run of a folder as a checkpoint has it: "newest", or "best" evaluated.

    Raises:
        UserError: The folder holds no run, or the run has no checkpoint yet.
    """
    startup.configure(restart=False, headless=False)
    from nec_tf.experiments.run import load_trained_run
    from nec_tf.experiments.trained_run import TrainedRun

    return TrainedRun(load_trained_run(run_dir, checkpoint))
