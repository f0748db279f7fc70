r"""A Gaussian-process classifier as a noisy target
===============================================

The marginal posterior of a classifier's length scales: the target of the previous example.

The target of Strathmann et al. (2015), section 5, and of Sutherland et al. (2018), section 5.2:
logistic likelihood, latent f ~ N(0, K + ridge I), :math:`K_{ab} = \exp(-\tfrac12 \sum_i w_i^2
(x_{ai} - x_{bi})^2)`, log w ~ N(0, 5 I). The marginal likelihood is estimated without bias by
importance sampling from the Laplace approximation.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from scipy import linalg
from scipy.spatial.distance import squareform


class GaussianProcessClassifier:
    """The log of an unbiased estimate of p(labels | weights) p(log weights), up to the prior's
    constant.

    Parameters
    ----------
    inputs : ndarray, shape (n, d)
    labels : ndarray, shape (n,)
        1 or -1.
    draws : int
        Number of draws of the importance sampler; 0 for the Laplace approximation itself.
    ridge : float
        Added to the diagonal of the kernel matrix.
    prior_variance : float
        Of each log weight.
    """

    def __init__(self, inputs, labels, draws=100, ridge=1e-3, prior_variance=5.0):
        self.labels, self.draws, self.ridge, self.prior_variance = (
            labels,
            draws,
            ridge,
            prior_variance,
        )
        self.dim = inputs.shape[1]
        above = np.triu_indices(len(inputs), 1)
        self._squares = (inputs[above[0]] - inputs[above[1]]).T ** 2  # (d, pairs)

    def __call__(self, log_weights: np.ndarray, rng: np.random.Generator) -> float:
        """Estimate at one point (d,)."""
        prior = -0.5 * float(log_weights @ log_weights) / self.prior_variance
        return prior + self.log_marginal(np.exp(log_weights), rng)

    def log_marginal(self, weights: np.ndarray, rng: np.random.Generator) -> float:
        """Estimate of log p(labels | weights), for weights (d,).

        With K = L Lᵀ and f = L v, the prior of v is standard normal and the Laplace approximation
        of its posterior is N(v̂, (I + LᵀWL)⁻¹), whose Cholesky factor is used for draws and
        densities.
        """
        kernel = squareform(np.exp(-0.5 * (weights**2 @ self._squares)), checks=False)
        kernel[np.diag_indices_from(kernel)] = 1.0 + self.ridge
        root = linalg.cholesky(kernel, lower=True, check_finite=False)
        mode = laplace_mode(kernel, self.labels)
        v = linalg.solve_triangular(root, mode, lower=True, check_finite=False)
        curved = np.sqrt(logistic_curvature(mode))[:, None] * root
        precision = curved.T @ curved
        precision[np.diag_indices_from(precision)] += 1.0
        factor = linalg.cholesky(precision, lower=True, check_finite=False)
        log_det = float(np.log(np.diag(factor)).sum())
        if not self.draws:
            return float(log_likelihood(mode, self.labels)) - 0.5 * float(v @ v) - log_det
        z = rng.standard_normal((len(v), self.draws))
        drawn = v[:, None] + linalg.solve_triangular(
            factor, z, lower=True, trans="T", check_finite=False
        )
        likelihood = log_likelihood(root @ drawn, self.labels[:, None])
        log_ratios = likelihood + 0.5 * np.sum(z**2 - drawn**2, axis=0) - log_det
        top = log_ratios.max()
        return float(top + math.log(np.exp(log_ratios - top).mean()))


def laplace_mode(kernel: np.ndarray, labels: np.ndarray, tolerance: float = 1e-6) -> np.ndarray:
    """The mode of the latent posterior (n,): Newton's method, Rasmussen and Williams (2006),
    algorithm 3.1.

    A step that lowers the density is halved; the iteration ends when it gains less than the
    tolerance.
    """
    f, a = np.zeros(len(labels)), np.zeros(len(labels))
    height = log_likelihood(f, labels)
    for _ in range(100):
        curvature = logistic_curvature(f)
        root = np.sqrt(curvature)
        system = root[:, None] * kernel * root
        system[np.diag_indices_from(system)] += 1.0
        factor = linalg.cho_factor(system, lower=True, overwrite_a=True, check_finite=False)
        b = curvature * f + 0.5 * (labels - np.tanh(0.5 * f))
        step = b - root * linalg.cho_solve(factor, root * (kernel @ b), check_finite=False) - a
        for _ in range(30):
            a_new = a + step
            f_new = kernel @ a_new
            height_new = log_likelihood(f_new, labels) - 0.5 * float(a_new @ f_new)
            if height_new >= height - tolerance:
                break
            step *= 0.5
        gain, f, a, height = height_new - height, f_new, a_new, height_new
        if gain < tolerance:
            break
    return f


def logistic_curvature(f: np.ndarray) -> np.ndarray:
    """Minus the second derivative of log 1 / (1 + exp(-f)), which does not depend on the label."""
    return 0.25 / np.cosh(0.5 * f) ** 2


def log_likelihood(f: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Sum over the first axis of log 1 / (1 + exp(-label f))."""
    return -np.logaddexp(0.0, -labels * f).sum(axis=0)


def read_glass(path: Path, whiten: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """UCI Glass: inputs (214, 9), and 1 for window glass (class at most 4), -1 for the rest.

    Inputs are whitened, as in the papers' code, or only standardized.
    """
    table = np.loadtxt(path, delimiter=",")
    if table.ndim != 2 or table.shape[1] != 11:
        raise ValueError(
            f"{path} has shape {table.shape}: expected the 11 columns of UCI's glass.data"
        )
    inputs = table[:, 1:-1]
    labels = np.where(table[:, -1] <= 4, 1.0, -1.0)
    return whitened(inputs) if whiten else (inputs - inputs.mean(0)) / inputs.std(0, ddof=1), labels


def whitened(inputs: np.ndarray) -> np.ndarray:
    """Inputs (n, d), centered and divided by the Cholesky factor of their covariance."""
    centered = inputs - inputs.mean(0)
    root = np.linalg.cholesky(np.cov(centered.T))
    return linalg.solve_triangular(root, centered.T, lower=True).T
