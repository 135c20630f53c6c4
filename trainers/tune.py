"""Searches settings of an agent: Optuna proposes them, Ray trains them, one statistic judges them.

  nec-tf tune --range learning_rate=1e-5:1e-2:log --range horizon=10,30,100

Maximises the mean over games of log10(max(HNS, -0.05) + 0.1), HNS being the human-normalised score
(1 is human), mean of the last three evaluations and of all seeds. The default games are those on
which the paper chose its settings. No trial is stopped early without --early_stopping. The same
command resumes; a larger --samples extends the search. <runs_dir>/<name>/settings.csv has them all.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from absl import app, flags

from nec_tf.environments.games import GAME_SETS
from nec_tf.experiments.sweep import cluster
from nec_tf.experiments.sweep.driver import Driver
from nec_tf.experiments.sweep.plan import Trial, make_trials
from nec_tf.experiments.sweep.status import State
from nec_tf.experiments.sweep.table import Display
from nec_tf.experiments.sweep.tuning import Search, parse_range
from nec_tf.runtime import startup
from nec_tf.runtime.errors import UserError
from trainers import sweep_flags

FLAGS = flags.FLAGS
flags.DEFINE_string("agent", "nec", "Agent whose settings are searched.")
flags.DEFINE_multi_string(
    "range", [], "Setting and its values: name=low:high, name=low:high:log or name=a,b,c; repeated."
)
flags.DEFINE_string("games", "tuning6", f"Games, or sets of games: {', '.join(GAME_SETS)}.")
flags.DEFINE_integer("samples", 30, "Settings to judge in all.", lower_bound=1)
flags.DEFINE_integer("batch", 1, "Settings that are proposed at a time.", lower_bound=1)
flags.DEFINE_bool("early_stopping", False, "Give up settings below the median after half of it.")
flags.DEFINE_integer("search_seed", 0, "Seed of the proposals.", lower_bound=0)
flags.DEFINE_string("name", "tuning", "Folder of the search in --runs_dir.")
sweep_flags.define()
flags.adopt_module_key_flags(sweep_flags)


def main() -> None:
    """Runs the search and prints the best settings."""
    if not FLAGS.range:
        raise UserError("nothing to search: give at least one --range, e.g. horizon=10:100")
    if not FLAGS.name or "/" in FLAGS.name or FLAGS.name in (".", ".."):
        raise UserError(f"--name must be one word without /, not {FLAGS.name!r}")
    ranges = [parse_range(text, FLAGS.agent) for text in FLAGS.range]
    folder = Path(FLAGS.runs_dir) / FLAGS.name
    resources, passed_on = sweep_flags.resources(), sweep_flags.passed_on()

    def make(settings: Mapping[str, Any]) -> list[Trial]:
        texts = [f"{name}={value}" for name, value in settings.items()]
        return make_trials(
            FLAGS.games, FLAGS.agent, FLAGS.seeds, FLAGS.frames, texts, folder, passed_on
        )

    make({})  # names of games and seeds are checked before anything starts
    search = Search(folder, ranges, make, FLAGS.search_seed, FLAGS.early_stopping)
    with cluster.connected(FLAGS.address) as ray, Display() as display:
        cluster.require_room(ray, resources.cpus, int(resources.memory * cluster.GIGABYTE))

        def train(trials: list[Trial]) -> bool:
            results_dir = folder / "results"
            driver = Driver(ray, trials, resources, results_dir, display.show, display.say)
            driver.run()
            states = {status.state for status in driver.statuses}
            return states <= {State.FINISHED, State.FAILED}

        search.run(FLAGS.samples, FLAGS.batch, train)
    for value, settings in search.ranking()[:10]:
        print(f"{value:8.4f}  " + "  ".join(f"{name}={text}" for name, text in settings.items()))
    print(f"{len(search.ranking())} of {FLAGS.samples} settings judged: {folder}/settings.csv")


if __name__ == "__main__":
    app.run(startup.guarded(main))
