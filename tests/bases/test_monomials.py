import numpy as np
import pytest
from sklearn.preprocessing import PolynomialFeatures

from kmc.bases import Contraction, Monomials, general
from kmc.forms import accumulate
from tests.oracles import monomials as oracle
from tests.oracles import sections

SIZES = [(1, 1), (5, 1), (1, 3), (2, 2), (3, 3), (5, 3)]


@pytest.fixture(params=SIZES, ids=lambda size: f"degree {size[0]}, d = {size[1]}")
def basis(request):
    degree, dim = request.param
    rng = np.random.default_rng(30)
    return Monomials(degree, dim, rng.standard_normal(dim), rng.uniform(0.5, 2.0, dim))


@pytest.fixture
def sample(basis):
    """Points, weights and gradients of a base density."""
    rng = np.random.default_rng(31)
    return rng.standard_normal((9, basis.dim)), rng.random(9), rng.standard_normal((9, basis.dim))


def test_there_is_one_monomial_of_each_kind(basis):
    assert len(basis.exponents) == basis.size
    assert {tuple(e) for e in basis.exponents} == oracle.exponents(basis.degree, basis.dim)


def test_against_the_oracle(basis, sample):
    x, w, g = sample
    place = basis.center, basis.scale
    e, d = basis.exponents, range(basis.dim)
    values = [[oracle.monomial(row, a, *place) for a in e] for row in x]
    gradients = [
        [np.array([oracle.derivative(row, a, *place, i, 1) for i in d]) for a in e] for row in x
    ]
    laplacians = [[sum(oracle.derivative(row, a, *place, i, 2) for i in d) for a in e] for row in x]
    dirichlet, linear = (
        sections.dirichlet(gradients, w),
        sections.linear(gradients, laplacians, w, g),
    )
    np.testing.assert_allclose(basis.values(x), values, rtol=1e-12)
    np.testing.assert_allclose(basis.gradients(x), gradients, rtol=1e-12)
    np.testing.assert_allclose(
        basis.laplacians(x), laplacians, rtol=1e-12, atol=1e-13 * np.abs(laplacians).max()
    )
    np.testing.assert_allclose(
        basis.sum_dirichlet(x, w), dirichlet, atol=1e-13 * np.abs(dirichlet).max()
    )
    np.testing.assert_allclose(basis.sum_linear(x, w, g), linear, atol=1e-13 * np.abs(linear).max())
    alone = general.sum_linear(basis, x, w)
    np.testing.assert_allclose(
        basis.sum_linear(x, w), alone, atol=1e-13 * max(np.abs(alone).max(), 1.0)
    )


def test_contractions_are_those_of_the_general_mode(basis, sample):
    x, *_ = sample
    beta = np.random.default_rng(32).standard_normal(basis.size)
    f = Contraction(basis, beta)
    for got, expected in (
        (f.values(x), basis.values(x) @ beta),
        (f.gradient(x), np.einsum("npd,p->nd", basis.gradients(x), beta)),
        (f.laplacian(x), basis.laplacians(x) @ beta),
    ):
        np.testing.assert_allclose(got, expected, atol=1e-13 * max(np.abs(expected).max(), 1.0))


def test_order_is_that_of_scikit_learn():
    x = np.random.default_rng(33).standard_normal((5, 3))
    expected = PolynomialFeatures(4, include_bias=False).fit_transform(x)
    np.testing.assert_allclose(Monomials(4, 3).values(x), expected, rtol=1e-12)


def test_about_the_data_the_forms_are_well_conditioned():
    """Degree 5 in three variables, a million standard deviations from the origin: a polynomial is
    found to 1e-8.

    The mass of 55 monomials of standard normal numbers has a condition number of about 1e6.
    """
    rng = np.random.default_rng(34)
    z = rng.standard_normal((5000, 3))
    x = 1e6 + z * [1.0, 1e-2, 10.0]
    basis = Monomials.about(x, 5)
    beta = rng.standard_normal(basis.size)
    forms = accumulate(
        basis, x, ("mass", "values"), values=Contraction(basis, beta).values(x) - 1e3
    )
    assert np.linalg.cond(forms.centered_mass()) < 1e8
    np.testing.assert_allclose(
        np.linalg.solve(forms.centered_mass(), forms.centered_values()), beta, atol=1e-8
    )


def test_about_leaves_a_constant_column_as_it_is():
    x = np.column_stack([np.linspace(0, 1, 7), np.full(7, 0.1)])
    np.testing.assert_array_equal(Monomials.about(x, 2).scale[1], 1.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 2), "degree=0"),
        ((1.5, 2), "degree=1.5"),
        ((2, 0), "dim=0"),
        ((2, 2, np.nan), "center=nan"),
        ((2, 2, 0.0, [1.0, 0.0]), r"scale=\[1.0, 0.0\]"),
        ((2, 2, [0.0, 0.0, 0.0]), r"center=\[0.0, 0.0, 0.0\]: expected a number or 2 of them"),
    ],
)
def test_invalid_parameters(arguments, message):
    with pytest.raises(ValueError, match=message):
        Monomials(*arguments)
