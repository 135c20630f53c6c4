"""Runs the trials of a sweep: starts, watches, tries again, stops and records them."""

import dataclasses
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from nec_tf.experiments.results import save_result
from nec_tf.experiments.stopping import StopRequest
from nec_tf.experiments.sweep import launch, worker
from nec_tf.experiments.sweep.cluster import GIGABYTE
from nec_tf.experiments.sweep.plan import Trial
from nec_tf.experiments.sweep.status import State, Status, is_finished, survey

_ATTEMPTS = 3  # of a trial that fails: it is tried again twice
# Of a trial whose worker or node dies: not its fault, but something may be wrong with it.
_LOSSES = 20
_LOOK_EVERY = 1.0  # seconds
_ERROR_LINES = 12


@dataclasses.dataclass(frozen=True)
class Resources:
    """What Ray reserves for each trial.

    Attributes:
        cpus: Cores; the threads of a trial stay on as many.
        memory: Gigabytes.
    """

    cpus: int = 1
    memory: float = 3.0


@dataclasses.dataclass
class _Attempt:
    status: Status
    actor: Any
    placed: Any  # answers once the trial has its place
    ended: Any  # answers with the exit code


class Driver:
    """Runs trials on a connected Ray. What it knows is in the run folders; it can die at any time.

    Attributes:
        statuses: All trials.
    """

    def __init__(
        self,
        ray: Any,
        trials: Sequence[Trial],
        resources: Resources,
        results_dir: Path | None,
        show: Callable[[Sequence[Status]], None] = lambda statuses: None,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Prepares a sweep.

        Args:
            ray: The module, connected.
            trials: What to run.
            resources: Of each trial.
            results_dir: Where results of finished trials are recorded; None for nowhere.
            show: Called about once a second with all trials.
            say: Called with what happened, a line at a time.
        """
        ray.cloudpickle.register_pickle_by_value(worker)
        self._ray = ray
        self._resources = resources
        self._results_dir = results_dir
        self._show = show
        self._say = say
        self._attempts: dict[Any, _Attempt] = {}  # by the reference that answers at the end
        self._actor_class = ray.remote(
            num_cpus=resources.cpus,
            memory=int(resources.memory * GIGABYTE),
            max_restarts=0,
            max_concurrency=2,
        )(worker.TrialWorker)
        self.statuses = survey(trials)

    def run(self) -> bool:
        """Runs all trials; returns whether all are finished. Ctrl-C saves and stops them."""
        stop = StopRequest()
        with stop:
            try:
                for status in self.statuses:
                    stop.check()
                    if status.state is State.FINISHED:
                        self._finish(status)  # again: the driver may have died before it recorded
                    else:
                        self._start(status)
                while self._attempts:
                    stop.check()
                    self._look()
            except KeyboardInterrupt:
                self._stop_all()
        return all(status.state is State.FINISHED for status in self.statuses)

    def _start(self, status: Status) -> None:
        trial = status.trial
        actor = self._actor_class.remote()
        # A node may have other variables than this machine: how TensorFlow rounds is the driver's.
        environment = {name: text for name, text in os.environ.items() if name.startswith("TF_")}
        ended = actor.run.remote(
            trial.command(), str(trial.run_dir), self._resources.cpus, launch.__file__, environment
        )
        status.state = State.WAITING
        status.begin_session()
        self._attempts[ended] = _Attempt(status, actor, actor.host.remote(), ended)

    def _look(self) -> None:
        """Waits a moment, then takes note of everything that has changed."""
        ended, _ = self._ray.wait(list(self._attempts), timeout=_LOOK_EVERY)
        for reference in ended:
            self._end(self._attempts.pop(reference))
        self._note_placed()
        for attempt in self._attempts.values():
            if attempt.status.state is State.RUNNING:
                attempt.status.refresh()
        self._show(self.statuses)

    def _note_placed(self) -> None:
        waiting = {a.placed: a for a in self._attempts.values() if a.status.state is State.WAITING}
        if not waiting:
            return
        placed, _ = self._ray.wait(list(waiting), num_returns=len(waiting), timeout=0)
        for reference in placed:
            try:
                waiting[reference].status.host = self._ray.get(reference)
            except self._ray.exceptions.RayError:
                continue  # the end of the attempt says what happened
            waiting[reference].status.state = State.RUNNING
            self._say(f"{waiting[reference].status.trial.name}: running")

    def _end(self, attempt: _Attempt) -> None:
        """Decides what follows an attempt: the end of the trial, or another attempt."""
        status = attempt.status
        code: int | None = None
        try:
            code = self._ray.get(attempt.ended)
        except self._ray.exceptions.RayError as error:
            status.losses += 1
            status.error = f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
        self._ray.kill(attempt.actor)
        status.refresh()
        if is_finished(status.trial):
            self._finish(status)
        elif code == 0:
            status.state = State.STOPPED  # by a signal that did not come from here
            self._say(f"{status.trial.name}: saved at {status.frames:,} frames")
        else:
            if code is not None:
                status.failures += 1
                status.error = _tail(status.trial.run_dir / worker.LOG, code)
            self._try_again(status)

    def _try_again(self, status: Status) -> None:
        reason = status.error.splitlines()[-1] if status.error else "no output"
        if status.failures >= _ATTEMPTS or status.losses > _LOSSES:
            status.state = State.FAILED
            self._say(f"{status.trial.name}: failed ({reason})")
        else:
            self._say(f"{status.trial.name}: trying again ({reason})")
            self._start(status)

    def _finish(self, status: Status) -> None:
        status.state = State.FINISHED
        if self._results_dir is not None:
            save_result(status.trial.run_dir, self._results_dir, status.trial.variant)
        self._say(f"{status.trial.name}: finished")

    def _stop_all(self) -> None:
        """Lets all trials save a checkpoint, and waits for them; a second Ctrl-C does not wait."""
        self._say("stopping: trials save their checkpoints (Ctrl-C again: without saving)")
        impatient = StopRequest()
        with impatient:
            for reference, attempt in list(self._attempts.items()):
                if attempt.status.state is State.RUNNING:
                    attempt.actor.stop.remote()
                else:
                    self._abandon(reference)
            try:
                while self._attempts:
                    impatient.check()
                    ended, _ = self._ray.wait(list(self._attempts), timeout=_LOOK_EVERY)
                    for reference in ended:
                        self._abandon(reference)
                    self._show(self.statuses)
            except KeyboardInterrupt:
                for reference in list(self._attempts):
                    self._abandon(reference)

    def _abandon(self, reference: Any) -> None:
        """Ends an attempt for good; its trial is finished if its checkpoint is."""
        attempt = self._attempts.pop(reference)
        self._ray.kill(attempt.actor)
        attempt.status.refresh()
        if is_finished(attempt.status.trial):
            self._finish(attempt.status)
        elif attempt.status.state is State.RUNNING:
            attempt.status.state = State.STOPPED


def _tail(log: Path, code: int) -> str:
    """Returns the last lines that a trial printed, and how it ended."""
    lines: list[str] = []
    if log.exists():
        # Progress bars overwrite their line by carriage returns.
        text = log.read_bytes().replace(b"\r", b"\n").decode(errors="replace")
        lines = [line.rstrip() for line in text.splitlines() if line.strip()][-_ERROR_LINES:]
    ended = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
    return "\n".join([f"({ended})", *lines])
