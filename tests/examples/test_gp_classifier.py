"""The pseudo-marginal target, compared with quadrature."""

import numpy as np
import pytest
from gp_classifier import GaussianProcessClassifier, laplace_mode, log_likelihood

INPUTS = np.array([[0.0, 0.0], [0.6, -0.4]])
LABELS = np.array([1.0, -1.0])


def quadrature(weights, ridge):
    """p(labels | weights) for two points, by a product rule over the whitened latent values."""
    gap = np.sum((weights * (INPUTS[0] - INPUTS[1])) ** 2)
    kernel = np.array([[1.0 + ridge, np.exp(-0.5 * gap)], [np.exp(-0.5 * gap), 1.0 + ridge]])
    nodes, shares = np.polynomial.hermite_e.hermegauss(60)
    latent = np.linalg.cholesky(kernel) @ np.stack(np.meshgrid(nodes, nodes)).reshape(2, -1)
    return (
        np.exp(log_likelihood(latent, LABELS[:, None]))
        @ np.outer(shares, shares).ravel()
        / (2 * np.pi)
    )


@pytest.mark.parametrize("weights", [[1.0, 1.0], [0.1, 3.0]])
def test_estimate_is_right(weights):
    weights = np.array(weights)
    target = GaussianProcessClassifier(INPUTS, LABELS, draws=20_000)
    estimate = target.log_marginal(weights, np.random.default_rng(0))
    # importance weights vary by less than a tenth, so 20,000 draws leave under .001
    assert estimate == pytest.approx(np.log(quadrature(weights, 1e-3)), abs=2e-3)


def test_mode_is_stationary_where_newton_needs_short_steps():
    """Labels against the grain of a large kernel: K⁻¹f − ∇log likelihood is zero at the mode."""
    rng = np.random.default_rng(5)
    x = np.sort(rng.uniform(0, 3, 30))
    kernel = 50 * np.exp(-0.5 * (x[:, None] - x) ** 2) + 1e-3 * np.eye(30)
    labels = rng.choice([-1.0, 1.0], 30)
    mode = laplace_mode(kernel, labels, tolerance=1e-12)
    slope = labels / (1 + np.exp(labels * mode))
    assert np.allclose(mode, kernel @ slope, atol=1e-4 * np.abs(mode).max())
