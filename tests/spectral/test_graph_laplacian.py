import warnings

import numpy as np
import pytest
from scipy import linalg
from scipy.spatial.distance import cdist
from scipy.special import ndtri

from kmc.bases import KernelSections, Monomials
from kmc.errors import KmcWarning
from kmc.kernels import Gaussian
from kmc.spectral import GraphLaplacian
from tests.grids import slow_except
from tests.oracles import graph as oracle
from tests.sklearn_conventions import conventions

X = np.random.default_rng(0).standard_normal((40, 2))
ANGLE = np.linspace(0.0, 2.0 * np.pi, 600, endpoint=False)


def on_circle(angle):
    return np.column_stack([np.cos(angle), np.sin(angle)])


def same_functions(found, expected, atol=1e-8):
    """Equal up to signs and scales; both (n, k)."""
    scale = np.sum(found * expected, axis=0) / np.sum(expected**2, axis=0)
    np.testing.assert_allclose(found, scale * expected, atol=atol)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_diffusion_maps_as_they_are_defined(alpha):
    values, vectors = oracle.diffusion_map(X, 0.7, alpha)
    found = GraphLaplacian(5, bandwidth=0.7, n_neighbors=None, alpha=alpha).fit(X)
    np.testing.assert_allclose(found.eigenvalues_, values[1:6])
    same_functions(found.embedding_, vectors[:, 1:6])
    # the sparse way with all neighbors
    joined = GraphLaplacian(5, bandwidth=0.7, n_neighbors=40, alpha=alpha).fit(X)
    np.testing.assert_allclose(joined.eigenvalues_, values[1:6])


def test_the_galerkin_form_of_appendix_b_1():
    basis = KernelSections(Gaussian(1.5), X[:4])
    means = basis.values(X).mean(axis=0)
    functions = [lambda x, a=a: basis.values(x[None])[0, a] - means[a] for a in range(4)]
    phi = np.array([[f(point) for point in X] for f in functions])
    expected = linalg.eigh(oracle.energy(X, functions, 0.7) / (0.7**2 / 2), phi @ phi.T)
    found = GraphLaplacian(4, bandwidth=0.7, n_neighbors=None, basis=basis).fit(X)
    np.testing.assert_allclose(found.eigenvalues_, expected[0])
    same_functions(found.transform(X), (expected[1].T @ phi).T)
    np.testing.assert_allclose(found.transform(X).T @ found.transform(X) / 40, np.eye(4), atol=1e-9)


@pytest.mark.parametrize("basis", [None, Monomials(3, 2)])
def test_few_neighbors_are_as_good_as_all(basis):
    x = np.random.default_rng(1).uniform(size=(400, 2)) * [3.0, 1.0]
    all_of_them = GraphLaplacian(3, bandwidth=0.15, n_neighbors=None, basis=basis).fit(x)
    few = GraphLaplacian(3, bandwidth=0.15, n_neighbors=150, basis=basis).fit(x)
    np.testing.assert_allclose(few.eigenvalues_, all_of_them.eigenvalues_, rtol=0.01)


def test_many_points_go_through_the_sparse_solver():
    x = np.random.default_rng(1).standard_normal((700, 1))
    one, other = (GraphLaplacian(4, bandwidth=0.4, n_neighbors=k).fit(x) for k in (700, None))
    np.testing.assert_allclose(one.eigenvalues_, other.eigenvalues_)
    same_functions(one.embedding_, other.embedding_, 1e-6)


def test_fourier_modes_of_the_circle():
    """h²/2 times the eigenvalue is 1 - exp(-m² h²/2) but for the curvature, of order h²."""
    found = GraphLaplacian(6, bandwidth=0.05).fit(on_circle(ANGLE))
    np.testing.assert_allclose(found.eigenvalues_, [1, 1, 4, 4, 9, 9], rtol=0.01)
    first = found.transform(on_circle(ANGLE + 0.002))[:, :2]
    # cos² + sin², of mean square one
    np.testing.assert_allclose(np.sum(first**2, axis=1), 2.0, rtol=1e-3)


