"""Updates whose gradients are computed while the agent acts, each in its own thread.

An update has two phases. It first reads: it embeds its minibatch and looks it up in the memory.
Then it computes gradients from what it read. `OverlappedUpdates` keeps one rule: the network and
the memory change only while no update is in its first phase. So the result of an update depends on
when it was begun and applied, both counted in steps, and never on how long anything takes.

Why this is safe:
- The end of the first phase is an operation of the graph: the backward pass needs its output, and
  it needs the loss, for which everything has been read (`NecAgent.gradients`, `after_reading`).
- `finish_oldest` waits until all updates have read before it applies one, and `begin` before it
  synchronises the index.
- `DifferentiableNeuralDictionary.begin_reading` counts the updates in their first phase, and every
  method that changes the memory raises `RuntimeError` while the count is above 0.
"""

import collections
import itertools
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tf_agents.agents import tf_agent

from nec_tf.agents.episodic_agent import Experience
from nec_tf.agents.nec.agent import Gradients, NecAgent
from nec_tf.runtime.cores import SharedCores
from nec_tf.runtime.graphs import Graph

_THREADS = 2  # with one, acting would wait for the end of each update


class Minibatch(NamedTuple):
    """Training data of one update.

    Attributes:
        experience: [B].
        left_out: Ids of states whose entries are not looked up, int64 [B, n]; n may be 0.
    """

    experience: Experience
    left_out: np.ndarray


class _Update(NamedTuple):
    """An update whose gradients are being computed.

    Attributes:
        computed: The loss and the gradients.
        has_read: Set at the end of its first phase.
    """

    computed: Future
    has_read: threading.Event


class OverlappedUpdates:
    """Computes gradients in threads and applies them later, oldest first."""

    def __init__(self, agent: NecAgent) -> None:
        """Starts with no update."""
        self._agent = agent
        self._gradients = Graph(self._compute)
        self._apply = Graph(agent.apply)
        self._cores = SharedCores()  # active on two cores only; NEC_TF_PIN_CORES=0 turns it off
        self._threads = ThreadPoolExecutor(_THREADS, "update", self._cores.join)
        self._updates: collections.deque[_Update] = collections.deque()
        self._numbers = itertools.count()
        self._reading: dict[int, threading.Event] = {}  # by the number of the update

    def __len__(self) -> int:
        """Returns the number of updates begun and not applied."""
        return len(self._updates)

    def begin(self, minibatches: Iterable[Callable[[], Minibatch]]) -> None:
        """Begins to compute the gradients of minibatches, all from the current state.

        Args:
            minibatches: Called in the threads, before anything is looked up.
        """
        self._wait_until_all_have_read()
        self._agent.dnd.sync()
        for minibatch in minibatches:
            number, has_read = next(self._numbers), threading.Event()
            self._reading[number] = has_read
            self._agent.dnd.begin_reading()
            computed = self._threads.submit(self._run, minibatch, number)
            self._updates.append(_Update(computed, has_read))

    def finish_oldest(self) -> tf_agent.LossInfo:
        """Waits for the update that was begun first, applies it and returns its loss."""
        oldest = self._updates.popleft().computed
        if not oldest.done():
            with self._cores.lent():
                wait([oldest])
        self._wait_until_all_have_read()
        loss, gradients = oldest.result()
        self._apply(gradients)
        return loss

    def _wait_until_all_have_read(self) -> None:
        reading = [update.has_read for update in self._updates if not update.has_read.is_set()]
        if reading:
            with self._cores.lent():
                for has_read in reading:
                    has_read.wait()

    def _run(
        self, minibatch: Callable[[], Minibatch], number: int
    ) -> tuple[tf_agent.LossInfo, Gradients]:
        try:
            return self._gradients(minibatch(), np.int64(number))
        finally:
            self._end_reading(number)  # also if it failed: others wait for it

    def _compute(
        self, minibatch: Minibatch, number: tf.Tensor
    ) -> tuple[tf_agent.LossInfo, Gradients]:
        def after_reading(loss: tf.Tensor) -> tf.Tensor:
            def end(_: np.ndarray, number: np.ndarray) -> np.float32:
                self._end_reading(int(number))
                return np.float32(1.0)

            return tf.numpy_function(end, [loss, number], loss.dtype)

        left_out = minibatch.left_out if minibatch.left_out.shape[-1] else None
        return self._agent.gradients(
            minibatch.experience, after_reading=after_reading, left_out=left_out
        )

    def _end_reading(self, number: int) -> None:
        """Signals that update `number` has finished its first phase; later calls do nothing."""
        has_read = self._reading.pop(number, None)
        if has_read is not None:
            self._agent.dnd.end_reading()
            has_read.set()
