"""The coefficients of quadratics of z."""

from __future__ import annotations

import numpy as np


def terms_of(dim: int) -> int:
    """Return the number of coefficients of a quadratic: 1 + d + d (d + 1) / 2."""
    return (dim + 1) * (dim + 2) // 2


def quadratic_features(z: np.ndarray) -> np.ndarray:
    """Return the features (n, 1 + d + d (d + 1) / 2): 1, z_i and z_i z_j, i <= j."""
    n, d = z.shape
    out = np.empty((n, terms_of(d)))
    out[:, 0], out[:, 1 : 1 + d] = 1.0, z
    end = 1 + d
    for i in range(d):
        begin, end = end, end + d - i
        np.multiply(z[:, i : i + 1], z[:, i:], out=out[:, begin:end])
    return out
