"""Symmetric matrices of which one triangle is computed."""

from __future__ import annotations

import numba
import numpy as np

_TILE = 32  # rows and columns at a time, so that both triangles fit in the fastest cache


@numba.njit(cache=True)
def mirror(matrix: np.ndarray) -> np.ndarray:
    """Copy the upper triangle of a square matrix onto the lower one, in place; returns the matrix."""
    n = len(matrix)
    for top in range(0, n, _TILE):
        for left in range(0, top + 1, _TILE):
            for i in range(top, min(top + _TILE, n)):
                for j in range(left, min(left + _TILE, i)):
                    matrix[i, j] = matrix[j, i]
    return matrix
