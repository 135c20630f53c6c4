"""Speed of the page of trainers/watch.py in headless Chromium, with a large memory.

  python -m benchmarks.watching [--entries=200000] [--seconds=20]

Plays Frostbite with an untrained NEC whose memory holds `entries` keys of real states, all actions
together, each with a picture. Prints decisions shown per second, at natural speed (15)
and as fast as possible, and the time from asking for the map until it is drawn. Run it on an idle
machine; needs chromium. Collecting the keys takes minutes.
"""

import itertools
import shutil
import tempfile
import time
from typing import Any

from absl import app, flags

from nec_tf.runtime import startup
from nec_tf.runtime.errors import UserError

startup.configure(restart=__name__ == "__main__")  # as in watch.py, before TensorFlow is imported

import numpy as np

FLAGS = flags.FLAGS
flags.DEFINE_integer("entries", 200_000, "Entries of all actions together.", lower_bound=1_000)
flags.DEFINE_integer("seconds", 20, "Seconds that each speed is measured.", lower_bound=1)
_GAME = "frostbite"


class _SomeStates:
    """A few real states that stand for all: finding one costs what it costs in a run."""

    def __init__(self, states: np.ndarray) -> None:
        self._states = states

    def find(self, state_id: int) -> np.ndarray:
        return self._states[state_id % len(self._states)]


def fill(agent: Any, count: int) -> None:
    """Writes entries of real states with random actions and values to an agent's memory."""
    from benchmarks import real_keys
    from nec_tf.memory.entries import Entries

    rng = np.random.default_rng(0)
    agent.dnd.load_entries(
        Entries(
            actions=np.sort(rng.integers(0, agent.dnd.num_actions, count)),
            keys=real_keys.collect(count, agent.embedding, _GAME),
            values=rng.normal(size=count).astype(np.float32),
            state_ids=np.arange(count),
            ages=np.arange(count)[::-1].copy(),
            rows=np.arange(1, 1 + count),
        )
    )


def shown_per_second(page: Any, speed: str) -> float:
    """Plays at a speed of the page's list and returns decisions shown per second."""
    page.select_option("#speed", speed)
    page.evaluate(
        "() => { watch.shown = 0; const i = document.documentElement;"
        " watch.counter?.disconnect(); watch.counter = new MutationObserver(() =>"
        " watch.shown++); watch.counter.observe(i, {attributeFilter: ['data-index']}); }"
    )
    page.click("#play")
    page.wait_for_timeout(2_000)  # TensorFlow traces its graphs
    before, began = page.evaluate("watch.shown"), time.monotonic()
    page.wait_for_timeout(1_000 * FLAGS.seconds)
    count, seconds = page.evaluate("watch.shown") - before, time.monotonic() - began
    page.click("#play")
    return count / seconds


def main() -> None:
    """Measures and prints."""
    from playwright import sync_api

    from benchmarks import real_keys
    from nec_tf.experiments.registry import make_config
    from nec_tf.experiments.report.screenshot import CHROMIUM_FLAGS
    from nec_tf.experiments.run import Run
    from nec_tf.experiments.settings import Settings
    from nec_tf.experiments.tasks import atari_task
    from nec_tf.experiments.viewer.answers import Subject
    from nec_tf.experiments.viewer.deciders import decider_of
    from nec_tf.experiments.viewer.pictures import Pictures
    from nec_tf.experiments.viewer.server import Server
    from nec_tf.experiments.viewer.session import Session
    from nec_tf.experiments.viewer.watching import Watched

    chromium = shutil.which("chromium")
    if chromium is None:
        raise UserError("chromium is missing (Debian: apt-get install chromium)")
    task = atari_task(_GAME)
    settings, config = Settings.preset("atari"), make_config("nec", "atari")
    with tempfile.TemporaryDirectory() as folder:
        run = Run(folder, task, settings, config)
    fill(run.learner.agent, FLAGS.entries)
    some = itertools.islice(real_keys.states(_GAME), 200)
    states = _SomeStates(np.concatenate(list(some)))
    session = Session(task, decider_of(run), seed=1)
    server = Server(
        Watched(session, Pictures([states], task), Subject("nec", "", {}), None).answers()
    )
    server.start()
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        began = time.monotonic()
        page.goto(server.url)
        page.wait_for_selector("html[data-ready=yes]")
        opened = time.monotonic() - began
        drawn = page.eval_on_selector("#map", "map => map.dataset.loaded")
        natural, fastest = shown_per_second(page, "1"), shown_per_second(page, "1000")
        browser.close()
    server.close()
    print(f"entries on the map          {FLAGS.entries:,}")
    print(f"page opened, map included   {opened:.2f} s")
    print(f"map asked for and drawn     {float(drawn) / 1000:.2f} s")
    print(f"decisions/s, natural speed  {natural:.1f} (the game's own: {task.steps_per_second})")
    print(f"decisions/s, fastest        {fastest:.1f}")


if __name__ == "__main__":
    app.run(startup.guarded(main))
