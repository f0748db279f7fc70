"""Shrinkage of the covariance of a fitted base density, by as much as its entries are noise.

A covariance of n samples in d dimensions has d (d + 1) / 2 entries with errors of about 1 / √n, and the score of a
Gaussian fit a relative error of d / n. Correlations are shrunk towards zero and variances towards their median, with
the intensities that minimize the expected squared error (Schäfer and Strimmer 2005, "A shrinkage approach to
large-scale covariance matrix estimation"; Opgen-Rhein and Strimmer 2007). Both are of order 1 / n where the entries
differ by more than noise.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kmc.scores.densities import Gaussian, StudentT


def shrunk(density: Any, x: np.ndarray, weights: np.ndarray) -> Any:
    """A Gaussian or Student-t density that was fitted to x (n, d) with shrunk covariance; others unchanged.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.scores.base_fits import fit_base
    >>> from kmc.scores.shrinkage import shrunk
    >>> x = np.random.default_rng(0).standard_normal((100, 5))
    >>> fitted = fit_base("gaussian", x)
    >>> better = shrunk(fitted, x, np.ones(100))
    >>> bool(abs(better.covariance - np.eye(5)).max() < 0.5 * abs(fitted.covariance - np.eye(5)).max())
    True
    """
    w = weights / weights.sum()
    if isinstance(density, Gaussian):
        return Gaussian(density.mean, _shrunk(density.covariance, x - density.mean, w))
    if isinstance(density, StudentT):
        r = x - density.location
        far = np.einsum("ij,ij->i", r @ density.precision, r)
        r = r * np.sqrt((density.dof + x.shape[1]) / (density.dof + far))[:, None]  # the scale is their second moment
        return StudentT(density.location, _shrunk(density.scale, r, w), density.dof)
    return density


def _shrunk(matrix, r, w):
    """The second moment (d, d) of rows r (n, d) with weights w that sum to one, shrunk."""
    variances = np.diag(matrix)
    z = r / np.sqrt(variances)
    effective = np.sum(w**2)  # 1 / n for equal weights
    noise = effective * ((z**2).T @ (w[:, None] * z**2) - (z.T @ (w[:, None] * z)) ** 2)
    correlations = matrix / np.sqrt(np.outer(variances, variances))
    off = ~np.eye(len(matrix), dtype=bool)
    less = _intensity(noise[off], correlations[off])
    middle = np.median(variances)
    towards = _intensity(np.diag(noise) * variances**2, variances - middle)
    scales = np.sqrt((1.0 - towards) * variances + towards * middle)
    return np.where(off, (1.0 - less) * correlations, 1.0) * np.outer(scales, scales)


def _intensity(noise, apart):
    """Σ Var / Σ (difference from the target)², in [0, 1]."""
    square = np.sum(apart**2)
    return float(np.clip(np.sum(noise) / square, 0.0, 1.0)) if square > 0 else 0.0