@pytest.mark.parametrize(("alpha", "truth"), [(1.0, [1, 1, 4, 4]), (0.5, None)])
def test_density_and_alpha(alpha, truth):
    """On a circle of density 1 + .6 cos: α = 1 does not see it, α = 1/2 has -f'' - (log p)' f'."""
    grid = np.linspace(0.0, 2.0 * np.pi, 200_001)
    cdf = (grid + 0.6 * np.sin(grid)) / (2 * np.pi)
    angle = np.interp((np.arange(2000) + 0.5) / 2000, cdf, grid)
    if truth is None:  # by finite differences of the energy ∫ p f'² on a periodic grid
        m = 1000
        middle = 1 + 0.6 * np.cos((np.arange(m) + 0.5) * 2 * np.pi / m)
        step = np.roll(np.eye(m), 1, axis=1) - np.eye(m)
        stiffness = (step.T * middle) @ step * (m / (2 * np.pi)) ** 2
        truth = linalg.eigh(
            stiffness, np.diag(1 + 0.6 * np.cos(np.arange(m) * 2 * np.pi / m)), eigvals_only=True
        )[1:5]
    found = GraphLaplacian(4, bandwidth=0.03, n_neighbors=300, alpha=alpha).fit(on_circle(angle))
    np.testing.assert_allclose(found.eigenvalues_, truth, rtol=0.02)


@pytest.mark.parametrize("basis", [None, Monomials(3, 1)])
def test_hermite_polynomials(basis):
    """On quantiles of N(0, 1), so that only the bias is left, of order h² = .09."""
    x = ndtri((np.arange(1000) + 0.5) / 1000)[:, None]
    found = GraphLaplacian(2, bandwidth=0.3, n_neighbors=None, basis=basis).fit(x)
    np.testing.assert_allclose(found.eigenvalues_, [1.0, 2.0], rtol=0.1)
    z = np.linspace(-1.5, 1.5, 7)
    correlation = np.corrcoef(found.transform(z[:, None])[:, 0], z)[0, 1]
    assert abs(correlation) > 0.99


def test_nystroms_formula_agrees_with_the_points_of_the_fit():
    """A point of the fit moved by nothing that matters goes through the formula, and finds its own
    value.
    """
    x = np.random.default_rng(2).standard_normal((300, 1))
    found = GraphLaplacian(3, bandwidth=0.3, n_neighbors=None).fit(x)
    np.testing.assert_allclose(found.transform(x + 1e-9), found.embedding_, atol=1e-6)
    np.testing.assert_array_equal(found.transform(x), found.embedding_)
    assert np.all(np.isfinite(found.transform([[100.0]])))


def test_parts_that_are_not_connected():
    two = np.concatenate([X, X + 1000.0])
    with pytest.warns(KmcWarning, match="2 parts that are not connected"):
        found = GraphLaplacian(2, bandwidth=1.0, n_neighbors=10).fit(two)
    np.testing.assert_allclose(found.eigenvalues_[0], 0.0, atol=1e-9)


@pytest.mark.parametrize("n_neighbors", [10, None])
def test_a_bandwidth_that_is_too_narrow_connects_nothing(n_neighbors):
    with pytest.warns(KmcWarning, match="40 parts that are not connected"):
        GraphLaplacian(2, bandwidth=1e-3, n_neighbors=n_neighbors).fit(X)


@pytest.mark.parametrize(
    ("options", "data", "error", "message"),
    [
        ({"bandwidth": "median"}, X, ValueError, "bandwidth='median': expected 'auto'"),
        ({"bandwidth": -1.0}, X, ValueError, "bandwidth=-1.0"),
        ({"n_neighbors": 1}, X, ValueError, "n_neighbors=1"),
        ({"alpha": 2.0}, X, ValueError, "alpha=2.0"),
        ({"n_components": 0}, X, ValueError, "n_components=0"),
        ({"basis": "sections"}, X, TypeError, "basis='sections'"),
        (
            {"metric": "kernel-hmc"},
            X,
            ValueError,
            "metric='kernel-hmc': .*; expected 'euclidean', 'precomputed', or a",
        ),
        ({"n_neighbors": "all"}, X, ValueError, "n_neighbors='all': expected 'auto', None or"),
        ({}, np.ones((9, 2)), ValueError, "neighbors of some point in X are at distance zero"),
        ({}, X[:2], ValueError, "minimum of 3 is required"),
        ({}, np.full((9, 2), np.nan), ValueError, "NaN"),
    ],
)
def test_bad_input(options, data, error, message):
    with pytest.raises(error, match=message):
        GraphLaplacian(**options).fit(data)


@pytest.mark.filterwarnings("ignore::kmc.errors.KmcWarning")
@pytest.mark.parametrize(
    ("estimator", "check"),
    conventions([GraphLaplacian(2), GraphLaplacian(2, n_neighbors=None, bandwidth=1.0)]),
)
def test_conventions(estimator, check):
    check(estimator)


