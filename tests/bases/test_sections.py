import numpy as np
import pytest

from kmc.bases import KernelSections, Whitened
from kmc.kernels import Gaussian
from kmc.linalg import cholesky_whitening
from tests.oracles import differences, sections

BANDWIDTH, DIM = 1.3, 3
METRICS = {
    "no metric": None,
    "symmetric metric": np.array([[1.5, 0.2, 0.0], [0.2, 0.8, -0.3], [0.0, -0.3, 1.1]]),
    "any metric": np.array([[1.0, 0.7, -0.2], [0.0, 0.5, 0.4], [-0.6, 0.1, 1.2]]),
}


@pytest.fixture(params=METRICS.values(), ids=METRICS)
def basis(request):
    centres = np.random.default_rng(3).standard_normal((6, DIM))
    return KernelSections(Gaussian(BANDWIDTH), centres, request.param)


@pytest.fixture
def sample():
    """Points, weights and gradients of a base density."""
    rng = np.random.default_rng(4)
    return rng.standard_normal((11, DIM)), rng.random(11), rng.standard_normal((11, DIM))


def functions(basis):
    """The functions of a basis, each at one point."""
    return [lambda x, a=a: basis.values(x[None])[0, a] for a in range(basis.size)]


def test_values_and_gram_are_the_kernel(basis, sample):
    x, *_ = sample
    metric = np.eye(DIM) if basis.metric is None else basis.metric
    expected = [[sections.section(row, y, BANDWIDTH, metric) for y in basis.centres] for row in x]
    np.testing.assert_allclose(basis.values(x), expected, rtol=1e-13)
    np.testing.assert_allclose(basis.gram(), sections.gram(basis.centres, BANDWIDTH, metric), rtol=1e-13)


@pytest.mark.parametrize("whiten", [False, True])
def test_derivatives_are_those_of_the_values(basis, sample, whiten):
    x, *_ = sample
    basis = Whitened(basis, cholesky_whitening(basis.gram(), 1e-8)[:, :4]) if whiten else basis
    gradients = [[differences.gradient(f, row) for f in functions(basis)] for row in x]
    laplacians = [[differences.laplacian(f, row) for f in functions(basis)] for row in x]
    scale = np.abs(basis.values(x)).max()  # of which the differences are accurate to 1e-10
    np.testing.assert_allclose(basis.gradients(x), gradients, atol=1e-9 * scale)
    np.testing.assert_allclose(basis.laplacians(x), laplacians, atol=1e-9 * scale)


def test_oracle_derivatives_are_those_of_the_section(basis, sample):
    x, y = sample[0][0], basis.centres[0]
    kernel = BANDWIDTH, np.eye(DIM) if basis.metric is None else basis.metric
    gradient = differences.gradient(lambda x: sections.section(x, y, *kernel), x)
    laplacian = differences.laplacian(lambda x: sections.section(x, y, *kernel), x)
    assert sections.section_gradient(x, y, *kernel) == pytest.approx(gradient, abs=1e-10)
    assert sections.section_laplacian(x, y, *kernel) == pytest.approx(laplacian, abs=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_fused_dirichlet_form(basis, sample, weighted):
    x, w, _ = sample
    w = w if weighted else np.ones(len(x))
    fused = basis.sum_dirichlet(x, w)
    gradients = basis.gradients(x)
    slow = sections.dirichlet([[differences.gradient(f, row) for f in functions(basis)] for row in x], w)
    np.testing.assert_allclose(fused, np.einsum("n,nad,nbd->ab", w, gradients, gradients), atol=1e-12)
    np.testing.assert_allclose(fused, slow, atol=1e-8 * np.abs(slow).max())


@pytest.mark.parametrize("with_base", [False, True])
def test_fused_linear_form(basis, sample, with_base):
    x, w, g = sample
    fused = basis.sum_linear(x, w, g if with_base else None)
    g = g if with_base else np.zeros_like(g)
    general = w @ basis.laplacians(x) + np.einsum("n,nad,nd->a", w, basis.gradients(x), g)
    gradients = [[differences.gradient(f, row) for f in functions(basis)] for row in x]
    laplacians = [[differences.laplacian(f, row) for f in functions(basis)] for row in x]
    slow = sections.linear(gradients, laplacians, w, g)
    np.testing.assert_allclose(fused, general, atol=1e-12)
    np.testing.assert_allclose(fused, slow, atol=1e-8 * np.abs(slow).max())


def test_fused_forms_keep_their_digits_far_from_the_origin(basis, sample):
    x, w, g = sample
    shift = 2.0**14
    x, centres = (np.rint(a * 2**20) / 2**20 for a in (x, basis.centres))  # so that adding the shift is exact
    near, far = (KernelSections(basis.kernel, centres + s, basis.metric) for s in (0, shift))
    np.testing.assert_allclose(far.sum_dirichlet(x + shift, w), near.sum_dirichlet(x, w), atol=1e-10)
    np.testing.assert_allclose(far.sum_linear(x + shift, w, g), near.sum_linear(x, w, g), atol=1e-9)


def test_whitened_functions_are_orthonormal_in_the_gram_matrix(basis):
    matrix = cholesky_whitening(basis.gram(), 1e-8)
    whitened = Whitened(basis, matrix)
    assert whitened.size == basis.size == 6
    np.testing.assert_allclose(matrix.T @ basis.gram() @ matrix, np.eye(6), atol=1e-5)  # the jitter
    np.testing.assert_allclose(whitened.values(basis.centres), basis.gram() @ matrix, rtol=1e-12, atol=1e-14)
