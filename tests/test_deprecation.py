"""Every old name works for one release, and warns."""

import importlib

import numpy as np
import pytest

import kmc
from kmc import spectral
from kmc.kernels import Gaussian, Kernel

RUN = {"dim": 1, "sampler": "random-walk", "draws": 5, "warmup": 2, "chains": 2, "seed": 1}


def test_replicas_are_independent_runs():
    density = lambda x: -0.5 * float(x @ x)  # noqa: E731
    with pytest.warns(DeprecationWarning, match="the argument replicas is now independent_runs") as caught:
        old = kmc.sample(density, replicas=2, progress=False, **RUN)
    assert caught[0].filename == __file__
    assert old.attrs["independent_runs"] == old.attrs["replicas"] == 2
    with pytest.warns(DeprecationWarning, match="the argument replicas is now independent_runs"):
        run = kmc.iterate(density, replicas=2, **RUN)
    for _ in run:
        pass
    np.testing.assert_array_equal(run.result().posterior["x"], old.posterior["x"])
