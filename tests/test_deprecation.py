"""Every old name works for one release, and warns."""

import importlib

import numpy as np
import pytest

import kmc
from kmc import spectral
from kmc.kernels import Gaussian, Kernel

MODULES = [
    ("kmc.mcmc", "Problem", "SamplerSetup"),
    ("kmc.mcmc", "Process", "SamplerState"),
    ("kmc.mcmc", "Sweep", "Step"),
    ("kmc.mcmc.base", "Problem", "SamplerSetup"),
    ("kmc.kernels", "partial", "kernel_derivative"),
    ("kmc.bases", "BasePoint", "BaseJitState"),
]


@pytest.mark.parametrize(("module", "old", "new"), MODULES)
def test_an_old_name_is_the_new_thing(module, old, new):
    home = importlib.import_module(module)
    with pytest.warns(DeprecationWarning, match=rf"{module}.{old} is now {module}.{new}") as caught:
        assert getattr(home, old) is getattr(home, new)
    assert caught[0].filename == __file__


def test_other_names_are_missing_as_ever():
    with pytest.raises(AttributeError, match=r"module 'kmc.mcmc' has no attribute 'Sweeep'"):
        _ = importlib.import_module("kmc.mcmc").Sweeep


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


def test_the_score_function_of_a_diffusion_map():
    with pytest.warns(DeprecationWarning, match="the argument score of DiffusionMap is now score_function"):
        old = spectral.DiffusionMap(score=np.negative)
    assert old.score_function is np.negative and repr(old) == repr(spectral.DiffusionMap(score_function=np.negative))


def test_the_kind_of_a_kernel_under_its_old_name():
    with pytest.warns(DeprecationWarning, match=r"Kernel.argument is now Kernel.kind"):
        assert Gaussian().argument == "distance"
    with pytest.warns(DeprecationWarning, match=r"Mine.argument is now kind"):

        class Mine(Kernel):
            argument = "distance"

    assert Mine().kind == "distance"
