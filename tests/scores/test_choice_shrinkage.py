import numpy as np
import pytest

from kmc.scores import LiteKEF
from kmc.scores.base_fits import fit_base
from kmc.scores.choice import shrunk

ONES = np.ones(300)


def test_a_sphere_is_found():
    """Correlations that are noise vanish, and variances that differ by noise become equal."""
    x = np.random.default_rng(0).standard_normal((300, 10))
    fitted = fit_base("gaussian", x)
    found = shrunk(fitted, x, ONES)
    assert np.linalg.norm(found.covariance - np.eye(10)) < 0.3 * np.linalg.norm(
        fitted.covariance - np.eye(10)
    )
    np.testing.assert_array_equal(found.mean, fitted.mean)


@pytest.mark.parametrize("base", ["gaussian", "auto"])
def test_only_open_bases_are_shrunk(base):
    """Ten standard normal coordinates: the error of a Gaussian fit is that of its correlations."""
    x = np.random.default_rng(5).standard_normal((500, 10))
    new = np.random.default_rng(6).standard_normal((500, 10))
    found = LiteKEF(base=base, n_basis=20, random_state=0).fit(x)
    error = np.mean((found.gradient(new) + new) ** 2)
    assert (error < 0.008) == (base == "auto")
