"""The ratio of two masses from draws of both."""

from __future__ import annotations

import numpy as np
from scipy import optimize
from scipy.special import logsumexp


def bennett(first: np.ndarray, second: np.ndarray) -> float:
    """log Z_1 / Z_2 from log f_1 - log f_2 at draws of 1 (n,) and of 2 (m,).

    Bennett (1976), "Efficient estimation of free energy differences from Monte Carlo data", Journal of Computational
    Physics 22: the mean probability of density 1 in the mixture, over all draws, equals its fraction of the draws.
    """
    offset = np.log(len(first) / len(second))

    def imbalance(c):
        return logsumexp(-np.logaddexp(0.0, first - c + offset)) - logsumexp(-np.logaddexp(0.0, c - offset - second))

    low = min(first.min(), second.min()) - abs(offset) - 1.0
    high = max(first.max(), second.max()) + abs(offset) + 1.0
    return float(optimize.brentq(imbalance, low, high, xtol=1e-10))
