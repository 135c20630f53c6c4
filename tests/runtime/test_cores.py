import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from nec_tf.runtime import cores
from nec_tf.runtime.cores import SharedCores

CORES = sorted(os.sched_getaffinity(0))
several = pytest.mark.skipif(len(CORES) < 2, reason="there is one core only")


@pytest.fixture
def joined():
    """Returns a function: `SharedCores` that so many threads have joined, and their ids."""
    pools = []

    def make(num_threads, **arguments):
        shared = SharedCores(**arguments)
        pool = ThreadPoolExecutor(num_threads, initializer=shared.join)
        pools.append(pool)
        all_here = threading.Barrier(num_threads)
        list(pool.map(lambda _: all_here.wait(30), range(num_threads)))
        return shared, [thread.native_id for thread in pool._threads]

    yield make
    for pool in pools:
        pool.shutdown()


@pytest.fixture
def available(monkeypatch):
    """Returns a function that limits the cores that the process may use."""
    ask = os.sched_getaffinity
    return lambda count: monkeypatch.setattr(
        os, "sched_getaffinity", lambda of: set(CORES[:count]) if of == 0 else ask(of)
    )


@pytest.fixture
def on_the_first_core():
    """Keeps the test's thread on the first core, so that its core is known."""
    thread = threading.get_native_id()
    before = os.sched_getaffinity(thread)
    os.sched_setaffinity(thread, {CORES[0]})
    yield
    os.sched_setaffinity(thread, before)


def allowed(threads):
    return [os.sched_getaffinity(thread) for thread in threads]


@several
@pytest.mark.usefixtures("on_the_first_core")
def test_while_the_caller_waits_each_thread_has_a_core_and_then_none_has_the_callers(
    joined, available
):
    shared, threads = joined(2)
    available(2)
    with shared.lent():
        assert sorted(map(sorted, allowed(threads))) == [[CORES[0]], [CORES[1]]]
    assert allowed(threads) == [{CORES[1]}] * 2


@several
@pytest.mark.usefixtures("on_the_first_core")
def test_threads_leave_the_core_also_if_waiting_failed(joined, available):
    shared, threads = joined(2)
    available(2)
    with pytest.raises(KeyError), shared.lent():
        raise KeyError
    assert allowed(threads) == [{CORES[1]}] * 2


@pytest.mark.parametrize(
    ("num_threads", "cores"), [(1, 2), (2, 1)], ids=["a core for each", "one core"]
)
def test_no_thread_is_moved_if_that_would_not_help(joined, available, num_threads, cores):
    shared, threads = joined(num_threads)
    available(min(cores, len(CORES)))
    before = allowed(threads)
    with shared.lent():
        assert allowed(threads) == before
    assert allowed(threads) == before


@several
@pytest.mark.usefixtures("on_the_first_core")
@pytest.mark.parametrize(
    ("variable", "arguments", "placed"),
    [
        (None, {}, True),
        ("1", {}, True),
        ("0", {}, False),
        (None, {"pin": False}, False),
        ("0", {"pin": True}, True),
    ],
)
def test_a_variable_or_an_argument_turns_placement_off(
    joined, available, monkeypatch, variable, arguments, placed
):
    monkeypatch.delenv(cores.PIN_CORES, raising=False)
    if variable is not None:
        monkeypatch.setenv(cores.PIN_CORES, variable)
    shared, threads = joined(2, **arguments)
    available(2)
    before = allowed(threads)
    with shared.lent():
        assert (allowed(threads) != before) == placed
    assert (allowed(threads) == [{CORES[1]}] * 2) == placed


def test_threads_that_join_get_a_lower_priority(joined):
    _, threads = joined(2)
    own = os.getpriority(os.PRIO_PROCESS, 0)
    for thread in threads:
        assert os.getpriority(os.PRIO_PROCESS, thread) == min(19, own + cores._NICENESS)
