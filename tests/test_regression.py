import pickle

import numpy as np
import pytest
from scipy.interpolate import CubicHermiteSpline

from kmc.bases import Monomials, UserFunctions
from kmc.kernels import Exponential, ExponentialDotProduct, Gaussian, Matern52, Polynomial
from kmc.regression import HermiteRegression
from tests.oracles import hermite as oracle
from tests.sklearn_conventions import conventions

RNG = np.random.default_rng(0)
X = RNG.uniform(-1.0, 1.0, (30, 2))
V = RNG.standard_normal(30)
T = RNG.standard_normal((30, 2))
NEW = RNG.uniform(-1.0, 1.0, (50, 2))


def waves(x):
    return np.sin(2.0 * x).prod(axis=1)


def slopes(x):
    return 2.0 * np.cos(2.0 * x) * np.sin(2.0 * x[:, ::-1])


def paper(kernel, p):
    """The paper's estimator: the first p points, no penalty, no intercept."""
    return HermiteRegression(kernel, landmarks=X[:p], regularization=0.0, fit_intercept=False)


@pytest.mark.parametrize(
    ("kernel", "q", "dq"),
    [
        (Polynomial(3), lambda u: (1 + u) ** 3, lambda u: 3 * (1 + u) ** 2),
        (ExponentialDotProduct(1.5), lambda u: np.exp(u / 2.25), lambda u: np.exp(u / 2.25) / 2.25),
    ],
)
def test_algorithm_4(kernel, q, dq):
    fitted = paper(kernel, 6).fit(X, V, T)
    alpha = oracle.dot_product(X, V, T, 6, q, dq)
    np.testing.assert_allclose(fitted.coefficients_, alpha, rtol=1e-6)
    np.testing.assert_allclose(
        fitted.predict(NEW), [sum(a * q(y @ x) for a, y in zip(alpha, X)) for x in NEW], 1e-7
    )


@pytest.mark.parametrize(
    ("kernel", "q", "dq"),
    [
        (
            Gaussian(0.7),
            lambda u: np.exp(-(u**2) / 0.98),
            lambda u: -u / 0.49 * np.exp(-(u**2) / 0.98),
        ),
        (Exponential(0.7), lambda u: np.exp(-u / 0.7), lambda u: -np.exp(-u / 0.7) / 0.7),
    ],
)
def test_algorithm_5(kernel, q, dq):
    fitted = paper(kernel, 8).fit(X, V, T)
    alpha = oracle.distance(X, V, T, 8, q, dq)
    np.testing.assert_allclose(fitted.coefficients_, alpha, rtol=1e-6)
    values = [sum(a * q(np.linalg.norm(y - x)) for a, y in zip(alpha, X)) for x in NEW]
    np.testing.assert_allclose(fitted.predict(NEW), values, rtol=1e-6)


def test_two_points_with_slopes_are_hermites_cubic():
    x, v, t = np.array([[0.0], [2.0]]), [1.0, -1.0], [[0.5], [3.0]]
    cubic = CubicHermiteSpline(x[:, 0], v, np.ravel(t))
    fitted = HermiteRegression(basis="monomials", degree=3, regularization=0.0).fit(x, v, t)
    between = np.linspace(-1.0, 3.0, 9)[:, None]
    np.testing.assert_allclose(fitted.predict(between), cubic(between[:, 0]), atol=1e-9)
    np.testing.assert_allclose(fitted.gradient(between), cubic(between, 1), atol=1e-9)


