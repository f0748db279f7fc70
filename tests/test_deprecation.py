"""Every old name works for one release, and warns."""

import importlib

import numpy as np
import pytest

import kmc
from kmc import bases, scores, spectral
from kmc.kernels import Gaussian, Kernel
from kmc.surrogates import FitOptions

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


X = np.random.default_rng(0).standard_normal((40, 2))


@pytest.mark.parametrize(
    "estimator", [scores.GaussianScore(), scores.LiteKEF(n_basis=5), scores.DenoisingAutoencoder(max_iter=2)]
)
def test_the_old_name_of_jit_state(estimator):
    estimator.fit(X)
    with pytest.warns(DeprecationWarning, match=r"\.point is now .*\.jit_state"):
        old = estimator.point()
    assert type(old) is type(estimator.jit_state())


@pytest.mark.parametrize(
    ("cls", "old", "new", "value"),
    [
        (kmc.KernelHMC, "archive_share", "archive_probability", 0.3),
        (kmc.KernelHMC, "tempered_share", "tempered_probability", 0.3),
        (kmc.KernelHMC, "single_share", "single_move_probability", 0.3),
        (kmc.KernelHMC, "jump_share", "jump_probability", 0.3),
        (kmc.KernelHMC, "small_share", "small_step_probability", 0.3),
        (kmc.KernelHMC, "growth", "refit_growth", 1.5),
        (kmc.KernelHMC, "settle", "post_freeze_burn_in", 3),
        (FitOptions, "good", "target_loo_sd", 0.3),
    ],
)
def test_an_option_under_its_old_name(cls, old, new, value):
    with pytest.warns(DeprecationWarning, match=f"the argument {old} of {cls.__name__} is now {new}") as caught:
        options = cls(**{old: value})
    assert options == cls(**{new: value}) and caught[0].filename == __file__
    with pytest.warns(DeprecationWarning, match=rf"{cls.__name__}.{old} is now {cls.__name__}.{new}"):
        assert getattr(options, old) == value
    with pytest.raises(TypeError, match=f"{old}={value} and {new}={value} are one argument: give only {new}"):
        cls(**{old: value, new: value})


@pytest.mark.parametrize("basis", [bases.KernelSections, bases.KernelGradients, bases.KernelExpansion])
def test_centers_under_their_old_name(basis):
    with pytest.warns(DeprecationWarning, match=f"the argument centres of {basis.__name__} is now centers"):
        old = basis(Gaussian(), centres=X)
    with pytest.warns(DeprecationWarning, match=r"\.centres is now .*\.centers"):
        np.testing.assert_array_equal(old.centres, X)


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
