"""Flags that sweep.py, tune.py and screen.py share."""

import math

from absl import flags

from nec_tf.experiments.sweep.driver import Resources
from nec_tf.runtime.errors import UserError
from nec_tf.runtime.folders import require_local_folder

FLAGS = flags.FLAGS
# Flags of train_atari.py that decide when something is measured or saved, not what is learned.
_INTEGERS = ("eval_every_frames", "eval_episodes", "checkpoint_every_frames", "log_every_frames")
_PASSED_ON = (*_INTEGERS, "checkpoint_every_minutes")


def define() -> None:
    """Defines the flags."""
    flags.DEFINE_string("seeds", "1", "Seeds: 1-5, or 1,2,7.")
    flags.DEFINE_integer("frames", 400_000, "How long to train each trial, in emulator frames.")
    flags.DEFINE_string("address", "", "Ray cluster: its address, or auto. (default: this machine)")
    flags.DEFINE_integer("cpus_per_trial", 1, "Cores of each trial.")
    flags.DEFINE_float(
        "memory_per_trial", 3.0, "Memory reserved for each trial, in GB; more for many frames."
    )
    flags.DEFINE_string("runs_dir", "runs", "Folder of run folders; on a cluster, shared storage.")
    for name in _INTEGERS:
        flags.DEFINE_integer(name, None, "As in train_atari.py.", lower_bound=1)
    flags.DEFINE_float("checkpoint_every_minutes", None, "As in train_atari.py.", lower_bound=0)
    flags.DEFINE_bool("video", None, "As in train_atari.py.")


def resources() -> Resources:
    """Returns what each trial gets; validates the folder of the runs, too."""
    require_local_folder("runs_dir", FLAGS.runs_dir)
    if FLAGS.cpus_per_trial < 1:
        raise UserError(f"--cpus_per_trial must be at least 1, not {FLAGS.cpus_per_trial}")
    if not 0 < FLAGS.memory_per_trial < math.inf:
        raise UserError(
            f"--memory_per_trial must be finite and above 0, not {FLAGS.memory_per_trial}"
        )
    return Resources(FLAGS.cpus_per_trial, FLAGS.memory_per_trial)


def passed_on() -> list[str]:
    """Returns the flags that every trial gets."""
    given = [f"--{name}={FLAGS[name].value}" for name in _PASSED_ON if FLAGS[name].present]
    return [*given, f"--video={str(FLAGS.video).lower()}"] if FLAGS["video"].present else given
