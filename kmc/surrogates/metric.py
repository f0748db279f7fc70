"""The linear metric of the surrogate's kernel: directions along which the residual varies get short distances.

A metric is (M + .02 I)^½ with M the mean of ∇f ∇fᵀ over the weighted data, scaled to trace d, f being a fit of the
residual: the expansion itself, or a quartic polynomial where an isotropic kernel sees nothing, as on a curved ridge in
eight dimensions (benchmarks/README.md).
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from kmc.linalg import symmetric_power
from kmc.surrogates.expansion import Data, Expansion

_MOST_POINTS = 1000
_DEGREE = 4


def gradient_metric(expansion: Expansion, data: Data) -> np.ndarray:
    """The metric of the expansion's own gradients, shape (d, d)."""
    return _metric(expansion.gradients(data.z), data.weights)


def polynomial_metric(data: Data, rng: np.random.Generator) -> np.ndarray:
    """The metric of a kernel ridge regression on polynomials of degree four, shape (d, d).

    At most 1000 random points take part; the ridge is chosen by exact leave-one-out.
    """
    rows = rng.permutation(len(data.z))[:_MOST_POINTS]
    weights = data.weights[rows] / data.weights[rows].sum()
    z = data.z[rows]
    scale = np.sqrt(weights @ np.sum(z**2, axis=1))
    z = z / scale
    y = data.residual[rows] - weights @ data.residual[rows]
    products = 1.0 + z @ z.T
    root = np.sqrt(weights * len(rows))
    gram = root[:, None] * products**_DEGREE * root
    best, coefficients = np.inf, np.zeros(len(rows))
    for ridge in (1e-9, 1e-7, 1e-5, 1e-3, 1e-1):
        inverse = linalg.inv(gram + ridge * len(rows) * np.eye(len(rows)), check_finite=False)
        dual = inverse @ (root * y)
        error = float(np.mean((dual / np.diag(inverse)) ** 2))
        if error < best:
            best, coefficients = error, dual * root
    gradients = (_DEGREE / scale) * products ** (_DEGREE - 1) @ (coefficients[:, None] * z)
    return _metric(gradients, weights)


def _metric(gradients, weights):
    half = np.sqrt(weights)[:, None] * gradients
    outer = half.T @ half
    dim, trace = len(outer), np.trace(outer)
    if not trace > 0:
        return np.eye(dim)
    return symmetric_power(outer * (dim / trace) + 0.02 * np.eye(dim), 0.5)
