import numpy as np
import pytest

from kmc.kernels import Gaussian, InverseMultiquadric, Metric, Polynomial
from kmc.scores.nystrom import NystromKEF, draw_components
from tests.oracles import differences
from tests.oracles import nystrom as oracle

BANDWIDTH, LAMBDA = 1.3, 1e-2
X = np.random.default_rng(1).standard_normal((50, 2)) @ [[1.0, 0.4], [0.0, 0.7]]
POINTS = np.random.default_rng(2).standard_normal((6, 2))


def fitted(X=X, **options):
    settings = {"bandwidth": BANDWIDTH, "regularization": LAMBDA, "n_basis": 8, "jitter": 0.0, "random_state": 0}
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
    assert estimator.objective(held_out) == pytest.approx(objective(estimator.coefficients_), rel=1e-10)
    assert estimator.score(held_out) == -estimator.objective(held_out)


def test_the_solution_minimizes_the_penalized_objective():
    estimator = fitted(base="gaussian")
    rng = np.random.default_rng(7)

    def penalized(coefficients):
        from kmc.scores.sums import Samples, accumulate_sums

        samples = Samples(X, estimator.center_, np.ones(len(X)), None, 1.0)
        objective = accumulate_sums(estimator.basis_, samples, estimator.base_density_).objective()
        return objective(coefficients) + 0.5 * LAMBDA * coefficients @ estimator.basis_.gram() @ coefficients

    best = penalized(estimator.coefficients_)
    for _ in range(20):
        assert penalized(estimator.coefficients_ + 1e-2 * rng.standard_normal(16)) > best


def test_offset_and_units():
    plain = fitted(regularization=1e-3, bandwidth="median")
    offset = fitted(X + 1e6, regularization=1e-3, bandwidth="median")
    np.testing.assert_allclose(offset.gradient(POINTS + 1e6), plain.gradient(POINTS), rtol=1e-6)
    scaled = fitted(100.0 * X, regularization=1e-3 / 100**2, bandwidth="median")
    np.testing.assert_allclose(100.0 * scaled.gradient(100.0 * POINTS), plain.gradient(POINTS), rtol=1e-8)


def test_a_metric_is_a_change_of_the_kernel():
    """Bandwidths per column: the kernel of the columns divided by them, derivatives in the user's coordinates."""
    estimator = fitted(kernel=Metric(Gaussian(1.0), np.array([0.5, 2.0])), bandwidth="median")
    gradient = differences.gradients(estimator.log_density, POINTS)
    np.testing.assert_allclose(estimator.gradient(POINTS), gradient, rtol=1e-5, atol=1e-7)


def test_a_polynomial_kernel_of_degree_two_is_a_gaussian_fit():
    """f is then any quadratic: without penalty the minimizer of the objective is the fitted Gaussian's score."""
    estimator = fitted(kernel=Polynomial(2), bandwidth="median", regularization=0.0, jitter="auto", n_basis=30)
    precision = np.linalg.inv(np.cov(X.T, bias=True))
    np.testing.assert_allclose(estimator.gradient(POINTS), -(POINTS - X.mean(axis=0)) @ precision, rtol=1e-4)


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


@pytest.mark.parametrize("components", [0, -1, 0.0, 1.5, np.nan, [1, 2], [5], [-1], [0], [[1]], [0.5]])
def test_values_out_of_range(rng, components):
    with pytest.raises(ValueError, match="components=.*expected a count"):
        draw_components(components, 4, 3, rng)


@pytest.mark.parametrize("components", ["all", True, np.timedelta64(2, "s")])
def test_types(rng, components):
    with pytest.raises(TypeError, match="components="):
        draw_components(components, 4, 3, rng)
