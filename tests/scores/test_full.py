import functools

import numpy as np
import pytest

import kmc.kernels
from kmc import selection
from kmc.errors import KmcWarning
from kmc.kernels import Gaussian, Matern52, Metric, Polynomial
from kmc.scores import full
from kmc.scores.base_fits import fit_base
from kmc.scores.full import FullKEF
from tests.oracles import differences
from tests.oracles import full as oracle

LAMBDA = 1e-2
X = np.random.default_rng(1).standard_normal((25, 2)) @ [[1.0, 0.4], [0.0, 0.7]]
POINTS = np.random.default_rng(2).standard_normal((6, 2))
WEIGHTS = np.random.default_rng(3).uniform(0.2, 2.0, len(X))
VALUES = -0.5 * np.sum((X @ [[1.1, 0.2], [0.0, 0.8]]) ** 2, axis=1) + 0.3 * np.sin(X[:, 0]) + 5.0
KERNELS = {
    "gaussian": Gaussian(1.3),
    "matern52": Matern52(2.0),
    "sum": Gaussian(1.3) + 0.3 * Gaussian(3.0),
    "metric": Metric(Gaussian(1.0), [0.8, 1.2]),
    "polynomial": Polynomial(degree=3),
    "mixed": Gaussian(2.0) * Polynomial(degree=1),
}
SOLVERS = ("dense", "cg")


def fitted(x=X, values=None, weights=None, **options):
    settings = {
        "kernel": Gaussian(1.3),
        "regularization": LAMBDA,
        "base": "uniform",
        "random_state": 0,
    }
    return FullKEF(**(settings | options)).fit(x, values, weights)


def partial_of(kernel, points):
    """As the oracle asks for it, at two of the points."""
    row = {point.tobytes(): i for i, point in enumerate(points)}
    arrays = functools.cache(
        lambda name: kmc.kernels.kernel_derivative(kernel, name, points, points)
    )
    return lambda name, x, y: arrays(name)[row[x.tobytes()], row[y.tobytes()]]