def test_without_gradients_it_is_scikit_learns_kernel_ridge():
    kernel_ridge = pytest.importorskip("sklearn.kernel_ridge")
    peer = kernel_ridge.KernelRidge(alpha=30 * 1e-3, kernel="rbf", gamma=1 / (2 * 0.8**2)).fit(X, V)
    fitted = HermiteRegression(
        bandwidth=0.8, regularization=1e-3, landmarks=X, fit_intercept=False
    ).fit(X, V)
    np.testing.assert_allclose(fitted.predict(NEW), peer.predict(NEW), atol=1e-7)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_weights_are_repetitions_and_sqrt_weights_are_rows_of_least_squares(fit_intercept):
    counts = RNG.integers(0, 4, 30)
    options = {"bandwidth": 0.8, "regularization": 1e-2, "gradient_weight": 0.3, "landmarks": X[:9]}
    one = HermiteRegression(**options, fit_intercept=fit_intercept).fit(X, V, T, counts)
    two = HermiteRegression(**options, fit_intercept=fit_intercept).fit(
        *(np.repeat(a, counts, axis=0) for a in (X, V, T))
    )
    np.testing.assert_allclose(one.predict(NEW), two.predict(NEW), atol=1e-9)

    basis, root = one.basis_, np.sqrt(counts / counts.sum())
    constant = np.full((30, 1), float(fit_intercept))
    rows = [root[:, None] * np.hstack([basis.values(X), constant])]
    rows += [
        np.sqrt(0.3) * root[:, None] * np.hstack([basis.gradients(X)[:, :, i], 0 * constant])
        for i in range(2)
    ]
    rows += [np.hstack([0.1 * np.linalg.cholesky(basis.gram()).T, np.zeros((9, 1))])]
    right = np.concatenate(
        [root * V, *(np.sqrt(0.3) * root * T[:, i] for i in range(2)), np.zeros(9)]
    )
    literal = np.linalg.lstsq(np.vstack(rows), right)[0]
    np.testing.assert_allclose(one.coefficients_, literal[:9], rtol=1e-6, atol=1e-8)
    assert one.intercept_ == pytest.approx(literal[9], abs=1e-9)


@pytest.mark.parametrize("basis", ["sections", "fourier", "monomials"])
def test_gradients_are_those_of_the_prediction(basis):
    from tests.oracles import differences

    fitted = HermiteRegression(basis=basis, n_basis=20, random_state=0).fit(X, waves(X), slopes(X))
    np.testing.assert_allclose(
        fitted.gradient(NEW), differences.gradients(fitted.predict, NEW), atol=1e-6
    )


@pytest.mark.parametrize(
    ("basis", "error"), [("sections", 1e-5), ("fourier", 1e-5), ("monomials", 0.05)]
)
def test_gradients_help(basis, error):
    options = {"basis": basis, "n_basis": 60, "degree": 6, "bandwidth": "cv", "random_state": 0}
    x = np.random.default_rng(1).uniform(-1.0, 1.0, (60, 2))
    hermite = HermiteRegression(**options).fit(x, waves(x), slopes(x))
    plain = HermiteRegression(**options).fit(x, waves(x))
    assert 1.0 - hermite.score(NEW, waves(NEW)) < error
    assert 1.0 - hermite.score(NEW, waves(NEW)) < 0.5 * (1.0 - plain.score(NEW, waves(NEW)))
    worse, better = (np.sum((model.gradient(NEW) - slopes(NEW)) ** 2) for model in (plain, hermite))
    assert better < 0.7 * worse


def test_a_constant_is_hard_for_the_gaussian_kernel_and_gradients_help():
    """Figure 4 of the paper: n = 1000, p = 100, no noise."""
    x = np.random.default_rng(2).uniform(-1.0, 1.0, (1000, 2))
    errors = []
    for gradients in (None, np.zeros_like(x)):
        fitted = HermiteRegression(
            bandwidth=0.5, regularization=1e-3, fit_intercept=False, random_state=0
        )
        errors.append(np.mean((fitted.fit(x, np.ones(1000), gradients).predict(NEW) - 1.0) ** 2))
    assert errors[1] < 0.3 * errors[0]
    easy = HermiteRegression(bandwidth=0.5, regularization=1e-3, random_state=0).fit(
        x, np.ones(1000)
    )
    # with an intercept there is nothing to learn
    np.testing.assert_allclose(easy.predict(NEW), 1.0)


def test_the_held_out_loss_is_that_of_a_fit_to_the_rest():
    options = {"landmarks": X[:9], "gradient_weight": 0.3, "cv": 3}
    model = HermiteRegression(
        **options, bandwidth=[0.5, 1.0], regularization=[1e-3, 1e-1], random_state=3
    )
    table = model.fit(X, V, T).cv_results_
    assert model.bandwidth_ == table["bandwidth"][np.argmin(table["objective"])]
    assert model.regularization_ == table["regularization"][np.argmin(table["objective"])]
    parts = np.array_split(np.random.default_rng(3).permutation(30), 3)
    losses = []
    for part in parts:
        rest = np.setdiff1d(np.arange(30), part)
        one = HermiteRegression(**options, bandwidth=1.0, regularization=1e-1).fit(
            X[rest], V[rest], T[rest]
        )
        squares = np.sum((one.gradient(X[part]) - T[part]) ** 2, axis=1)
        losses.append(np.mean((one.predict(X[part]) - V[part]) ** 2 + 0.3 * squares))
    assert table["objective"][-1] == pytest.approx(np.mean(losses))
    assert (
        HermiteRegression(**options, bandwidth=1.0, regularization=0.1).fit(X, V).cv_results_ == {}
    )


