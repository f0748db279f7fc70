import numpy as np
import pytest

from kmc.bases import Basis, KernelGradients, KernelSections, Monomials
from kmc.kernels import Gaussian, InverseMultiquadric, Metric, Polynomial
from kmc.kernels.derivatives import derivative
from kmc.scores import FullKEF, LiteKEF
from kmc.scores.nystrom import NystromKEF, draw_components
from tests.oracles import differences
from tests.oracles import nystrom as oracle

BANDWIDTH, LAMBDA = 1.3, 1e-2
X = np.random.default_rng(1).standard_normal((50, 2)) @ [[1.0, 0.4], [0.0, 0.7]]
POINTS = np.random.default_rng(2).standard_normal((6, 2))


def fitted(X=X, **options):
    settings = {
        "bandwidth": BANDWIDTH,
        "regularization": LAMBDA,
        "n_basis": 8,
        "jitter": 0.0,
        "random_state": 0,
    }
    return NystromKEF(**(settings | {"base": "uniform"} | options)).fit(X)


@pytest.mark.parametrize("kernel", ["gaussian", "inverse-multiquadric", "matern52", "matern72"])
@pytest.mark.parametrize("components", [None, 9])
def test_derivatives_agree_with_differences(kernel, components):
    estimator = fitted(kernel=kernel, components=components, base="student-t")
    gradient = differences.gradients(estimator.log_density, POINTS)
    np.testing.assert_allclose(estimator.gradient(POINTS), gradient, rtol=1e-5, atol=1e-7)
    laplacian = differences.laplacians(estimator.log_density, POINTS)
    np.testing.assert_allclose(estimator.laplacian(POINTS), laplacian, rtol=1e-5, atol=1e-6)


def test_objective_is_the_quadratic_form_of_its_sums():
    """J = ½ βᵀ S β + hᵀ β, S and h accumulated on the points: no pointwise Laplacian is needed."""
    from kmc.scores.sums import Samples, accumulate_sums

    estimator = fitted(base="gaussian")
    held_out = np.random.default_rng(3).standard_normal((40, 2))
    samples = Samples(held_out, estimator.center_, np.ones(40), None, 1.0)
    objective = accumulate_sums(estimator.basis_, samples, estimator.base_density_).objective()
    assert estimator.objective(held_out) == pytest.approx(
        objective(estimator.coefficients_), rel=1e-10
    )
    assert estimator.score(held_out) == -estimator.objective(held_out)


def test_the_solution_minimizes_the_penalized_objective():
    estimator = fitted(base="gaussian")
    rng = np.random.default_rng(7)

    def penalized(coefficients):
        from kmc.scores.sums import Samples, accumulate_sums

        samples = Samples(X, estimator.center_, np.ones(len(X)), None, 1.0)
        objective = accumulate_sums(estimator.basis_, samples, estimator.base_density_).objective()
        return (
            objective(coefficients)
            + 0.5 * LAMBDA * coefficients @ estimator.basis_.gram() @ coefficients
        )

    best = penalized(estimator.coefficients_)
    for _ in range(20):
        assert penalized(estimator.coefficients_ + 1e-2 * rng.standard_normal(16)) > best


def test_offset_and_units():
    plain = fitted(regularization=1e-3, bandwidth="median")
    offset = fitted(X + 1e6, regularization=1e-3, bandwidth="median")
    np.testing.assert_allclose(offset.gradient(POINTS + 1e6), plain.gradient(POINTS), rtol=1e-6)
    scaled = fitted(100.0 * X, regularization=1e-3 / 100**2, bandwidth="median")
    np.testing.assert_allclose(
        100.0 * scaled.gradient(100.0 * POINTS), plain.gradient(POINTS), rtol=1e-8
    )


def test_a_metric_is_a_change_of_the_kernel():
    """Bandwidths per column: the kernel of the columns divided by them, derivatives in the user's
    coordinates.
    """
    estimator = fitted(kernel=Metric(Gaussian(1.0), np.array([0.5, 2.0])), bandwidth="median")
    gradient = differences.gradients(estimator.log_density, POINTS)
    np.testing.assert_allclose(estimator.gradient(POINTS), gradient, rtol=1e-5, atol=1e-7)