def close(actual, expected, tolerance=1e-8):
    np.testing.assert_allclose(
        actual, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max()
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("base", ["uniform", "student-t"])
@pytest.mark.parametrize("name", KERNELS)
def test_agrees_with_the_formulas(name, base, weighted):
    x, kernel, weights = X[:12], KERNELS[name], WEIGHTS[:12] if weighted else np.ones(12)
    q0 = fit_base(base, x, weights)
    center, g = weights @ x / weights.sum(), q0.gradient(x)
    z, points = x - center, POINTS - center
    k = partial_of(kernel, np.vstack([z, points]))
    beta = oracle.coefficients(k, z, LAMBDA, g, weights)
    values, gradients, laplacians = zip(
        *(oracle.function(k, z, beta, LAMBDA, g, weights, point) for point in points), strict=True
    )
    for solver in SOLVERS:
        estimator = fitted(
            x, kernel=kernel, base=base, weights=weights, solver=solver, tolerance=1e-11
        )
        assert estimator.solver_ == solver
        close(estimator.coefficients_.reshape(-1), beta)
        close(estimator.log_density(POINTS), np.array(values) + q0.log_density(POINTS))
        close(estimator.gradient(POINTS), np.array(gradients) + q0.gradient(POINTS))
        close(estimator.laplacian(POINTS), np.array(laplacians) + q0.laplacian(POINTS))


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("values", [None, VALUES], ids=["samples", "values"])
@pytest.mark.parametrize("name", ["gaussian", "matern52", "metric", "mixed"])
def test_no_direction_lowers_the_penalized_objective(name, values, solver):
    """The derivative of the objective vanishes in the direction of every kernel section, those
    elsewhere included.
    """
    kernel = KERNELS[name]
    options = {"base": "gaussian", "solver": solver, "value_weight": 2.5, "tolerance": 1e-11}
    estimator = fitted(values=values, weights=WEIGHTS, kernel=kernel, **options)
    q0, center = estimator.base_density_, estimator.center_
    residuals = None
    if values is not None:
        apart = estimator.log_density(X) - values
        residuals = 2.5 * (apart - np.average(apart, weights=WEIGHTS))
    f_gradient, f_value = (
        estimator.gradient(X) - q0.gradient(X),
        estimator.log_density(POINTS) - q0.log_density(POINTS),
    )
    z, points, g = X - center, POINTS - center, q0.gradient(X)
    k = partial_of(kernel, np.vstack([z, points]))
    for x, value in zip(points, f_value, strict=True):
        slope = oracle.first_variation(k, z, f_gradient, LAMBDA, g, WEIGHTS, x, value, residuals)
        assert abs(slope) < 1e-9 * max(LAMBDA * np.abs(f_value).max(), 1.0)


@pytest.mark.parametrize("values", [None, VALUES], ids=["samples", "values"])
@pytest.mark.parametrize("name", KERNELS)
def test_derivatives_agree_with_differences(name, values):
    estimator = fitted(values=values, kernel=KERNELS[name], base="student-t")
    close(estimator.gradient(POINTS), differences.gradients(estimator.log_density, POINTS), 1e-6)
    close(estimator.laplacian(POINTS), differences.laplacians(estimator.log_density, POINTS), 1e-5)


def test_two_points_in_closed_form():
    """x = ±1, k = exp(-s / 2h²): ξ is even, so β = (-b, b) and (k'' at 0 - k'' at 2 + 2λ) b = ξ'(1)
    / λ.
    """
    h, lam = 1.7, 0.3
    estimator = fitted(np.array([[-1.0], [1.0]]), kernel=Gaussian(h), regularization=lam)
    q = np.exp(-2.0 / h**2)
    at_zero, at_two = 1 / h**2, (1 / h**2 - 4 / h**4) * q
    slope = 0.5 * (3 * 2 / h**4 - 8 / h**6) * q  # ½ k''' at 2
    b = slope / lam / (at_zero - at_two + 2 * lam)
    close(estimator.coefficients_, np.array([[-b], [b]]), 1e-12)
    close(estimator.gradient([[1.0]]), np.array([[-slope / lam + (at_zero - at_two) * b]]), 1e-12)


@pytest.mark.parametrize("base", ["uniform", "gaussian"])
def test_score_of_a_normal_sample(base):
    """It is -x; the sampling error of its slope is about (2 / n)^½ = .05."""
    x = np.random.default_rng(5).standard_normal((800, 1))
    grid = np.linspace(-1.5, 1.5, 21)[:, None]
    assert (
        np.abs(
            fitted(x, kernel=Gaussian(2.0), regularization=1e-3, base=base).gradient(grid) + grid
        ).max()
        < 0.2
    )


def test_conjugate_gradients_agree_with_the_factorization():
    x = np.random.default_rng(6).standard_normal((400, 10))
    options = {"kernel": "gaussian", "regularization": 1e-3, "base": "gaussian"}
    dense, cg = (fitted(x, solver=solver, **options).gradient(x[:50] + 0.3) for solver in SOLVERS)
    assert np.linalg.norm(cg - dense) < 1e-6 * np.linalg.norm(dense)


@pytest.mark.parametrize(
    ("kernel", "most"), [("gaussian", 150), ("matern72", 600), (Polynomial(bandwidth=2.0), 30)]
)
def test_the_preconditioner_serves_small_regularizations(kernel, most):
    """The tolerance bounds the error of the gradient at the samples, root mean square."""
    x = np.random.default_rng(7).standard_normal((200, 3))
    dense, cg = (
        fitted(x, solver=s, kernel=kernel, regularization=1e-6, tolerance=1e-6) for s in SOLVERS
    )
    assert np.linalg.norm(cg.gradient(x) - dense.gradient(x)) < 2e-6 * np.linalg.norm(
        dense.gradient(x)
    )
    assert 0 < cg.n_iter_ < most
    assert dense.n_iter_ == 0


def test_an_unfinished_run_warns():
    with pytest.warns(KmcWarning, match=r"conjugate gradients.*tolerance=1e-15.*dense"):
        fitted(solver="cg", tolerance=1e-15)


def test_weights_are_counts():
    counts = np.arange(len(X)) % 3
    repeated = fitted(np.repeat(X, counts, axis=0), np.repeat(VALUES, counts))
    close(fitted(values=VALUES, weights=counts).gradient(POINTS), repeated.gradient(POINTS), 1e-9)
    close(
        fitted(values=VALUES, weights=1e5 * counts).gradient(POINTS),
        repeated.gradient(POINTS),
        1e-9,
    )


def test_values_pull_the_model_to_them():
    assert np.std(fitted(values=VALUES, value_weight=1e5).log_density(X) - VALUES) < 1e-2
    assert np.std(fitted().log_density(X) - VALUES) > 0.1


@pytest.mark.parametrize("solver", SOLVERS)
def test_an_offset_of_a_million_costs_less_than_a_millionth(solver):
    plain, moved = (
        fitted(solver=solver, base="gaussian"),
        fitted(X + 1e6, solver=solver, base="gaussian"),
    )
    close(moved.gradient(POINTS + 1e6), plain.gradient(POINTS), 1e-6)


@pytest.mark.parametrize("values", [None, VALUES], ids=["samples", "values"])
def test_selection_is_by_held_out_objective(values):
    """The table agrees with fits without each fold, whatever the solver, and the least entry is
    taken.
    """
    options = {
        "kernel": "gaussian",
        "bandwidth": [0.7, 2.0],
        "regularization": [1e-3, 1e-1, 1e1],
        "cv": 3,
    }
    bases = {"base": ["uniform", "student-t"], "values": values, "weights": WEIGHTS}
    dense, cg = (fitted(solver=solver, tolerance=1e-8, **options, **bases) for solver in SOLVERS)
    table = dense.cv_results_
    assert set(table) == {
        "kernel",
        "bandwidth",
        "base",
        "penalty",
        "regularization",
        "objective",
        "std_error",
    }
    assert [len(column) for column in table.values()] == [12] * 7
    np.testing.assert_allclose(
        cg.cv_results_["objective"], table["objective"], rtol=2e-2, atol=2e-2
    )
    best = np.argmin(table["objective"])
    assert (dense.bandwidth_, dense.regularization_) == (
        table["bandwidth"][best],
        table["regularization"][best],
    )
    assert dense.kernel_ == Gaussian(dense.bandwidth_)

    rng = np.random.default_rng(0)
    parts = selection.folds_of(len(X), 3, rng)
    expected = []
    for part in parts:
        rest = np.setdiff1d(np.arange(len(X)), part)
        y = None if values is None else values[rest]
        one = fitted(
            X[rest],
            y,
            WEIGHTS[rest],
            kernel=Gaussian(0.7),
            regularization=1e-1,
            base=_Base(X, WEIGHTS),
            solver="dense",
        )
        expected.append(
            _objective(one, X[part], None if values is None else values[part], WEIGHTS[part])
        )
    row = (
        (table["bandwidth"] == 0.7)
        & (table["regularization"] == 1e-1)
        & (table["base"] == "student-t")
    )
    assert table["objective"][row] == pytest.approx(np.mean(expected), rel=1e-6)
    assert table["std_error"][row] == pytest.approx(np.std(expected, ddof=1) / np.sqrt(3), rel=1e-5)


class _Base:
    """The Student-t base that was fitted to all samples."""

    def __init__(self, x, weights):
        density = fit_base("student-t", x, weights)
        self.log_density, self.gradient, self.laplacian = (
            density.log_density,
            density.gradient,
            density.laplacian,
        )


def _objective(estimator, x, values, weights):
    g = estimator.gradient(x)
    terms = estimator.laplacian(x) + 0.5 * np.sum(g**2, axis=1)
    total = np.average(terms, weights=weights)
    if values is not None:
        apart = values - estimator.log_density(x)
        total += 0.5 * np.average(
            (apart - np.average(apart, weights=weights)) ** 2, weights=weights
        )
    return total


def test_many_samples_are_selected_on_a_few(monkeypatch):
    monkeypatch.setattr(full, "SELECTION", 16)
    x = np.random.default_rng(8).standard_normal((128, 1))
    estimator = FullKEF(regularization=[1e-2, 1.0], random_state=0).fit(x)
    # (16 / 128)^(1/3) of a candidate
    assert np.min(np.abs(estimator.regularization_ - np.array([5e-3, 0.5]))) < 1e-12
    again = FullKEF(regularization=[1e-2, 1.0], random_state=0).fit(x)
    np.testing.assert_array_equal(estimator.gradient(x), again.gradient(x))


@pytest.mark.parametrize("values", [None, VALUES], ids=["samples", "values"])
def test_a_stream_is_the_fit_to_all_of_it(values):
    estimator = FullKEF(
        kernel=Gaussian(1.3), regularization=LAMBDA, base="gaussian", random_state=0
    )
    for part in (slice(0, 10), slice(10, 25)):
        y = None if values is None else values[part]
        estimator.partial_fit(X[part], y, 3.0 * WEIGHTS[part])
    whole = fitted(values=values, weights=WEIGHTS, base="gaussian")
    close(estimator.gradient(POINTS), whole.gradient(POINTS), 1e-9)
    assert estimator.n_samples_seen_ == 25


def test_a_stream_has_values_throughout_or_never():
    with pytest.raises(ValueError, match="values: give log-densities for every block"):
        fitted().partial_fit(X, VALUES)


def test_without_regularization_there_is_no_estimator():
    with pytest.raises(ValueError, match=r"regularization=0.*expected positive numbers"):
        fitted(regularization=0.0)


def test_a_singular_system_says_so():
    for x in (X, np.repeat(X, 2, axis=0)):
        with pytest.raises(
            ValueError, match=r"regularization=1e-20.*singular to working precision"
        ):
            fitted(x, kernel=Gaussian(20.0), regularization=1e-20, solver="dense")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"solver": "lu"}, "solver='lu'"),
        ({"tolerance": 0.0}, "tolerance=0.0"),
        ({"cv": "loo"}, "cv='loo'"),
        ({"cv": 1}, "cv=1"),
        ({"kernel": "exponential"}, "Exponential.*derivatives"),
        ({"kernel": "gaussian", "bandwidth": 0.0}, "bandwidth=0"),
        ({"kernel": "gaussian", "bandwidth": np.inf}, "bandwidth=inf"),
        ({"value_weight": -1.0}, "value_weight=-1"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        fitted(**options)
