import copy
import pickle

import numpy as np
import pytest

from kmc import kernels
from kmc.kernels import (
    DotProductFunction,
    Exponential,
    Gaussian,
    Matern52,
    Matern72,
    Metric,
    Polynomial,
    Product,
    RadialFunction,
    Scale,
    Sum,
)
from tests.kernels import cases
from tests.oracles import differences

A, B = Gaussian(1.5), Matern52(2.0)
USER = RadialFunction(cases.PROFILES, bandwidth=1.7)
LINEAR = Polynomial(degree=1)
every = pytest.mark.parametrize("kernel", cases.ALL.values(), ids=cases.ALL)


def test_operators():
    assert Sum(A, B) == A + B
    assert Product(A, B) == A * B
    assert 2 * A == A * 2 == np.float64(2) * A == A * np.float64(2) == Scale(A, 2.0)
    assert Sum(A, Product(Scale(B, 2.0), LINEAR)) == A + 2 * B * LINEAR


@pytest.mark.parametrize(
    "combine", [lambda: A + 1, lambda: 1 + A, lambda: A * "2", lambda: A + None, lambda: A - B]
)
def test_only_kernels_add(combine):
    with pytest.raises(TypeError):
        combine()


@pytest.mark.parametrize("factor", [0, -1.0, np.inf, np.nan])
def test_factors_are_positive(factor):
    with pytest.raises(ValueError, match=f"factor={factor!r}: expected a positive finite number"):
        factor * A
    with pytest.raises(ValueError, match=f"factor={factor!r}: expected a positive finite number"):
        A.scaled(factor)


def test_parts_are_kernels():
    for make in (
        lambda: Sum(A, "gaussian"),
        lambda: Product(1.0, A),
        lambda: Scale(None, 2.0),
        lambda: Metric(2, [1.0]),
    ):
        with pytest.raises(TypeError, match=r"expected a kernel of kmc.kernels"):
            make()


@pytest.mark.parametrize("parts", [(A, B), (A, USER), (USER, B)], ids=["built-in", "left", "right"])
@pytest.mark.parametrize("order", range(5))
def test_the_same_argument_combines_by_leibniz(parts, order):
    """With programs and without: the sum of the derivatives; of the product, Σ C(k, j) f^(j)
    g^(k-j).
    """
    s = np.linspace(0, 9, 13)
    f, g = (np.array(part.derivatives(s, 4)) for part in parts)
    binomial = [[1], [1, 1], [1, 2, 1], [1, 3, 3, 1], [1, 4, 6, 4, 1]]
    product = [
        sum(c * f[j] * g[k - j] for j, c in enumerate(binomial[k])) for k in range(order + 1)
    ]
    np.testing.assert_allclose(Sum(*parts).derivatives(s, order), (f + g)[: order + 1], rtol=1e-13)
    np.testing.assert_allclose(
        Product(*parts).derivatives(s, order), product, rtol=1e-12, atol=1e-15
    )
    np.testing.assert_allclose(
        Scale(parts[0], 0.3).derivatives(s, order), 0.3 * f[: order + 1], rtol=1e-14
    )


@pytest.mark.parametrize(
    "kernel",
    [
        A * B,
        A * USER,
        (A + USER) * B,
        0.5 * LINEAR * Polynomial(3) + DotProductFunction([np.exp] * 5),
    ],
)
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_derivatives_of_composites_are_slopes(kernel, order):
    u = np.linspace(0.5, 4, 8)
    slopes = [
        differences.gradient(lambda t: kernel.derivatives(t, order - 1)[-1], np.array([v]), 0.01)[
            0, 0
        ]
        for v in u
    ]
    np.testing.assert_allclose(kernel.derivatives(u, order)[-1], slopes, rtol=1e-8, atol=1e-11)


def test_argument_and_differentiability():
    assert (A + B).kind == (A * USER).kind == (2 * A).kind == "distance"
    assert (LINEAR + Polynomial(3)).kind == "inner-product"
    for mixed in (A + LINEAR, A * LINEAR, 2 * (A + LINEAR), Metric(A, [1.0]), A + Metric(A, [1.0])):
        assert mixed.kind is None
    assert (A + B).differentiability == (A * B * Matern72()).differentiability == 4
    assert (2 * Metric(Exponential(), [1.0]) + A).differentiability == 0


@pytest.mark.parametrize(
    "kernel", [A + LINEAR, A * LINEAR, 2 * (A * LINEAR), Metric(A, [1.0])], ids=repr
)
def test_mixed_kernels_have_no_profile(kernel):
    for call in (kernel.derivatives, kernel.profile):
        with pytest.raises(
            TypeError, match=r"use kmc.kernels.kernel_derivative\(kernel, name, x, y\)"
        ):
            call(np.ones(3))


@every
def test_scaled_is_the_kernel_of_scaled_points(kernel):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((3, cases.DIM)), rng.standard_normal((2, cases.DIM))
    scaled = kernels.kernel_derivative(kernel.scaled(2.5), "k", 2.5 * x, 2.5 * y)
    np.testing.assert_allclose(scaled, kernels.kernel_derivative(kernel, "k", x, y), rtol=1e-13)


@every
def test_kernels_are_values(kernel):
    for same in (pickle.loads(pickle.dumps(kernel)), copy.deepcopy(kernel), copy.copy(kernel)):
        assert same == kernel and hash(same) == hash(kernel)
        assert repr(same) == repr(kernel)
    assert kernel != Gaussian(0.123)
    with pytest.raises(AttributeError):
        kernel.bandwidth = 2.0


def test_a_printed_kernel_makes_another():
    for kernel in (
        A,
        2 * A + B * Matern72(3),
        Polynomial(3, 0.5),
        Gaussian(np.float64(2)),
        Metric(A, cases.TALL),
    ):
        assert eval(repr(kernel), {**vars(kernels), "array": np.array}) == kernel


@every
def test_gram_matrices_are_positive_definite(kernel):
    x = np.random.default_rng(1).standard_normal((30, cases.DIM))
    gram = kernels.kernel_derivative(kernel, "k", x, x)
    np.testing.assert_allclose(gram, gram.T, rtol=1e-12)
    assert np.linalg.eigvalsh(gram).min() > -1e-12 * np.trace(gram)
