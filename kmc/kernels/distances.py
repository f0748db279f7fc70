"""Squared distances between two sets of points."""

from __future__ import annotations

import numpy as np


def squared_distances(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """|x_i - y_j|^2 for rows of x (n, d) and y (m, d), shape (n, m), never negative.

    Both are centred first, which keeps the digits of data far from the origin.
    """
    centre = y.mean(axis=0)
    x, y = x - centre, y - centre
    s = x @ (-2.0 * y.T)
    s += np.einsum("ij,ij->i", x, x)[:, None]
    s += np.einsum("ij,ij->i", y, y)
    return np.maximum(s, 0.0, out=s)