def test_a_polynomial_kernel_of_degree_two_is_a_gaussian_fit():
    """f is then any quadratic: without penalty the minimizer of the objective is the fitted
    Gaussian's score.
    """
    estimator = fitted(
        kernel=Polynomial(2), bandwidth="median", regularization=0.0, jitter="auto", n_basis=30
    )
    precision = np.linalg.inv(np.cov(X.T, bias=True))
    np.testing.assert_allclose(
        estimator.gradient(POINTS), -(POINTS - X.mean(axis=0)) @ precision, rtol=1e-4
    )


def test_selection_among_kernels_bandwidths_and_bases():
    estimator = NystromKEF(
        kernel=["gaussian", InverseMultiquadric(1.414, 1.0)],
        bandwidth=[0.5, 2.0],
        base=["uniform", "gaussian"],
        n_basis=10,
    ).fit(X)
    table = estimator.cv_results_
    assert len(table["objective"]) == 2 * 2 * 2 * 10
    best = np.argmin(table["objective"])
    assert (estimator.bandwidth_, estimator.regularization_) == (
        table["bandwidth"][best],
        table["regularization"][best],
    )
    assert set(table["kernel"]) == {"gaussian", repr(InverseMultiquadric(1.414, 1.0))}
    assert set(table["base"]) == {"uniform", "gaussian"}


def test_three_folds_choose_well():
    estimator = NystromKEF(n_basis=10, cv=3, base="uniform", random_state=1, bandwidth="cv").fit(X)
    truth = -X @ np.linalg.inv([[1.0, 0.4], [0.4, 0.65]])
    divergence = np.mean(np.sum((estimator.gradient(X) - truth) ** 2, axis=1))
    assert divergence < 0.25 * np.mean(np.sum(truth**2, axis=1))


@pytest.mark.parametrize("base", ["uniform", "gaussian"])
def test_against_the_loops_of_theorem_1(base):
    estimator = fitted(base=base)
    g = estimator.base_density_.gradient(X)
    beta = oracle.coefficients(X, estimator.landmarks_, BANDWIDTH, LAMBDA, g)
    np.testing.assert_allclose(estimator.coefficients_, beta, rtol=1e-8)


@pytest.fixture
def rng():
    return np.random.default_rng(3)


@pytest.mark.parametrize("count", [1, 5, 12, 50])
def test_a_count_is_of_distinct_components(rng, count):
    chosen = draw_components(count, 4, 3, rng)
    assert len(np.unique(chosen)) == len(chosen) == min(count, 12)
    np.testing.assert_array_equal(chosen, np.sort(chosen))


@pytest.mark.parametrize(
    "components", [0, -1, 0.0, 1.5, np.nan, [1, 2], [5], [-1], [0], [[1]], [0.5]]
)
def test_values_out_of_range(rng, components):
    with pytest.raises(ValueError, match="components=.*expected a count"):
        draw_components(components, 4, 3, rng)


@pytest.mark.parametrize("components", ["all", True, np.timedelta64(2, "s")])
def test_types(rng, components):
    with pytest.raises(TypeError, match="components="):
        draw_components(components, 4, 3, rng)


# Lemma 4: any basis

GIVEN = {"regularization": LAMBDA, "jitter": 0.0}


