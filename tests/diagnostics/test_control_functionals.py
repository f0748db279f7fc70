import warnings

import numpy as np
import pytest
from scipy.special import gamma

from kmc.diagnostics import control_functional
from kmc.diagnostics.control_functionals import BLOCKS
from kmc.diagnostics.stein import stein_kernel
from kmc.kernels import Gaussian, Polynomial
from kmc.scores import GaussianScore
from tests.diagnostics.test_stein import autoregressive, results, standard
from tests.oracles import stein as oracle

RNG = np.random.default_rng(0)
X = RNG.standard_normal((400, 2))


def smooth(x):
    """Of mean e^(-1/2) under N(0, I)."""
    return np.cos(x[:, 0]) + np.sin(x[:, 1])


def student(x):
    """The score of independent Student-t variables with 5 degrees of freedom."""
    return -6 * x / (5 + x**2)


def whitened(x, scores):
    """Coordinates with mean zero and covariance one, and the score there."""
    deviations = x - x.mean(axis=0)
    b = np.linalg.cholesky(np.cov(x.T, ddof=0))
    return np.linalg.solve(b, deviations.T).T, scores @ b


def test_the_estimate_is_the_constant_of_kernel_ridge_regression():
    x = X[:40]
    found = control_functional(
        x, smooth, standard, kernel=Gaussian(), bandwidth=0.7, n_basis=40, random_state=0
    )
    # another root of the covariance: both kernels are invariant under rotations
    z, scores = whitened(x, -x)

    values = stein_kernel(Polynomial(degree=1) + Gaussian(0.7), z, scores, z, scores)
    groups = [i * BLOCKS // 40 for i in range(40)]
    expected = oracle.control_functional(values, smooth(x), found.regularization)
    assert found.estimate == pytest.approx(expected, abs=1e-3 * found.standard_error)
    error = oracle.jackknife(values, smooth(x), groups, found.regularization)
    assert found.standard_error == pytest.approx(error, rel=1e-3)
    assert found.rank == 40


@pytest.mark.parametrize("dim", [1, 4])
def test_a_quadratic_function_of_gaussian_draws_has_no_variance_left(dim):
    """Zero variance (Mira, Solgi and Imparato 2013): sections of 1 + <x, y> span x_i and x_i x_j -
    δ_ij.
    """
    rng = np.random.default_rng(1)
    root = rng.standard_normal((dim, dim)) + 2 * np.eye(dim)
    precision = np.linalg.inv(root @ root.T)
    x = 5.0 + rng.standard_normal((300, dim)) @ root.T
    found = control_functional(
        x,
        lambda x: np.column_stack([x[:, 0], x[:, 0] * x[:, -1]]),
        lambda x: -(x - 5.0) @ precision,
        kernel=Polynomial(degree=1),
        random_state=0,
    )
    covariance = root @ root.T
    expected = np.array([5.0, 25.0 + covariance[0, -1]])
    np.testing.assert_allclose(found.estimate, expected, rtol=1e-7)
    assert np.all(np.abs(found.plain_estimate - expected) > 1e-3)


def test_less_variance_and_an_honest_error():
    errors, plain_errors, standardized = [], [], []
    for seed in range(25):
        x = np.random.default_rng(seed).standard_normal((300, 2))
        found = control_functional(
            x, smooth, standard, bandwidth="median", n_basis=60, random_state=seed
        )
        errors.append(found.estimate - np.exp(-0.5))
        plain_errors.append(found.plain_estimate - np.exp(-0.5))
        standardized.append(errors[-1] / found.standard_error)
    assert np.std(errors) < 0.25 * np.std(plain_errors)
    assert abs(np.mean(errors)) < 4 * np.std(errors) / np.sqrt(25)
    assert np.mean(np.abs(standardized) < 2) > 0.8
    assert 0.5 < np.sqrt(np.mean(np.square(standardized))) < 1.5


def test_heavy_tails():
    """E|x| = 2 √ν Γ((ν+1)/2) / (√π (ν-1) Γ(ν/2)) for Student-t variables, ν = 5."""
    expected = 2 * np.sqrt(5) * gamma(3) / (np.sqrt(np.pi) * 4 * gamma(2.5))
    errors, plain_errors, standardized = [], [], []
    for seed in range(12):
        x = np.random.default_rng(seed).standard_t(5, (600, 2))
        options = {"bandwidth": "median", "n_basis": 100, "random_state": seed}
        found = control_functional(x, lambda x: np.abs(x[:, 0]), student, **options)
        errors.append(found.estimate - expected)
        plain_errors.append(found.plain_estimate - expected)
        standardized.append(errors[-1] / found.standard_error)
    assert np.sqrt(np.mean(np.square(errors))) < 0.5 * np.sqrt(np.mean(np.square(plain_errors)))
    assert np.sqrt(np.mean(np.square(standardized))) < 3  # as the docstring has it for heavy tails


def test_autocorrelated_draws_have_larger_errors():
    x = autoregressive(np.random.default_rng(2), 4, 500, 0.9)
    found = control_functional(
        x, lambda x: np.abs(x[:, 0]) + 0.2 * np.sign(x[:, 0]), standard, random_state=0
    )
    f = np.abs(x) + 0.2 * np.sign(x)
    assert found.plain_standard_error > 2 * f.std() / np.sqrt(2000)
    assert found.standard_error < found.plain_standard_error
    assert abs(found.estimate - np.sqrt(2 / np.pi)) < 0.2 * found.plain_standard_error


def test_units_of_the_parameters_make_no_difference():
    scale, shift = np.array([1e-4, 1e3]), np.array([3.0, -1e4])
    one = control_functional(X, smooth, standard, random_state=0)
    two = control_functional(
        shift + scale * X,
        lambda x: smooth((x - shift) / scale),
        lambda x: -(x - shift) / scale**2,
        random_state=0,
    )
    assert two.estimate == pytest.approx(one.estimate, abs=1e-6)
    assert two.standard_error == pytest.approx(one.standard_error, rel=1e-3)


def test_several_functions_at_once():
    def both(x):
        return np.column_stack([smooth(x), x[:, 0] ** 3])

    together = control_functional(X, both, standard, bandwidth=1.5, random_state=0)
    for k in range(2):
        alone = control_functional(X, both(X)[:, k], standard, bandwidth=1.5, random_state=0)
        assert isinstance(alone.estimate, float)
        assert together.estimate[k] == pytest.approx(alone.estimate)
        assert together.standard_error[k] == pytest.approx(alone.standard_error)
        assert together.regularization[k] == alone.regularization


def test_results_of_arviz_and_an_estimated_score():
    x = X.reshape(2, 200, 2)
    idata = results({"a": (("chain", "draw"), x[..., 0]), "b": (("chain", "draw"), x[..., 1])})
    model = GaussianScore().fit(X)
    found = control_functional(idata, smooth, model, random_state=0)
    assert found == control_functional(x, smooth(X), model.gradient, random_state=0)
    assert found == control_functional(x, smooth(X).reshape(2, 200), model, random_state=0)


def test_repeated_draws_of_a_metropolis_chain():
    repeated = np.repeat(X[:150], 3, axis=0)
    found = control_functional(repeated, smooth, standard, random_state=0)
    assert found.rank <= 150
    assert abs(found.estimate - np.exp(-0.5)) < 4 * found.standard_error


def test_a_constant_function():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = control_functional(X, np.full(400, 3.0), standard, random_state=0)
    assert found.estimate == pytest.approx(3.0) and found.standard_error == pytest.approx(
        0.0, abs=1e-12
    )


@pytest.mark.parametrize(
    ("data", "f", "score", "options", "message"),
    [
        (X[:39], smooth, standard, {}, "data: 39 draws, expected at least 40"),
        (
            X[:200],
            X.T,
            standard,
            {},
            r"f has values of shape \(2, 400\): expected \(200,\) or \(200, k\)",
        ),
        (X, lambda x: x[:10, 0], standard, {}, r"f has values of shape \(10,\)"),
        (X, "a", standard, {}, "f does not convert to an array of numbers: .*'a'"),
        (
            X,
            lambda x: ["a"] * len(x),
            standard,
            {},
            "f does not convert to an array of numbers: .*'a'",
        ),
        (
            X,
            lambda x: np.ma.masked_greater(x[:, 0], 0),
            standard,
            {},
            "f does not convert .*: it has masked entries",
        ),
        (
            X,
            smooth,
            lambda x: np.full(x.shape, "a"),
            {},
            "score does not convert to an array of numbers: .*'a'",
        ),
        (X, lambda x: np.log(x[:, 0]), standard, {}, "f is NaN or infinite at the point"),
        (X, smooth, lambda x: x[:, :1], {}, "score returned an array of shape"),
        (X, smooth, standard, {"n_basis": 0}, "n_basis=0: expected a whole number"),
        (X, smooth, standard, {"bandwidth": "mean"}, "bandwidth='mean': expected 'median', 'cv'"),
        (X, smooth, standard, {"kernel": "exponential"}, "has 0 derivatives"),
        (np.column_stack([X, np.ones(400)]), smooth, standard, {}, "column 2 of X is constant"),
        (np.column_stack([X, X.sum(axis=1)]), smooth, standard, {}, "the draws lie in a plane"),
    ],
)
def test_bad_input(data, f, score, options, message):
    with np.errstate(all="ignore"), pytest.raises(ValueError, match=message):
        control_functional(data, f, score, **options)
