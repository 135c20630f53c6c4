"""Trains many agents: a trial for each combination of game, agent, settings and seed, on Ray.

  nec-tf sweep --games=pong,frostbite --agents=nec,mfec --seeds=1-5
  nec-tf sweep --games=tuning6 --set learning_rate=3e-4,1e-4 --set horizon=10,100
  nec-tf sweep --games=atari57 --seeds=1-5 --frames=10000000 --address=auto

Each trial is a process of train_atari.py with cores and a run folder of its own. Ctrl-C saves
checkpoints; the same command resumes what is unfinished and skips what is finished, also after a
kill. Finished trials are recorded in --results_dir. docs/cluster.md: several machines.
"""

from pathlib import Path

from absl import app, flags

from nec_tf.environments.games import GAME_SETS
from nec_tf.experiments.sweep import cluster
from nec_tf.experiments.sweep.driver import Driver
from nec_tf.experiments.sweep.plan import make_trials
from nec_tf.experiments.sweep.status import State, Status, survey
from nec_tf.experiments.sweep.table import Display, summary
from nec_tf.runtime import startup
from trainers import sweep_flags

FLAGS = flags.FLAGS
flags.DEFINE_string("games", "atari100k", f"Games, or sets of games: {', '.join(GAME_SETS)}.")
flags.DEFINE_string("agents", "nec", "Agents, with commas between them.")
flags.DEFINE_multi_string(
    "set", [], "Setting and its values, name=v1,v2; repeated: all combinations."
)
flags.DEFINE_string("name", "", "Name of the variant, if the sweep has only one.")
flags.DEFINE_string("results_dir", "results", "Folder of results; empty to record none.")
flags.DEFINE_bool("list", False, "Only list the trials and how far they are.")
sweep_flags.define()
flags.adopt_module_key_flags(sweep_flags)


def main() -> None:
    """Runs the sweep."""
    trials = make_trials(
        FLAGS.games,
        FLAGS.agents,
        FLAGS.seeds,
        FLAGS.frames,
        FLAGS.set,
        Path(FLAGS.runs_dir),
        sweep_flags.passed_on(),
        FLAGS.name,
    )
    resources = sweep_flags.resources()
    results_dir = Path(FLAGS.results_dir) if FLAGS.results_dir else None
    display = Display()
    if FLAGS.list:
        display.print_table(survey(trials))
        return
    with cluster.connected(FLAGS.address) as ray:
        cluster.require_room(ray, resources.cpus, int(resources.memory * cluster.GIGABYTE))
        with display:
            driver = Driver(ray, trials, resources, results_dir, display.show, display.say)
            driver.run()
    report(driver.statuses)


def report(statuses: list[Status]) -> None:
    """Prints the end of a sweep; exits with 1 if a trial failed."""
    print(summary(statuses))
    failed = [status for status in statuses if status.state is State.FAILED]
    for status in failed:
        print(f"\n{status.trial.name} failed; {status.trial.run_dir}/log.txt ends:\n{status.error}")
    if failed:
        raise SystemExit(1)
    if any(status.state is not State.FINISHED for status in statuses):
        print("Saved; the same command resumes.")


if __name__ == "__main__":
    app.run(startup.guarded(main))