class WithXi(Basis):
    """Gradients of the kernel at points, and ξ = (1/n) Σ_b Δk(X_b, ·), which is outside of their
    span.
    """

    def __init__(self, kernel, points):
        self.kernel, self.points, self.inner = kernel, points, KernelGradients(kernel, points)
        self.size = points.size + 1

    def xi(self, x, *axes):
        """Mean over the points of the Laplacian's derivative along the axes."""
        d, total = x.shape[1], 0.0
        for i in range(d):
            index = np.bincount([i, i, *axes], minlength=d)
            total = total + derivative(self.kernel, index.tolist(), x, self.points).mean(axis=1)
        return total

    def values(self, x):
        return np.column_stack([self.inner.values(x), self.xi(x)])

    def gradients(self, x):
        xi = np.stack([self.xi(x, j) for j in range(x.shape[1])], axis=1)
        return np.concatenate([self.inner.gradients(x), xi[:, None]], axis=1)

    def laplacians(self, x):
        return np.column_stack(
            [self.inner.laplacians(x), sum(self.xi(x, j, j) for j in range(x.shape[1]))]
        )

    def gram(self):
        """<∂_i k(Y, ·), ξ> = ∂_i ξ(Y), and <ξ, ξ> = (1/n) Σ_b Δξ(X_b)."""
        across = np.stack(
            [self.xi(self.points, j) for j in range(self.points.shape[1])], axis=1
        ).ravel()
        own = np.mean(sum(self.xi(self.points, j, j) for j in range(self.points.shape[1])))
        return np.block([[self.inner.gram(), across[:, None]], [across[None], np.array([[own]])]])


def test_lemma_4_in_polynomials():
    found = NystromKEF(basis=Monomials(3, 2), base="gaussian", **GIVEN).fit(X)
    functions = [lambda x, a=a: Monomials(3, 2).values(x[None])[0, a] for a in range(9)]
    expected = oracle.lemma_4(X, functions, np.eye(9), LAMBDA, found.base_density_.gradient(X))
    np.testing.assert_allclose(found.coefficients_, expected, rtol=1e-4, atol=1e-6)


def test_gradients_and_sections_of_the_kernel_as_a_basis_give_the_estimators_of_that_name():
    kernel = Gaussian(BANDWIDTH)
    given = {"bandwidth": BANDWIDTH, "landmarks": X[:8], "base": "uniform", **GIVEN}
    for basis, other in (
        (KernelGradients(kernel, X[:8]), NystromKEF("gaussian", **given)),
        (KernelSections(kernel, X[:8]), LiteKEF("gaussian", penalty="norm", **given)),
    ):
        found = NystromKEF(basis=basis, base="uniform", **GIVEN).fit(X)
        other.fit(X)
        np.testing.assert_allclose(found.gradient(POINTS), other.gradient(POINTS), rtol=1e-7)
        np.testing.assert_allclose(found.laplacian(POINTS), other.laplacian(POINTS), rtol=1e-7)
        assert found.objective(POINTS) == pytest.approx(other.objective(POINTS))


def test_with_xi_and_all_samples_it_is_the_full_estimator():
    x = X[:12]
    full = FullKEF("gaussian", bandwidth=BANDWIDTH, regularization=LAMBDA, base="uniform").fit(x)
    found = NystromKEF(basis=WithXi(Gaussian(BANDWIDTH), x), base="uniform", **GIVEN).fit(x)
    np.testing.assert_allclose(found.gradient(POINTS), full.gradient(POINTS), rtol=1e-5)
    without = fitted(x, n_basis=12, regularization=LAMBDA)
    assert np.abs(without.gradient(POINTS) - full.gradient(POINTS)).max() > 1e-4


def test_a_basis_in_a_stream_gives_the_sums_of_all_blocks():
    model = NystromKEF(basis=Monomials(2, 2), base="uniform", **GIVEN)
    whole = NystromKEF(basis=Monomials(2, 2), base="uniform", **GIVEN).fit(X)
    model.partial_fit(X[:20]).partial_fit(X[20:])
    np.testing.assert_allclose(model.coefficients_, whole.coefficients_, rtol=1e-9)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"n_basis": 20}, ValueError, "n_basis=20 has no effect with a basis"),
        ({"landmarks": X[:3]}, ValueError, "landmarks="),
        ({"components": 0.5}, ValueError, "components=0.5"),
        ({"basis": 3}, TypeError, "basis=3: expected an object of kmc.bases"),
        ({"basis": Monomials}, TypeError, "expected an object of kmc.bases"),
    ],
)
def test_errors_with_a_basis(options, error, words):
    with pytest.raises(error, match=words):
        NystromKEF(**({"basis": Monomials(2, 2)} | options)).fit(X)
