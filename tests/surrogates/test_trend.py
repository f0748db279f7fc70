import numpy as np
import pytest

from kmc.surrogates.slopes import Slopes
from kmc.surrogates.trend import DOFS, depth, fit_gaussian, fit_trend
from kmc.targets.toys import Banana, Bimodal, Ring

LOCATION = 0.4
TARGETS = {"banana": Banana(3, b=0.05), "bimodal": Bimodal(3, weight=0.3), "ring": Ring()}
SURFACES = {
    "saddle": lambda z: z[:, 0] ** 2 - z[:, 1] ** 2,
    "bowl": lambda z: np.sum(z**2, axis=1),
    "slope": lambda z: 3 * z[:, 0],
    "ridge": lambda z: -50 * z[:, 0] ** 2,
    "plateau": lambda z: np.zeros(len(z)),
    "noise": lambda z: 10 * np.sin(1e6 * z[:, 0]),
}


@pytest.fixture
def rng():
    return np.random.default_rng(13)


def weights(n, rng):
    w = 0.1 + rng.random(n)
    return w / w.sum()


def student_density(dof, dim, n, rng):
    """Precision, draws of a Student-t (Gaussian if ``dof`` is 0) about LOCATION, and its log-density plus seven."""
    a = rng.standard_normal((dim, dim))
    precision = a @ a.T / dim + 0.5 * np.eye(dim)
    r = rng.standard_normal((n, dim)) @ np.linalg.inv(np.linalg.cholesky(precision))
    if dof:
        r *= np.sqrt(dof / rng.chisquare(dof, (n, 1)))
    return precision, LOCATION + r, 7.0 - depth(np.einsum("ni,ij,nj->n", r, precision, r), dof, dim)


@pytest.mark.parametrize("dim", [1, 3, 8])
@pytest.mark.parametrize("dof", [0.0, *DOFS])
def test_exact_densities_are_recovered(rng, dim, dof):
    """To rounding for Student-t; a Gaussian is shrunk by a ridge of 1e-8 at least."""
    precision, z, y = student_density(dof, dim, 300, rng)
    trend = fit_trend(z, y, weights(300, rng))
    assert trend.dof == dof
    np.testing.assert_allclose(trend.precision, precision, atol=1e-6)
    np.testing.assert_allclose(trend.location, LOCATION, atol=1e-6)
    assert trend.constant == pytest.approx(7.0, abs=1e-6)
    assert trend.residual_sd < 1e-6


def test_gradients_recover_a_gaussian_from_fewer_values_than_it_has_terms(rng):
    """30 values, of which 25 have a gradient; 66 terms."""
    precision, z, y = student_density(0.0, 10, 30, rng)
    w = weights(30, rng)
    slopes = Slopes(z[:25], -(z[:25] - LOCATION) @ precision, w[:25])
    trend = fit_trend(z, y, w, slopes=slopes)
    np.testing.assert_allclose(trend.precision, precision, atol=1e-6)
    np.testing.assert_allclose(trend.location, LOCATION, atol=1e-6)
    assert np.abs(fit_trend(z, y, w).precision - precision).max() > 0.1


@pytest.mark.parametrize("surface", SURFACES.values(), ids=SURFACES)
@pytest.mark.parametrize("n", [4, 30, 300])
def test_precision_is_positive_definite_whatever_the_values(rng, surface, n):
    """The trend falls in every direction, and a Gaussian's mode stays among the points."""
    z, w = rng.standard_normal((n, 2)), weights(n, rng)
    trend, gaussian = fit_trend(z, surface(z), w), fit_gaussian(z, surface(z), w)
    for t in (trend, gaussian):
        assert np.linalg.eigvalsh(t.precision).min() > 0
        assert np.isfinite([t.constant, t.residual_sd, *t.location]).all()
    assert np.linalg.norm(gaussian.location) <= np.linalg.norm(z, axis=1).max() * (1 + 1e-9)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("n", [20, 400])
def test_curved_and_split_densities_get_a_finite_trend(rng, target, n):
    x = target.sample(rng, n)
    z, y = (x - x.mean(0)) / x.std(0), np.array([target(row) for row in x])
    w = weights(n, rng)
    trend = fit_trend(z, y, w)
    assert np.linalg.eigvalsh(trend.precision).min() > 0
    q = np.einsum("ni,ij,nj->n", z - trend.location, trend.precision, z - trend.location)
    residual = y - trend.constant + depth(q, trend.dof, target.dim)
    assert trend.residual_sd == pytest.approx(np.sqrt(w @ residual**2))
    assert trend.residual_sd < 1.5 * np.sqrt(w @ (y - w @ y) ** 2)


@pytest.mark.parametrize("spare", [15, 200])
def test_a_quadratic_is_recognized_from_far_away(spare):
    """In 30 dimensions, with hardly more values than unknowns, tens of standard deviations from the mode."""
    rng = np.random.default_rng(12)
    d, sd = 30, np.geomspace(0.3, 10.0, 30)
    z = 25.0 + rng.standard_normal((1 + d + d * (d + 1) // 2 + spare, d)) * rng.choice([0.3, 1.0, 3.0], d)
    y = -0.5 * np.sum((z / sd) ** 2, axis=1)
    trend = fit_gaussian(z, y, np.full(len(z), 1.0 / len(z)))
    np.testing.assert_allclose(np.diag(trend.precision), sd**-2.0, rtol=1e-2)
    assert np.abs(trend.location / sd).max() < 0.1
