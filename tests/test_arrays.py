"""Samples in arrays of other libraries: the same results as NumPy's, to rounding."""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

from kmc import arrays
from kmc.bases import KernelSections, Monomials
from kmc.forms import accumulate, accumulate_folds
from kmc.kernels import Exponential, Gaussian, InverseMultiquadric, Matern52, Matern72, Metric
from kmc.scores import LiteKEF
from kmc.spectral import DiffusionMap, DirichletForm, TransitionOperator, galerkin

FORMS = ("mass", "dirichlet", "lagged")
X = np.random.default_rng(0).standard_normal((3000, 3)) + 50.0  # an offset costs no digits
CENTERS = X[::150]
WEIGHTS = np.random.default_rng(1).random(len(X))


class Library(NamedTuple):
    """A library of arrays, and its function that makes them on the device of a test."""

    name: str
    asarray: Callable[[np.ndarray], Any]


@pytest.fixture(params=["torch", "array_api_strict", "jax.numpy", "torch on a GPU", "cupy"])
def library(request):
    """CuPy's and JAX's arrays are on the GPU if there is one."""
    pytest.importorskip("array_api_compat")
    name, _, device = request.param.partition(" on a ")
    found = pytest.importorskip(name)
    if name == "jax.numpy":
        wide_jax(request, True)
    if name == "cupy" and not found.is_available():
        pytest.skip("CuPy sees no GPU")
    if device and not found.cuda.is_available():
        pytest.skip("PyTorch sees no GPU")
    return Library(name, partial(found.asarray, device="cuda") if device else found.asarray)


def wide_jax(request, on):
    """Whether JAX has double precision, in this test."""
    config = pytest.importorskip("jax").config
    request.addfinalizer(lambda before=config.jax_enable_x64: config.update("jax_enable_x64", before))
    config.update("jax_enable_x64", on)


def close(found, expected, tolerance):
    for name in ("mass_scatter", "dirichlet"):
        a, b = getattr(found, name), getattr(expected, name)
        np.testing.assert_allclose(a, b, atol=tolerance * np.abs(b).max())
    for name in ("first_sum", "first_scatter", "second_scatter", "cross_scatter"):
        a, b = getattr(found.lagged, name), getattr(expected.lagged, name)
        np.testing.assert_allclose(a, b, atol=tolerance * np.abs(b).max())
        assert isinstance(a, np.ndarray)
        assert a.dtype == np.float64


@pytest.mark.parametrize(
    "kernel",
    [
        Gaussian(1.2),
        InverseMultiquadric(1.5),
        Metric(Gaussian() * Matern52(3.0) + 0.5 * Matern72(2.0), [1.0, 0.5, 2.0]),
    ],
    ids=["gaussian", "inverse multiquadric", "composed"],
)
def test_sums_are_those_of_numpy(library, kernel):
    basis, options = KernelSections(kernel, CENTERS), {"lagtime": 3, "block": 700}
    expected = accumulate(basis, X, FORMS, weights=WEIGHTS, **options)
    close(accumulate(basis, library.asarray(X), FORMS, weights=WEIGHTS, **options), expected, 1e-12)
    trajectories = [library.asarray(part) for part in np.split(X, [10, 12, 2000])]
    found = accumulate_folds(basis, trajectories, FORMS, 4, **options)
    expected = accumulate_folds(basis, np.split(X, [10, 12, 2000]), FORMS, 4, **options)
    for a, b in zip(found, expected, strict=True):
        close(a, b, 1e-12)


@pytest.mark.parametrize("dtype", ["float32", None])
def test_products_in_single_precision(dtype):
    """Of NumPy arrays on request, and of another library's in their own type."""
    if dtype is None:
        torch, _ = pytest.importorskip("torch"), pytest.importorskip("array_api_compat")
    basis, options = KernelSections(Gaussian(1.2), CENTERS), {"weights": WEIGHTS, "lagtime": 3}
    exact = accumulate(basis, X, FORMS, **options)
    single = accumulate(basis, X if dtype else torch.asarray(X - 50.0).float() + 50.0, FORMS, dtype=dtype, **options)
    close(single, exact, 1e-5 if dtype else 1e-4)  # 50 + x has a rounding error of 2e-6
    assert np.abs(single.mass_scatter - exact.mass_scatter).max() / np.abs(exact.mass_scatter).max() > 1e-9


