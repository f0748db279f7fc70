import numpy as np
import pytest

from kmc.scores import LiteKEF
from kmc.scores.base_fits import fit_base
from kmc.scores.choice import shrunk
from kmc.scores.densities import Flat

ONES = np.ones(300)


def test_a_sphere_is_found():
    """Correlations that are noise vanish, and variances that differ by noise become equal."""
    x = np.random.default_rng(0).standard_normal((300, 10))
    fitted = fit_base("gaussian", x)
    found = shrunk(fitted, x, ONES)
    assert np.linalg.norm(found.covariance - np.eye(10)) < 0.3 * np.linalg.norm(fitted.covariance - np.eye(10))
    np.testing.assert_array_equal(found.mean, fitted.mean)


def test_what_is_no_noise_stays():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((20_000, 3)) @ np.array([[1.0, 0.9, 0.0], [0.0, 0.5, 0.0], [0.0, 0.0, 10.0]])
    fitted = fit_base("gaussian", x)
    np.testing.assert_allclose(shrunk(fitted, x, np.ones(20_000)).covariance, fitted.covariance, rtol=1e-3, atol=0.05)


def test_tails_of_a_student_distribution():
    rng = np.random.default_rng(2)
    x = rng.standard_normal((300, 8)) / np.sqrt(rng.chisquare(5, (300, 1)) / 5)
    fitted = fit_base("student-t", x)
    found = shrunk(fitted, x, ONES)
    assert found.dof == fitted.dof
    assert np.linalg.norm(found.scale - np.eye(8)) < 0.5 * np.linalg.norm(fitted.scale - np.eye(8))


def test_weights_count_as_repetitions_of_the_sample():
    x = np.random.default_rng(3).standard_normal((60, 3)) * [1.0, 2.0, 3.0]
    w = np.repeat([1.0, 3.0], 30)
    found = shrunk(fit_base("gaussian", x, w), x, w)
    scaled = shrunk(fit_base("gaussian", x, 7 * w), x, 7 * w)
    np.testing.assert_allclose(found.covariance, scaled.covariance)


def test_one_column_and_others_stay():
    x = np.random.default_rng(4).standard_normal((50, 1))
    fitted = fit_base("gaussian", x)
    np.testing.assert_allclose(shrunk(fitted, x, np.ones(50)).covariance, fitted.covariance, rtol=1e-12)
    assert shrunk(Flat(), x, np.ones(50)) == Flat()


@pytest.mark.parametrize("base", ["gaussian", "auto"])
def test_only_open_bases_are_shrunk(base):
    """Ten standard normal coordinates: the error of a Gaussian fit is that of its correlations."""
    x = np.random.default_rng(5).standard_normal((500, 10))
    new = np.random.default_rng(6).standard_normal((500, 10))
    found = LiteKEF(base=base, n_basis=20, random_state=0).fit(x)
    error = np.mean((found.gradient(new) + new) ** 2)
    assert (error < 0.008) == (base == "auto")
