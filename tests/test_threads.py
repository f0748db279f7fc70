import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

import kmc
from kmc.mcmc.kernel_hmc import KernelHMCState
from kmc.threads import single_threaded


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
