import numpy as np
import pytest

from kmc.bases import Contraction, KernelSections, Monomials, UserFunctions, Whitened, general
from kmc.forms import accumulate
from kmc.kernels import Gaussian
from kmc.linalg import eigen_whitening
from tests.oracles import differences

DIM, KEPT = 3, 4
POLYNOMIALS = Monomials(2, DIM)


def sections():
    return KernelSections(Gaussian(1.3), np.random.default_rng(3).standard_normal((9, DIM)))


BASES = {
    "sections": sections(),
    "monomials": POLYNOMIALS,
    "functions": UserFunctions(
        POLYNOMIALS.values, POLYNOMIALS.gradients, POLYNOMIALS.laplacians, size=9
    ),
}


@pytest.fixture(params=BASES.values(), ids=BASES)
def whitened(request):
    return Whitened(request.param, np.random.default_rng(50).standard_normal((9, KEPT)))


@pytest.fixture
def sample():
    """Points, weights and gradients of a base density."""
    rng = np.random.default_rng(4)
    return rng.standard_normal((11, DIM)), rng.random(11), rng.standard_normal((11, DIM))


def test_functions_are_combinations(whitened, sample):
    x, *_ = sample
    inner, matrix = whitened.basis, whitened.matrix
    assert whitened.size == KEPT
    np.testing.assert_allclose(whitened.values(x), inner.values(x) @ matrix)
    functions = [lambda x, a=a: whitened.values(x[None])[0, a] for a in range(KEPT)]
    gradients = [[differences.gradient(f, row) for f in functions] for row in x]
    laplacians = [[differences.laplacian(f, row) for f in functions] for row in x]
    np.testing.assert_allclose(whitened.gradients(x), gradients, atol=1e-8)
    np.testing.assert_allclose(whitened.laplacians(x), laplacians, atol=1e-7)


def test_forms_are_combinations(whitened, sample):
    x, w, g = sample
    forms = accumulate(whitened, x, ("mass", "dirichlet", "linear"), weights=w, base_gradient=g)
    inner, matrix = whitened.basis, whitened.matrix
    np.testing.assert_allclose(
        forms.linear, matrix.T @ general.sum_linear(inner, x, w, g), rtol=1e-10
    )
    np.testing.assert_allclose(
        forms.dirichlet, matrix.T @ general.sum_dirichlet(inner, x, w) @ matrix, rtol=1e-10
    )
    values = inner.values(x)
    np.testing.assert_allclose(forms.mass, matrix.T @ (values.T * w) @ values @ matrix, rtol=1e-10)


def test_contractions_are_those_of_the_general_mode(whitened, sample):
    x, *_ = sample
    beta = np.random.default_rng(51).standard_normal(KEPT)
    f = Contraction(whitened, beta)
    np.testing.assert_allclose(f.values(x), whitened.values(x) @ beta, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(
        f.gradient(x), np.einsum("npd,p->nd", whitened.gradients(x), beta), rtol=1e-10, atol=1e-12
    )
    np.testing.assert_allclose(
        f.laplacian(x), whitened.laplacians(x) @ beta, rtol=1e-10, atol=1e-12
    )


def test_whitened_functions_are_orthonormal_in_the_gram_matrix():
    basis = sections()
    matrix = eigen_whitening(basis.gram(), 1e-14)
    whitened = Whitened(basis, matrix)
    np.testing.assert_allclose(matrix.T @ basis.gram() @ matrix, np.eye(9), atol=1e-5)  # the jitter
    np.testing.assert_allclose(
        whitened.values(basis.centers), basis.gram() @ matrix, rtol=1e-12, atol=1e-14
    )