def von_mises(kappa, n, seed=0):
    """Points on the circle, and the first eigenvalue of -f'' - (log p)' f' by finite differences (m
    cells).
    """
    angle = np.random.default_rng(seed).vonmises(0.0, kappa, n)
    m = 1000
    at, width = np.arange(m) * 2 * np.pi / m, 2 * np.pi / m
    step = (np.roll(np.eye(m), 1, axis=1) - np.eye(m)) / width
    stiffness = (step.T * np.exp(kappa * np.cos(at + width / 2))) @ step
    truth = linalg.eigh(
        stiffness, np.diag(np.exp(kappa * np.cos(at))), eigvals_only=True, subset_by_index=[1, 1]
    )[0]
    return on_circle(angle), truth


@pytest.mark.parametrize(
    ("kappa", "n"),
    slow_except(
        [(0.0, 1000), (0.0, 3000), (1.0, 1000), (2.0, 1000), (4.0, 1000)],
        {(0.0, 1000), (4.0, 1000)},
    ),
)
def test_a_density_that_varies(kappa, n):
    """Right, or a refusal in words; it was an error of ARPACK after half a minute."""
    x, truth = von_mises(kappa, n)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = GraphLaplacian(2).fit(x)
    said = [str(warning.message) for warning in caught]
    off = abs(found.eigenvalues_[0] / truth - 1)
    assert off < 0.1 or any(
        "depends on the bandwidth" in one or "hardly determine" in one for one in said
    )
    assert kappa > 0 or n < 3000 or not said


def test_a_solver_that_gives_up_says_so(monkeypatch):
    monkeypatch.setattr("kmc.spectral.graph_laplacian.ITERATIONS", 1)
    monkeypatch.setattr("kmc.spectral.graph_laplacian.FACTORIZED", 0)
    x = np.random.default_rng(0).standard_normal((600, 5))
    with pytest.raises(
        ValueError,
        match="the 11 smallest eigenvalues of the graph on n=600 points .* did not converge",
    ):
        GraphLaplacian().fit(x)


@pytest.mark.slow
def test_local_bandwidths_give_the_same_operator():
    """In two dimensions; Hermite polynomials for α = 1/2."""
    x = np.random.default_rng(0).standard_normal((3000, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KmcWarning)
        found = GraphLaplacian(2).fit(x)
    assert found.dimension_ == 2
    np.testing.assert_allclose(found.eigenvalues_, 1.0, atol=0.2)


METRIC = np.random.default_rng(4).uniform(size=(900, 2)) * [3.0, 1.0]


@pytest.mark.parametrize("n_neighbors", [None, 60])
def test_other_distances(n_neighbors):
    """Those of points themselves, as a matrix, by a name and by a function: the same graph."""
    x = METRIC[: 300 if n_neighbors is None else 900]
    plain = GraphLaplacian(3, 0.2, n_neighbors).fit(x)
    between, beyond = cdist(x, x), x[:5] + 0.01
    given = GraphLaplacian(3, 0.2, n_neighbors, metric="precomputed").fit(between)
    by_name = GraphLaplacian(3, 0.2, n_neighbors, metric="minkowski").fit(x)
    for found, new in ((given, cdist(beyond, x)), (by_name, beyond)):
        np.testing.assert_allclose(found.eigenvalues_, plain.eigenvalues_, rtol=1e-7)
        np.testing.assert_allclose(
            np.abs(found.transform(new)), np.abs(plain.transform(beyond)), rtol=1e-5
        )


def test_a_metric_of_ones_own():
    """On the circle, angles as points and arcs as distances."""
    angle = np.linspace(0.0, 2.0 * np.pi, 200, endpoint=False)[:, None]

    def arc(a, b):
        return np.pi - abs(abs(a[0] - b[0]) - np.pi)

    found = GraphLaplacian(4, 0.15, None, metric=arc).fit(angle)
    np.testing.assert_allclose(found.eigenvalues_, [1, 1, 4, 4], rtol=0.05)


@pytest.mark.parametrize(
    ("options", "x", "error", "message"),
    [
        (
            {"metric": "precomputed"},
            METRIC,
            ValueError,
            r"shape \(900, 2\): for metric='precomputed' expected distances",
        ),
        ({"metric": "precomputed"}, np.ones((4, 4)), ValueError, "zero on the diagonal"),
        (
            {"metric": "precomputed", "basis": Monomials(3, 1)},
            cdist(METRIC, METRIC),
            ValueError,
            "a basis needs points",
        ),
        ({"metric": "as the crow flies"}, METRIC, ValueError, "as the crow flies"),
        ({"metric": 2}, METRIC, TypeError, "metric=2: expected a name or a callable"),
    ],
)
def test_malformed_distances(options, x, error, message):
    with pytest.raises(error, match=message):
        GraphLaplacian(2, **options).fit(x)
