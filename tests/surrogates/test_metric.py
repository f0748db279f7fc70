import numpy as np
import pytest

from kmc.surrogates.expansion import Data, fit_expansion
from kmc.surrogates.metric import gradient_metric, polynomial_metric

DIRECTION = np.array([0.6, 0.0, 0.8])


def metrics(residual):
    """Both metrics, learned from a residual given as a function of 300 points in three dimensions."""
    rng = np.random.default_rng(17)
    z = rng.standard_normal((300, 3))
    data = Data(z, residual(z), np.full(300, 1 / 300), z[:80])
    fitted = fit_expansion(data, np.eye(3), (1.2,), jitter=1e-11)
    return gradient_metric(fitted, data), polynomial_metric(z, data.residual, data.weights, rng=rng)


@pytest.mark.parametrize("which", [0, 1], ids=["gradient", "polynomial"])
def test_distances_are_longest_where_the_residual_varies(which):
    metric = metrics(lambda z: np.sin(2 * z @ DIRECTION))[which]
    eigenvalues, vectors = np.linalg.eigh(metric)
    assert eigenvalues[0] > 0.1  # every direction counts a little
    assert eigenvalues[2] > 2 * eigenvalues[1]
    assert abs(vectors[:, 2] @ DIRECTION) > 0.95
    assert np.trace(metric @ metric) == pytest.approx(3.06)  # M has trace d, and .02 is added


@pytest.mark.parametrize("which", [0, 1], ids=["gradient", "polynomial"])
def test_a_flat_residual_has_no_directions(which):
    np.testing.assert_allclose(metrics(lambda z: np.zeros(len(z)))[which], np.eye(3), atol=1e-12)


def test_a_ridge_that_bends_is_found_with_a_few_points_more_than_there_are_quartics():
    """In six dimensions there are 210 of them. The bend is a function of two directions, and they lead the metric."""
    rng = np.random.default_rng(3)
    z = rng.standard_normal((240, 6))
    plane = np.linalg.qr(rng.standard_normal((6, 2)))[0]
    a, b = (z @ plane).T
    metric = polynomial_metric(z, -20.0 * (b + a**2) ** 2, np.full(240, 1 / 240), rng=rng)
    leading = np.linalg.eigh(metric)[1][:, -2:]
    cosines = np.linalg.svd(plane.T @ leading, compute_uv=False)
    assert cosines.min() > 0.99
