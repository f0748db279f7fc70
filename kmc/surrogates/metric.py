"""The linear metric of the surrogate's kernel: directions along which the residual varies get short distances.

A metric is (M + .02 I)^½ with M the mean of ∇f ∇fᵀ over the weighted data, scaled to trace d, where f is a fit of the
residual: the expansion itself, or a quartic polynomial if an isotropic kernel finds nothing, as on a curved ridge in
eight dimensions (benchmarks/README.md). The polynomial can also use deep values, of which there are more.
"""

from __future__ import annotations

import numpy as np

from kmc.linalg import eigh, symmetric_power
from kmc.surrogates.expansion import Data, Expansion
from kmc.surrogates.slopes import Slopes

# "Tried" is docs/what-was-tried.md; the others were set by hand.
_MOST_POINTS = 1500  # points of a polynomial fit (tried: quartics)
_DEGREE = 4  # of the polynomials (tried: cubics do not find the metric)
_RIDGES = np.logspace(-13, -1, 7)  # candidates
_ISOTROPIC = 0.02  # isotropic part of the metric, so that no direction has length zero


def gradient_metric(expansion: Expansion, data: Data) -> np.ndarray:
    """The metric of the expansion's own gradients, shape (d, d)."""
    return metric_of_gradients(expansion.gradients(data.z), data.weights)


def slopes_metric(slopes: Slopes) -> np.ndarray:
    """The metric of known gradients of the residual, shape (d, d)."""
    return metric_of_gradients(slopes.gradient, slopes.weights)


def polynomial_metric(z: np.ndarray, y: np.ndarray, weights: np.ndarray, *, rng: np.random.Generator) -> np.ndarray:
    """The metric of a kernel ridge regression of y on polynomials of degree four, shape (d, d).

    At most 1500 random points take part; the ridge is chosen by exact leave-one-out.
    """
    rows = rng.permutation(len(z))[:_MOST_POINTS]
    weights = weights[rows] / weights[rows].sum()
    z, y = z[rows], y[rows] - weights @ y[rows]
    scale = np.sqrt(weights @ np.sum(z**2, axis=1))
    z = z / scale
    products = 1.0 + z @ z.T
    root = np.sqrt(weights * len(rows))
    eigenvalues, vectors = eigh(root[:, None] * products**_DEGREE * root)
    rotated = vectors.T @ (root * y)
    best, dual = np.inf, np.zeros(len(rows))
    for ridge in _RIDGES * len(rows):
        inverse = 1.0 / (np.maximum(eigenvalues, 0.0) + ridge)
        trial = vectors @ (inverse * rotated)
        error = float(np.mean((trial / (vectors**2 @ inverse)) ** 2))
        if error < best:
            best, dual = error, trial
    gradients = (_DEGREE / scale) * products ** (_DEGREE - 1) @ ((dual * root)[:, None] * z)
    return metric_of_gradients(gradients, weights)


def metric_of_gradients(gradients: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The metric (d, d) in which gradients (n, d) with these weights are about isotropic."""
    half = np.sqrt(weights)[:, None] * gradients
    outer = half.T @ half
    dim, trace = len(outer), np.trace(outer)
    if not trace > 0:
        return np.eye(dim)
    return symmetric_power(outer * (dim / trace) + _ISOTROPIC * np.eye(dim), 0.5)
