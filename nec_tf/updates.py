"""Updates whose gradients are computed beside the loop, each in a thread of its own."""

import collections
import itertools
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tf_agents.agents import tf_agent

from nec_tf.cores import SharedCores
from nec_tf.episodic_agent import Experience
from nec_tf.graphs import Graph
from nec_tf.nec_agent import Gradients, NecAgent

_THREADS = 2  # one update alone would keep acting waiting for its end


class _Update(NamedTuple):
    """An update that is under way.

    Attributes:
        computed: The loss and the gradients.
        looked_up: Set when it has read all that it wants of the network and the memory.
    """

    computed: Future
    looked_up: threading.Event


class UpdatesUnderWay:
    """Computes gradients from what is there when they are begun, and applies them later.

    An update first embeds its minibatch and looks it up, then goes back through what it read. No
    other one is applied or begun before it has read everything, and whoever changes the memory
    finishes all of them first. So what comes out does not depend on how long anything takes.
    """

    def __init__(self, agent: NecAgent) -> None:
        """None is under way."""
        self._agent = agent
        self._gradients = Graph(self._compute)
        self._apply = Graph(agent.apply)
        self._cores = SharedCores()
        self._threads = ThreadPoolExecutor(_THREADS, "update", self._cores.join)
        self._updates: collections.deque[_Update] = collections.deque()
        self._numbers = itertools.count()
        self._reading: dict[int, threading.Event] = {}  # by the number of the update

    def __len__(self) -> int:
        """Returns how many are under way."""
        return len(self._updates)

    def begin(self, minibatches: Iterable[Callable[[], Experience]]) -> None:
        """Begins to compute the gradients of minibatches, all from what is there now.

        Args:
            minibatches: Called in the threads, before they look anything up.
        """
        self._wait_until_all_looked_up()
        self._agent.dnd.settle()
        for minibatch in minibatches:
            number, looked_up = next(self._numbers), threading.Event()
            self._reading[number] = looked_up
            computed = self._threads.submit(self._run, minibatch, number)
            self._updates.append(_Update(computed, looked_up))

    def finish_oldest(self) -> tf_agent.LossInfo:
        """Waits for the one that was begun first, applies it and returns its loss."""
        oldest = self._updates.popleft().computed
        if not oldest.done():
            with self._cores.lent():
                wait([oldest])
        self._wait_until_all_looked_up()
        loss, gradients = oldest.result()
        self._apply(gradients)
        return loss

    def _wait_until_all_looked_up(self) -> None:
        reading = [update.looked_up for update in self._updates if not update.looked_up.is_set()]
        if reading:
            with self._cores.lent():
                for looked_up in reading:
                    looked_up.wait()

    def _run(
        self, minibatch: Callable[[], Experience], number: int
    ) -> tuple[tf_agent.LossInfo, Gradients]:
        try:
            return self._gradients(minibatch(), np.int64(number))
        finally:
            self._tell(number)  # also where it failed: nobody must wait for ever

    def _compute(
        self, experience: Experience, number: tf.Tensor
    ) -> tuple[tf_agent.LossInfo, Gradients]:
        def between(loss: tf.Tensor) -> tf.Tensor:
            return tf.numpy_function(lambda _, of: self._tell(int(of)), [loss, number], loss.dtype)

        return self._agent.gradients(experience, between=between)

    def _tell(self, number: int) -> np.float32:
        """Says that an update has looked up; returns the gradient of the loss by itself."""
        looked_up = self._reading.pop(number, None)
        if looked_up is not None:
            looked_up.set()
        return np.float32(1.0)
