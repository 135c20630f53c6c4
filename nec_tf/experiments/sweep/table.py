"""The live table of a sweep: a line for each trial and one for the whole; or plain log lines."""

import collections
import sys
import time
from collections.abc import Sequence
from types import TracebackType

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from nec_tf.experiments.sweep.status import State, Status, time_left

_STYLES = {State.RUNNING: "cyan", State.FINISHED: "green", State.FAILED: "red", State.STOPPED: ""}
_ORDER = [State.RUNNING, State.FAILED, State.STOPPED, State.WAITING, State.FINISHED]
_LINES_BESIDE = 6  # of a terminal: head, borders, the line for the whole
_LOG_WIDTH = 160  # columns, if there is no terminal
_LOG_EVERY = 60.0  # seconds between lines for the whole, if there is no terminal


class Display:
    """Shows trials while they run."""

    def __init__(self, console: Console | None = None) -> None:
        """Shows on the standard output, or on a console."""
        width = None if sys.stdout.isatty() else _LOG_WIDTH
        self._console = console or Console(highlight=False, width=width)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._logged = 0.0

    def __enter__(self) -> "Display":
        """Begins to show."""
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leaves the terminal as it was."""
        self._live.stop()

    def show(self, statuses: Sequence[Status]) -> None:
        """Draws the table again; without a terminal, prints a line a minute."""
        if self._console.is_terminal:
            rows = max(3, self._console.size.height - _LINES_BESIDE)
            self._live.update(table(statuses, rows), refresh=True)
        elif time.monotonic() - self._logged >= _LOG_EVERY:
            self._logged = time.monotonic()
            self.say(summary(statuses))

    def print_table(self, statuses: Sequence[Status]) -> None:
        """Prints the table once, with all trials."""
        self._console.print(table(statuses))

    def say(self, text: str) -> None:
        """Prints a line with the time of day, above the table."""
        self._console.print(f"{time.strftime('%H:%M:%S')} {text}", markup=False, soft_wrap=True)


def table(statuses: Sequence[Status], rows: int | None = None) -> Group:
    """Returns the table, the trials that run first, and of those after `rows` only how many."""
    drawn = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    drawn.add_column("trial", no_wrap=True)
    drawn.add_column("state", no_wrap=True)
    for name in ("frames", "frames/s", "last score", "time left"):
        drawn.add_column(name, justify="right", no_wrap=True)
    ordered = sorted(statuses, key=lambda status: _ORDER.index(status.state))
    for status in ordered[:rows]:
        drawn.add_row(*_cells(status), style=_STYLES.get(status.state, "dim"))
    if rows is not None and len(ordered) > rows:
        drawn.add_row(f"and {len(ordered) - rows} more")
    return Group(drawn, Text(summary(statuses), style="bold"))


def summary(statuses: Sequence[Status]) -> str:
    """Returns the line for the whole."""
    counts = collections.Counter(status.state for status in statuses)
    states = ", ".join(f"{counts[state]} {state.value}" for state in State if counts[state])
    done = sum(status.trial.frames - status.frames_left for status in statuses)
    speed = sum(s.speed for s in statuses if s.state is State.RUNNING and s.speed)
    return (
        f"{len(statuses)} trials: {states}; {done:,} of"
        f" {sum(status.trial.frames for status in statuses):,} frames; {speed:,.0f} frames/s;"
        f" time left {_duration(time_left(statuses))}"
    )


def _cells(status: Status) -> list[str]:
    state = status.state.value
    if status.state is State.RUNNING and status.host:
        state += f" on {status.host}"
    if status.failures or status.losses:
        state += f", attempt {1 + status.failures + status.losses}"
    running = status.state is State.RUNNING
    return [
        status.trial.name,
        state,
        f"{status.frames / 1000:,.0f}k / {status.trial.frames / 1000:,.0f}k",
        f"{status.speed:,.0f}" if running and status.speed else "-",
        "-" if status.evaluation is None else f"{status.evaluation:,.5g}",
        _duration(status.seconds_left) if running else "-",
    ]


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    hours, minutes = divmod(int(seconds) // 60, 60)
    return f"{hours}:{minutes:02d}:{int(seconds) % 60:02d}"
