"""Screens many changes of settings at once: every run tells something about every change.

  nec-tf screen --lever horizon=30 --lever update_period=2 --games=half_a --frames=200000 --name=try
  nec-tf screen ... --list                     # the effects so far, and what is still to be run

Each game has two runs: one with some of the levers, one with all the others. The effect of a lever
is the change of log10(max(HNS, -0.05) + 0.1), HNS being the human-normalised score (1 is human),
mean of a run's evaluations: 0.1 is a factor of 1.26. Ctrl-C saves checkpoints; the same command
resumes. Runs whose results are in <results_dir>/<name> are not repeated on another machine.
"""

from pathlib import Path

from absl import app, flags

from nec_tf.environments.games import GAME_SETS
from nec_tf.experiments.sweep import cluster
from nec_tf.experiments.sweep.driver import Driver, Resources
from nec_tf.experiments.sweep.plan import parse_seeds
from nec_tf.experiments.sweep.screening import Screening, parse_levers
from nec_tf.experiments.sweep.status import survey
from nec_tf.experiments.sweep.table import Display, summary
from nec_tf.runtime import startup
from nec_tf.runtime.errors import UserError
from nec_tf.runtime.folders import require_local_folder
from trainers import sweep_flags

FLAGS = flags.FLAGS
flags.DEFINE_string("agent", "nec", "Agent whose settings are screened.")
flags.DEFINE_multi_string(
    "lever", [], "Setting and its value with the lever, name=value; repeated."
)
flags.DEFINE_string("games", "half_a", f"Games, or sets of games: {', '.join(GAME_SETS)}.")
flags.DEFINE_string("name", "screening", "Folder of the screening in --runs_dir and --results_dir.")
flags.DEFINE_string("results_dir", "screenings", "Folder of the results of all screenings.")
flags.DEFINE_bool("list", False, "Only list the trials that are left, and the effects so far.")
sweep_flags.define()
flags.adopt_module_key_flags(sweep_flags)


def main() -> None:
    """Runs what is left and prints the effects."""
    seeds = parse_seeds(FLAGS.seeds)
    if len(seeds) > 1 or FLAGS.frames < 1 or FLAGS.name in ("", ".", "..") or "/" in FLAGS.name:
        raise UserError("a screening has one seed, at least 1 frame, and a name of one word")
    resources = sweep_flags.resources()
    require_local_folder("results_dir", FLAGS.results_dir)
    screening = Screening(
        parse_levers(FLAGS.lever, FLAGS.agent),
        FLAGS.games,
        FLAGS.agent,
        seeds[0],
        FLAGS.frames,
        (Path(FLAGS.runs_dir) / FLAGS.name).resolve(),
        sweep_flags.passed_on(),
    )
    results_dir = Path(FLAGS.results_dir) / FLAGS.name
    left = screening.unfinished(results_dir)
    if FLAGS.list:
        Display().print_table(survey(left))
    elif left:
        _train(screening, results_dir, resources)
    _report(screening, results_dir)


def _train(screening: Screening, results_dir: Path, resources: Resources) -> None:
    """Runs the trials that are left."""
    left = screening.unfinished(results_dir)
    with cluster.connected(FLAGS.address) as ray, Display() as display:
        cluster.require_room(ray, resources.cpus, int(resources.memory * cluster.GIGABYTE))
        driver = Driver(ray, left, resources, results_dir, display.show, display.say)
        driver.run()
    print(summary(driver.statuses))


def _report(screening: Screening, results_dir: Path) -> None:
    """Prints the effect of each lever by the games that are finished."""
    figures = screening.figures(results_dir)
    games = len(screening.trials) // 2
    print(f"{len(figures)} of {games} games are finished.")
    if len(figures) <= len(screening.levers):
        print(f"Effects need {len(screening.levers) + 1} of them.")
        return
    for lever, found in zip(screening.levers, screening.effects(figures), strict=True):
        print(
            f"{lever!s:30} {found.effect:+.3f}, standard error {found.error:.3f},"
            f" {100 * found.above_zero:.0f}% above 0"
        )


if __name__ == "__main__":
    app.run(startup.guarded(main))
