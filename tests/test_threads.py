import os
import signal
import threading
import warnings
from contextvars import ContextVar

import numba
import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import kmc
from kmc.kernel_hmc.state import KernelHMCState
from kmc.threads import each_in_threads, in_threads, single_threaded


def threads():
    return {
        library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
    }


def test_one_thread_inside_and_as_before_outside():
    before = threads()
    with single_threaded():
        assert threads() == {1}
    assert threads() == before


def test_the_sampler_has_one_thread_and_the_target_its_own(monkeypatch):
    inside, outside = [], []
    advance = KernelHMCState.advance
    monkeypatch.setattr(
        KernelHMCState, "advance", lambda *args: (inside.append(threads()), advance(*args))[1]
    )

    def target(x):
        outside.append(threads())
        return -0.5 * float(np.dot(x, x))

    with threadpool_limits(limits=2, user_api="blas"):
        usual = threads()
        kmc.sample(target, dim=2, draws=5, warmup=5, seed=1, progress=False)
    assert all(found == {1} for found in inside) and inside
    assert all(found == usual for found in outside) and outside


def test_parts_in_threads(monkeypatch):
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", 3)
    called = []
    for most in (5, 2):
        in_threads(lambda *part: called.append(part), most)
    assert sorted(called) == [(0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda k, parts: 1 / (1 - k), 3)


def test_each_at_the_same_time_and_in_order(monkeypatch):
    """Two wait for each other: a loop would wait forever."""
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", 2)
    meeting = threading.Barrier(2)
    found = each_in_threads(lambda item: (meeting.wait(20) >= 0, 10 * item), iter(range(4)))
    assert found == [(True, 10 * item) for item in range(4)]
    assert each_in_threads(abs, []) == []


@pytest.mark.parametrize("threads", [1, 2])
def test_the_first_error_is_raised(monkeypatch, threads):
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", threads)
    tried = []

    def inverse(item):
        tried.append(item)
        if item == 3:
            raise KeyError(item)
        return 1 / (item - 2)

    with pytest.raises(ZeroDivisionError):
        each_in_threads(inverse, range(100))
    assert len(tried) <= 2 + threads


def test_threads_know_what_their_caller_does(monkeypatch):
    """Such as where NumPy's errors are ignored, and where dense problems are solved."""
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", 2)
    known, meeting = ContextVar("known", default=0), threading.Barrier(2)
    known.set(7)
    assert each_in_threads(lambda _: (meeting.wait(20) >= 0) * known.get(), range(2)) == [7, 7]


def test_threads_inside_threads_do_not_wait_for_each_other(monkeypatch):
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", 2)
    meeting = threading.Barrier(2)

    def sums(item):
        meeting.wait(20)
        return sum(each_in_threads(lambda i: i + item, range(3)))

    assert each_in_threads(sums, range(2)) == [3, 6]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_has_threads_of_its_own(monkeypatch):
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", 2)
    called = []
    in_threads(lambda *part: called.append(part), 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of the fork of a process with threads
        child = os.fork()
    if not child:
        signal.alarm(20)  # ends it if it waits for its parent's threads
        in_threads(lambda *part: called.append(part), 2)
        os._exit(len(called))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
