import numpy as np
import pytest

from kmc.surrogates.expansion import Data, fit_expansion
from kmc.surrogates.slopes import Slopes
from tests.oracles import differences
from tests.oracles import expansion as oracle

JITTER = 1e-6  # moderate, as are the bandwidths: the oracle solves in the raw sections
METRICS = {"isotropic": np.eye(2), "symmetric": np.array([[1.2, 0.3], [0.3, 0.7]])}


def problem(n=40, m=8, n_slopes=0):
    rng = np.random.default_rng(14)
    z, at, weights = rng.standard_normal((n, 2)), rng.standard_normal((15, 2)), 0.2 + rng.random(n)
    return Data(
        z=z,
        residual=1.0 + np.sin(1.5 * z[:, 0]) * z[:, 1] + 0.1 * rng.standard_normal(n),
        weights=weights / weights.sum(),
        centers=z[:m],
        slopes=Slopes(at[:n_slopes], np.cos(at[:n_slopes]), 0.1 * weights[:n_slopes]) if n_slopes else None,
    )


@pytest.fixture(params=METRICS.values(), ids=METRICS)
def metric(request):
    return request.param


@pytest.fixture(params=[0, 9], ids=["values", "gradients"])
def data(request):
    return problem(n_slopes=request.param)


@pytest.fixture(params=[0.3, 0.8], ids=["narrow", "wide"])
def expansion(request, data, metric):
    return fit_expansion(data, metric, (request.param,), jitter=JITTER)


def kernel(expansion):
    """The choices that the oracle needs."""
    return expansion.kernel.bandwidth, expansion.metric, expansion.regularization, JITTER


def test_solution_is_the_oracles(data, expansion):
    alpha, constant = oracle.solve(data, kernel(expansion))
    np.testing.assert_allclose(expansion.coefficients, alpha, atol=1e-8 * np.abs(alpha).max())
    assert expansion.offset == pytest.approx(constant, rel=1e-8)


@pytest.mark.parametrize("n_slopes", [0, 9])
def test_oracle_minimizes_the_objective(n_slopes):
    """J is quadratic, so central differences are exact: rounding is all that is left of its gradient."""
    data, choices = problem(m=4, n_slopes=n_slopes), (0.8, METRICS["symmetric"], 1e-2, JITTER)

    def slope(at):
        return np.abs(differences.gradient(lambda t: oracle.objective(t[:-1], t[-1], data, choices), at, 1.0)).max()

    alpha, constant = oracle.solve(data, choices)
    assert slope(np.append(alpha, constant)) < 1e-10 * slope(np.zeros(5))


def test_leave_one_out_is_refitting(data, expansion):
    residuals = oracle.leave_one_out(data, kernel(expansion))
    np.testing.assert_allclose(expansion.residuals, residuals, atol=1e-8 * np.abs(residuals).max())
    assert expansion.loo_sd == pytest.approx(np.sqrt(data.weights @ residuals**2), rel=1e-8)


def test_values_and_gradients(data, expansion):
    bandwidth, metric, *_ = kernel(expansion)
    sections = np.exp(-np.sum(((data.z[:, None] - data.centers) @ metric.T) ** 2, axis=2) / (2 * bandwidth**2))
    np.testing.assert_allclose(expansion.values(data.z), expansion.offset + sections @ expansion.coefficients)
    slopes = [differences.gradient(lambda z: expansion.values(z[None])[0], row, 0.002) for row in data.z]
    np.testing.assert_allclose(expansion.gradients(data.z), slopes, rtol=1e-6, atol=1e-7)


def test_an_infinite_bandwidth_stands_for_quartics(metric):
    """They extrapolate beyond the data, where Gaussian sections of any width vanish."""
    rng = np.random.default_rng(15)
    z = rng.standard_normal((200, 2))

    def ridge(z):
        return -2.0 * (z[:, 1] + 0.5 * z[:, 0] ** 2) ** 2 - 0.3 * z[:, 0]

    data = Data(z, ridge(z), np.full(200, 1 / 200), z[:60])
    quartic, gaussian = (fit_expansion(data, metric, (factor,), jitter=1e-11) for factor in (np.inf, 2.0))
    beyond = np.column_stack([np.full(5, 5.0), -12.5 + 0.1 * np.arange(5)])
    error, falling_back = (np.abs(e.values(beyond) - ridge(beyond)).max() for e in (quartic, gaussian))
    assert quartic.loo_sd < 0.02 and quartic.factor == np.inf
    assert 5.0 * error < falling_back
    slopes = [differences.gradient(lambda z: quartic.values(z[None])[0], row) for row in beyond]
    np.testing.assert_allclose(quartic.gradients(beyond), slopes, rtol=1e-6, atol=1e-4)