def test_what_is_not_written_for_arrays_is_converted(library):
    x = library.asarray(X[:200])
    for basis, forms in ((Monomials(2, 3), ("mass", "dirichlet")), (KernelSections(Gaussian(), CENTERS), ("linear",))):
        found, expected = (accumulate(basis, points, forms) for points in (x, X[:200]))
        for name in forms:
            np.testing.assert_array_equal(found.get(name), expected.get(name))
    kinked = KernelSections(Exponential(1.0), CENTERS)
    np.testing.assert_array_equal(accumulate(kinked, x, ("mass",)).mass, accumulate(kinked, X[:200], ("mass",)).mass)


def test_fits(library):
    """Sums and dense problems where the samples are; transforms take them as well."""
    z = X[:, :2] - 50.0
    there = library.asarray(z)
    options = {"n_components": 2, "bandwidth": 1.5, "regularization": 1e-4, "n_basis": 30, "random_state": 0}
    for found, expected in (
        (DiffusionMap(**options).fit(there), DiffusionMap(**options).fit(z)),
        (TransitionOperator(**options).fit([there, there]), TransitionOperator(**options).fit([z, z])),
    ):
        np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-7)
        np.testing.assert_allclose(np.abs(found.transform(there[:5, :])), np.abs(expected.transform(z[:5])), rtol=1e-4)
    basis = KernelSections(Gaussian(1.5), z[:20])
    found, expected = (galerkin(DirichletForm(), basis, None, points, n_components=3) for points in (there, z))
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-7)
    scores = [LiteKEF(n_basis=20, random_state=0).fit(points).gradient(z[:5]) for points in (there, z)]
    np.testing.assert_allclose(*scores, rtol=1e-6)


def test_dense_problems_are_solved_where_the_samples_live(library, monkeypatch):
    solved = []
    monkeypatch.setattr(
        arrays.Home,
        "put",
        lambda self, a, dtype=None, put=arrays.Home.put: (
            solved.append((self.xp.__name__, np.shape(a))) or put(self, a, dtype)
        ),
    )
    TransitionOperator(n_components=2, bandwidth=1.5, regularization=1e-4, n_basis=30, random_state=0).fit(
        [library.asarray(X[:500])]
    )
    assert any(library.name in name and len(shape) == 2 and shape[0] == shape[1] for name, shape in solved)
    assert arrays.solvers() is None  # not beyond the fit


def test_without_double_precision_dense_problems_are_solved_by_scipy(request):
    jax, _ = pytest.importorskip("jax.numpy"), pytest.importorskip("array_api_compat")
    wide_jax(request, False)
    z = X[:, :2] - 50.0
    there = jax.asarray(z)
    assert arrays.home_of(there).widest == "float32"
    with arrays.solving_where(there):
        assert arrays.solvers() is None
    options = {"n_components": 1, "bandwidth": 1.5, "regularization": 1e-2, "n_basis": 30, "random_state": 0}
    found, expected = (TransitionOperator(**options).fit([points]) for points in (there, z))
    assert found.eigenvalues_.dtype == np.float64
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-4)


def test_points_that_are_wrong(library):
    bad = X[:50].copy()
    bad[7, 1] = np.nan
    basis = KernelSections(Gaussian(), CENTERS)
    with pytest.raises(ValueError, match="x contains NaN or infinity"):
        accumulate(basis, library.asarray(bad), ("mass",))
    with pytest.raises(ValueError, match=r"x has a block of shape \(50,\)"):
        accumulate(basis, library.asarray(bad[:, 0]), ("mass",))
    with pytest.raises(ValueError, match="dtype='half'"):
        accumulate(basis, X, ("mass",), dtype="half")


def test_whole_numbers(library):
    x = np.arange(12).reshape(6, 2)
    basis = KernelSections(Gaussian(3.0), x[::2].astype(float))
    found, expected = accumulate(basis, library.asarray(x), ("mass",)), accumulate(basis, x, ("mass",))
    np.testing.assert_allclose(found.mass, expected.mass)


def test_without_array_api_compat_arrays_are_converted(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setitem(sys.modules, "array_api_compat", None)
    arrays._compat.cache_clear()
    try:
        assert arrays.home_of(torch.ones(3)) is None
        basis = KernelSections(Gaussian(), CENTERS)
        there = accumulate(basis, torch.asarray(X[:100]), ("mass",))
        np.testing.assert_array_equal(there.mass, accumulate(basis, X[:100], ("mass",)).mass)
    finally:
        arrays._compat.cache_clear()
