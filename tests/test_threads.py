import os
import signal
import warnings

import numba
import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import kmc
from kmc.mcmc.kernel_hmc_state import KernelHMCState
from kmc.threads import in_threads, single_threaded


def threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_one_thread_inside_and_as_before_outside():
    before = threads()
    with single_threaded():
        assert threads() == {1}
    assert threads() == before


def test_the_sampler_has_one_thread_and_the_target_its_own(monkeypatch):
    inside, outside = [], []
    advance = KernelHMCState.advance
    monkeypatch.setattr(KernelHMCState, "advance", lambda *args: (inside.append(threads()), advance(*args))[1])

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
