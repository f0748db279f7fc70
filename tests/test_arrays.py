"""Samples in arrays of other libraries are converted: the same results as NumPy's."""

import numpy as np
import pytest

from kmc.bases import KernelSections
from kmc.forms import accumulate
from kmc.kernels import Gaussian
from kmc.scores import LiteKEF
from kmc.spectral import DiffusionMap, TransitionOperator

Z = np.random.default_rng(0).standard_normal((300, 2))
BASIS = KernelSections(Gaussian(1.5), Z[:20])


@pytest.fixture(params=["torch", "jax.numpy"])
def convert(request):
    library = pytest.importorskip(request.param)
    if request.param == "jax.numpy":
        config = pytest.importorskip("jax").config
        request.addfinalizer(
            lambda before=config.jax_enable_x64: config.update("jax_enable_x64", before)
        )
        config.update("jax_enable_x64", True)
    return library.asarray


def test_sums(convert):
    forms = ("mass", "dirichlet")
    found, expected = (accumulate(BASIS, points, forms) for points in (convert(Z), Z))
    for name in forms:
        np.testing.assert_array_equal(found.get(name), expected.get(name))


def test_fits(convert):
    there = convert(Z)
    options = {
        "n_components": 2,
        "bandwidth": 1.5,
        "regularization": 1e-4,
        "n_basis": 30,
        "random_state": 0,
    }
    for found, expected in (
        (DiffusionMap(**options).fit(there), DiffusionMap(**options).fit(Z)),
        (
            TransitionOperator(**options).fit([there, there]),
            TransitionOperator(**options).fit([Z, Z]),
        ),
    ):
        np.testing.assert_array_equal(found.eigenvalues_, expected.eigenvalues_)
        np.testing.assert_array_equal(found.transform(there[:5]), expected.transform(Z[:5]))
    scores = [
        LiteKEF(n_basis=20, random_state=0).fit(points).gradient(Z[:5]) for points in (there, Z)
    ]
    np.testing.assert_array_equal(*scores)


def test_whole_numbers(convert):
    x = np.arange(12).reshape(6, 2)
    found, expected = (accumulate(BASIS, points, ("mass",)) for points in (convert(x), x))
    np.testing.assert_array_equal(found.mass, expected.mass)


def test_points_that_are_wrong(convert):
    bad = Z.copy()
    bad[7, 1] = np.nan
    with pytest.raises(ValueError, match="x contains NaN or infinity"):
        accumulate(BASIS, convert(bad), ("mass",))
    with pytest.raises(ValueError, match=r"x has a block of shape \(300,\)"):
        accumulate(BASIS, convert(bad[:, 0]), ("mass",))
