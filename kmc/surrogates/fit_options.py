"""Options of the surrogate's fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kmc.checks import check_count, check_number, is_number


@dataclass(frozen=True)
class FitOptions:
    """Tunable parts of the surrogate's fit.

    Attributes
    ----------
    n_basis : int
        Number of kernel sections; twice as many if the leave-one-out sd stays above ``target_loo_sd``.
    target_loo_sd : float
        Leave-one-out sd, in nats and beyond the noise, that is good enough.
    max_values : int
        Values kept for a fit; a quarter of them are the largest old residuals. In more than 53 dimensions 1.3 for each
        term of a quadratic are kept, if that is more.
    bandwidths : tuple of float
        Candidates, in median distances between centers; infinity means polynomials of degree four, which are not used
        for noisy values: noise hides the differences between wide kernels.
    jitter : float
        Added to the diagonal of the Gram matrix.
    """

    n_basis: int = 200
    target_loo_sd: float = 0.2
    max_values: int = 2000
    bandwidths: tuple[float, ...] = (0.5, 0.8, 1.2, 2.0, 3.5, 7.0, 14.0, np.inf)
    jitter: float = 1e-11

    def __post_init__(self):
        check_count(self, "n_basis", 2)
        check_count(self, "max_values", 10)
        check_number(self, "target_loo_sd", 0, np.inf, "[)")
        check_number(self, "jitter", 0, 1)
        widths = self.bandwidths
        if not isinstance(widths, Sequence) or not widths or not all(is_number(b) and b > 0 for b in widths):
            raise ValueError(f"bandwidths={self.bandwidths!r}: expected positive numbers, at least one")
