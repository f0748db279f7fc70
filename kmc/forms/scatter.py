"""Centered second moments Σ w (a - ā)(b - b̄)ᵀ that can be added and subtracted.

Computing them as the raw moment Σ w a bᵀ minus the product of means loses digits if functions hardly vary around a
large mean, as a wide kernel's sections do, or log-densities of -1e6. Merging centered parts by the formula of Chan,
Golub and LeVeque (1983) does not.
"""

from __future__ import annotations

import numpy as np


def centered(weights: np.ndarray | None, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Σ w a, and the rows √w (a - ā), for a (n, ...) and weights (n,); ``weights=None`` means ones.

    Products of such rows sum to scatters. If the total weight is zero, they are zero.
    """
    total = a.sum(axis=0) if weights is None else weights @ a
    weight = len(a) if weights is None else weights.sum()
    rows = a - total / weight if weight > 0 else np.zeros_like(a)
    if weights is not None:
        rows *= np.sqrt(weights).reshape(-1, *[1] * (a.ndim - 1))
    return total, rows


def merged(
    first: tuple[float, np.ndarray, np.ndarray, np.ndarray],
    second: tuple[float, np.ndarray, np.ndarray, np.ndarray],
    sign: float,
) -> np.ndarray:
    """Return the scatter of two samples together (``sign`` = 1), or of the first without the second (-1).

    Each is (Σ w, Σ w a, Σ w b, scatter). Removing a part is adding its weights with the opposite sign.
    """
    (w, a, b, s), (v, c, d, t) = first, second
    total = s + sign * t
    v = sign * v
    if w == 0.0 or v == 0.0 or abs(w + v) <= 1e-15 * abs(w):
        return total
    apart_a, apart_b = np.atleast_1d(a / w - sign * c / v), np.atleast_1d(b / w - sign * d / v)
    return total + (w * v / (w + v)) * np.outer(apart_a, apart_b).reshape(np.shape(total))
