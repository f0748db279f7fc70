"""The defaults of a basis are the fused methods of one that has them; foreign objects, and what is
no basis.
"""

import pickle

import numpy as np
import pytest

from kmc.bases import Basis, Contraction, FourierFeatures, KernelSections, Monomials, Whitened
from kmc.bases.base import as_basis
from kmc.kernels import Gaussian

RNG = np.random.default_rng(7)
X, WEIGHTS, VECTORS = (
    RNG.standard_normal((40, 2)),
    RNG.uniform(0.5, 2.0, 40),
    RNG.standard_normal((40, 2)),
)
CASES = [
    KernelSections(Gaussian(1.3), X[:5]),
    FourierFeatures.draw(Gaussian(1.3), 6, 2, 1),
    Monomials(3, 2),
]


class Plain(Basis):
    """Another basis by its values and derivatives alone."""

    def __init__(self, basis):
        self.size, self.values = basis.size, basis.values
        self.gradients, self.laplacians = basis.gradients, basis.laplacians


@pytest.mark.parametrize("basis", CASES, ids=lambda basis: type(basis).__name__)
def test_defaults_are_what_is_fused(basis):
    plain, beta = Plain(basis), np.linspace(-1.0, 1.0, basis.size)
    two = np.column_stack([beta, beta**2])
    pairs = [
        (plain.sum_dirichlet(X, WEIGHTS), basis.sum_dirichlet(X, WEIGHTS)),
        (plain.sum_linear(X, WEIGHTS, VECTORS), basis.sum_linear(X, WEIGHTS, VECTORS)),
        (plain.directional(X, VECTORS), basis.directional(X, VECTORS)),
        (plain.derivative(X, (0, 1)), basis.derivative(X, (0, 1))),
        (plain.contract_values(X, beta), basis.contract_values(X, beta)),
        (plain.contract_gradients(X, beta), basis.contract_gradients(X, beta)),
        (plain.contract_gradients_each(X, two), basis.contract_gradients_each(X, two)),
        (plain.contract_laplacians(X, beta), basis.contract_laplacians(X, beta)),
        (
            np.trace(Contraction(basis, beta).hessian(X), axis1=1, axis2=2),
            basis.contract_laplacians(X, beta),
        ),
    ]
    for found, expected in pairs:
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("basis", [*CASES[1:], Whitened(CASES[1], np.eye(6)[:, :4])])
def test_hessians_are_those_of_differences(basis):
    f, h = Contraction(basis, np.linspace(-1.0, 1.0, basis.size)), 1e-5
    columns = [(f.gradient(X + h * e) - f.gradient(X - h * e)) / (2 * h) for e in np.eye(2)]
    np.testing.assert_allclose(f.hessian(X), np.stack(columns, axis=2), atol=1e-7)


def test_capabilities_that_a_basis_does_not_have():
    plain = Plain(CASES[0])
    assert plain.gram() is None and plain.sum_mass_and_dirichlet is None
    with pytest.raises(TypeError, match="Plain has no jit_state: jitted loops cannot evaluate it"):
        Contraction(plain, np.ones(5)).jit_state()
    with pytest.raises(TypeError, match="has no derivatives of order 2: give it a method"):
        plain.derivative(X, (1, 1))
    with pytest.raises(
        TypeError, match=r"^Empty has no gradients\(x\), which is needed here: give it this method"
    ):
        type("Empty", (Basis,), {"size": 1})().sum_dirichlet(X, WEIGHTS)


class Foreign:
    """A basis by its methods, one of them optional; of no class of kmc."""

    size = 2

    def values(self, x):
        return x**2

    def gradients(self, x):
        return 2.0 * x[:, :, None] * np.eye(2)

    def laplacians(self, x):
        return np.full((len(x), 2), 2.0)

    def contract_values(self, x, coefficients):
        return np.full(len(x), 77.0)


def test_a_foreign_object_is_used_with_the_methods_that_it_has():
    f = Contraction(Foreign(), np.array([1.0, 2.0]))
    np.testing.assert_array_equal(f.values(X), np.full(40, 77.0))
    np.testing.assert_allclose(f.gradient(X), 2.0 * X * [1.0, 2.0])
    np.testing.assert_allclose(
        Whitened(Foreign(), np.eye(2)).sum_linear(X, WEIGHTS), 2.0 * WEIGHTS.sum() * np.ones(2)
    )
    assert as_basis(f.basis) is f.basis
    again = pickle.loads(pickle.dumps(f))
    np.testing.assert_allclose(again.laplacian(X), np.full(40, 6.0))


@pytest.mark.parametrize("thing", [3, None, Foreign, KernelSections, np.zeros(3)], ids=repr)
def test_what_is_no_basis(thing):
    with pytest.raises(
        TypeError, match=r"basis=.*: expected an object of kmc.bases, or one with size, values\(x\)"
    ):
        Contraction(thing, np.ones(2))