def test_units_of_the_points_do_not_matter():
    one = HermiteRegression(gradient_weight=1.0, random_state=0).fit(X, V, T)
    two = HermiteRegression(gradient_weight=1e6, random_state=0).fit(1e3 * X, V, T / 1e3)
    np.testing.assert_allclose(two.predict(1e3 * NEW), one.predict(NEW), atol=1e-6)


@pytest.mark.parametrize("shift", [1e4, 1e6])
def test_an_offset_costs_few_digits(shift):
    options = {"bandwidth": 0.8, "regularization": 1e-3, "random_state": 0}
    one = HermiteRegression(**options).fit(X, waves(X), slopes(X))
    two = HermiteRegression(**options).fit(X + shift, waves(X) + shift, slopes(X))
    np.testing.assert_allclose(
        two.predict(NEW + shift) - shift, one.predict(NEW), atol=1e-10 * shift
    )


def test_a_users_basis():
    linear = UserFunctions(
        lambda x: x, lambda x: np.broadcast_to(np.eye(2), (len(x), 2, 2)), size=2
    )
    fitted = HermiteRegression(basis=linear, regularization=0.0).fit(
        X, 3.0 + X @ [1.0, -2.0], np.tile([1.0, -2.0], (30, 1))
    )
    np.testing.assert_allclose(fitted.coefficients_, [1.0, -2.0])
    assert fitted.intercept_ == pytest.approx(3.0)
    assert fitted.kernel_ is None and fitted.bandwidth_ is None


def test_scores():
    fitted = HermiteRegression(basis=Monomials(1, 2), regularization=0.0).fit(X, V, T)
    metrics = pytest.importorskip("sklearn.metrics")
    weights = RNG.random(50)
    truth = RNG.standard_normal(50)
    expected = metrics.r2_score(truth, fitted.predict(NEW), sample_weight=weights)
    assert fitted.score(NEW, truth, weights) == pytest.approx(expected)
    assert fitted.score(NEW, np.ones(50)) == 0.0


def test_values_by_name_and_pickles():
    one = HermiteRegression(random_state=0).fit(X, values=V, gradients=T)
    two = pickle.loads(pickle.dumps(HermiteRegression(random_state=0).fit(X, V, T)))
    np.testing.assert_array_equal(one.predict(NEW), two.predict(NEW))


@pytest.mark.parametrize(
    ("options", "arguments", "message"),
    [
        ({}, (X, V, T[:, :1]), r"gradients has shape \(30, 1\): expected \(30, 2\)"),
        ({}, (X, V[:20], T), r"y has shape \(20,\): expected \(30,\)"),
        ({}, (X, None, T), "requires y to be passed"),
        ({}, (X, V, T, -np.ones(30)), "weights: expected non-negative"),
        ({}, (np.ones((5, 2)), np.ones(5)), "all 5 points are equal"),
        ({"gradient_weight": -1.0}, (X, V), "gradient_weight=-1.0"),
        ({"basis": "splines"}, (X, V), "basis='splines': expected 'sections'"),
        ({"basis": "monomials", "degree": 0}, (X, V), "degree=0"),
        ({"bandwidth": "mean"}, (X, V), "bandwidth='mean'"),
        ({"regularization": -1.0}, (X, V), "regularization=-1.0"),
        ({"kernel": "sinc"}, (X, V), "kernel='sinc'"),
        ({"cv": 1}, (X, V), "cv=1"),
        ({"landmarks": np.ones((3, 5))}, (X, V), "landmarks has shape"),
    ],
)
def test_bad_input(options, arguments, message):
    with pytest.raises(ValueError, match=message):
        HermiteRegression(**options).fit(*arguments)


@pytest.mark.parametrize(
    ("estimator", "check"),
    conventions(
        [
            HermiteRegression(n_basis=30),
            HermiteRegression(Matern52(), basis="fourier", bandwidth=2.0),
        ]
    ),
)
def test_conventions(estimator, check):
    check(estimator)
