"""Every fit takes its samples from any source, with the same result."""

import copy
import tracemalloc
from functools import cache

import numpy as np
import pytest

from kmc import regression
from kmc.bases import Monomials
from kmc.regression import HermiteRegression
from kmc.scores import FiniteKEF, FullKEF, GaussianScore, LiteKEF, NystromKEF
from kmc.spectral import (
    DiffusionMap,
    GraphLaplacian,
    KernelJL,
    KernelPCA,
    NeuralEigenfunctions,
    NystromEmbedding,
)

X = np.random.default_rng(0).standard_normal((300, 2))
NEW = np.random.default_rng(1).standard_normal((20, 2))
WEIGHTS = np.random.default_rng(2).uniform(0.5, 1.5, 300)
VALUES, GRADIENTS = np.sin(X).prod(axis=1), np.cos(X) * np.sin(X[:, ::-1])
NETWORK = NeuralEigenfunctions(
    2, hidden_layer_sizes=(8,), max_iter=20, batch_size=16, random_state=0
)
CONTAINERS = ("list", "memmap", "list of memmaps", "iterator", "dask")


def contained(kind, a, path):
    """The rows of a, cut as the kind has it."""
    if kind == "list":
        return [a[:100], a[100:101], a[101:]]
    if kind == "iterator":
        return (a[k : k + 70] for k in range(0, len(a), 70))
    if kind == "dask":
        return pytest.importorskip("dask.array").from_array(a, chunks=(120, *a.shape[1:]))
    np.save(path / f"{id(a)}.npy", a)
    mapped = np.load(path / f"{id(a)}.npy", mmap_mode="r")
    return mapped if kind == "memmap" else [mapped[:200], mapped[200:]]


def result(model):
    """A fitted estimator at new points."""
    names = (
        ("predict", "gradient")
        if isinstance(model, HermiteRegression)
        else ("transform", "gradient")
    )
    return getattr(model, next(name for name in names if hasattr(model, name)))(NEW)


@cache
def from_arrays(model, weighted):
    """The same of a model that was fitted to arrays."""
    return result(copy.deepcopy(model).fit(X, **({"weights": WEIGHTS} if weighted else {})))


@pytest.mark.parametrize("kind", CONTAINERS)
@pytest.mark.parametrize(
    ("model", "weighted"),
    [
        (DiffusionMap(3, n_basis=30, random_state=0), True),
        (GraphLaplacian(3), False),
        (KernelJL(3, random_state=0), False),
        (KernelPCA(3, random_state=0), False),
        (NystromEmbedding(3, random_state=0), False),
        (FiniteKEF(n_basis=30, random_state=0), True),
        (FullKEF(regularization=1e-3, random_state=0), True),
        (GaussianScore(), True),
        (LiteKEF(n_basis=30, random_state=0), True),
        (NystromKEF(n_basis=10, random_state=0), True),
    ],
    ids=lambda value: type(value).__name__,
)
def test_samples(model, weighted, kind, tmp_path):
    options = {"weights": contained(kind, WEIGHTS, tmp_path)} if weighted else {}
    found = result(model.fit(contained(kind, X, tmp_path), **options))
    np.testing.assert_allclose(found, from_arrays(model, weighted), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("kind", CONTAINERS)
def test_networks(kind, tmp_path):
    pytest.importorskip("torch").set_num_threads(1)
    model = copy.deepcopy(NETWORK).fit(
        contained(kind, X, tmp_path), weights=contained(kind, WEIGHTS, tmp_path)
    )
    np.testing.assert_allclose(result(model), from_arrays(NETWORK, True), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("most", [100, 1000])
@pytest.mark.parametrize("kind", CONTAINERS)
def test_values_and_gradients(kind, most, tmp_path, monkeypatch):
    """With more samples than settings are compared on, and with fewer."""
    monkeypatch.setattr(regression, "SELECTION", most)
    whole = HermiteRegression(n_basis=20, bandwidth="cv", random_state=0)
    data = [contained(kind, a, tmp_path) for a in (X, VALUES, GRADIENTS, WEIGHTS)]
    found = HermiteRegression(n_basis=20, bandwidth="cv", random_state=0).fit(*data)
    # which are the first of an iterator, and anywhere in other data
    if kind == "iterator" and most < len(X):
        whole.set_params(
            bandwidth=found.bandwidth_,
            regularization=found.regularization_,
            landmarks=found.landmarks_,
        )
        assert all(np.any(np.all(X[:most] == y, axis=1)) for y in found.landmarks_)
    whole.fit(X, VALUES, GRADIENTS, WEIGHTS)
    np.testing.assert_allclose(found.predict(NEW), whole.predict(NEW), rtol=1e-6, atol=1e-8)


def test_blocks_of_points_values_and_gradients():
    model = HermiteRegression(n_basis=20, random_state=0)
    parts = [slice(0, 90), slice(90, 91), slice(91, 300)]
    with_gradients = model.fit(X, VALUES, GRADIENTS).predict(NEW)
    model.fit((X[part], VALUES[part], GRADIENTS[part]) for part in parts)
    np.testing.assert_allclose(model.predict(NEW), with_gradients, rtol=1e-6, atol=1e-8)
    without = model.fit(X, VALUES).predict(NEW)
    model.fit((X[part], VALUES[part]) for part in parts)
    np.testing.assert_allclose(model.predict(NEW), without, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((iter([X]),), "X is an iterator of ndarray: expected y, or tuples"),
        ((iter([(X,)]),), "tuples of 1: expected y, or tuples"),
        ((iter([(X, VALUES, GRADIENTS)]), None, GRADIENTS), "gradients: they are in the blocks"),
        ((iter([X]), VALUES[:-1]), "values has fewer rows than X"),
        ((iter([X]), iter([VALUES, VALUES])), "values has more rows than X"),
        (([X], [VALUES], [GRADIENTS[:-1]]), "gradients has 299 rows and X 300"),
        (([X], VALUES[:, None]), r"values has a block of shape \(300, 1\)"),
        (([X], [VALUES], [GRADIENTS[:, :1]]), r"gradients has shape \(300, 1\)"),
    ],
)
def test_what_does_not_belong_together(arguments, message):
    with pytest.raises(ValueError, match=message):
        HermiteRegression(n_basis=20).fit(*arguments)


def test_memory_of_values_and_gradients_is_bounded(monkeypatch):
    monkeypatch.setattr(regression, "SELECTION", 5000)

    def peak(count):
        model = HermiteRegression(basis=Monomials(2, 4), regularization=1e-6)
        tracemalloc.start()
        try:
            model.fit(
                (x, x[:, 0], x)
                for x in (np.random.default_rng(k).standard_normal((5000, 4)) for k in range(count))
            )
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    few, many = peak(5), peak(60)  # 2 and 22 MB of data
    assert many < 1.1 * few
