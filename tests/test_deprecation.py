"""Every old name works for one release, and warns."""

import importlib

import numpy as np
import pytest

from kmc import scores

MODULES = [
    ("kmc.mcmc", "Problem", "SamplerSetup"),
    ("kmc.mcmc", "Process", "SamplerState"),
    ("kmc.mcmc", "Sweep", "Step"),
    ("kmc.mcmc.base", "Problem", "SamplerSetup"),
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
