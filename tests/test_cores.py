import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from nec_tf import cores
from nec_tf.cores import SharedCores

CORES = sorted(os.sched_getaffinity(0))
several = pytest.mark.skipif(len(CORES) < 2, reason="there is one core only")


@pytest.fixture
def joined(monkeypatch):
    """Returns a function: cores that so many threads have joined, and the ids of these threads."""
    pools = []

    def make(num_threads, available=2):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(CORES[:available]))
        shared = SharedCores(num_threads)
        monkeypatch.undo()
        pool = ThreadPoolExecutor(num_threads, initializer=shared.join)
        pools.append(pool)
        all_here = threading.Barrier(num_threads)
        list(pool.map(lambda _: all_here.wait(30), range(num_threads)))
        return shared, [thread.native_id for thread in pool._threads]

    yield make
    for pool in pools:
        pool.shutdown()


def allowed(threads):
    return [os.sched_getaffinity(thread) for thread in threads]


@several
def test_while_the_caller_waits_each_thread_has_a_core_and_afterwards_none_has_the_callers(joined):
    shared, threads = joined(2)
    here = {CORES[0]}
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, here)  # so that it is known on which core the caller runs
    try:
        with shared.lent():
            assert sorted(map(sorted, allowed(threads))) == [[CORES[0]], [CORES[1]]]
        assert allowed(threads) == [{CORES[1]}] * 2
    finally:
        os.sched_setaffinity(0, before)


@several
def test_threads_leave_the_core_also_where_waiting_failed(joined):
    shared, threads = joined(2)
    with pytest.raises(KeyError), shared.lent():
        raise KeyError
    assert all(len(mask) == 1 for mask in allowed(threads))
    assert len(set(map(frozenset, allowed(threads)))) == 1


@several
def test_one_thread_never_needs_the_core_of_the_caller(joined):
    shared, threads = joined(1)
    before = allowed(threads)
    with shared.lent():
        assert allowed(threads) == before
    assert allowed(threads) == before


def test_nobody_is_moved_where_there_is_one_core(joined):
    shared, threads = joined(2, available=1)
    before = allowed(threads)
    with shared.lent():
        assert allowed(threads) == before
    assert allowed(threads) == before


def test_whoever_joins_gives_way(joined):
    _, threads = joined(2)
    own = os.getpriority(os.PRIO_PROCESS, 0)
    for thread in threads:
        assert os.getpriority(os.PRIO_PROCESS, thread) == min(19, own + cores._NICENESS)
