"""One monomial Π z_i^e_i, z = (x - center)/scale, at one point, by the power rule."""

from __future__ import annotations

from itertools import product


def exponents(degree, dim):
    """All tuples of exponents of total degree 1 to ``degree``, in any order."""
    return {e for e in product(range(degree + 1), repeat=dim) if 1 <= sum(e) <= degree}


def monomial(x, e, center, scale):
    """Π_i ((x_i - center_i) / scale_i)^e_i."""
    total = 1.0
    for i in range(len(e)):
        total *= ((x[i] - center[i]) / scale[i]) ** e[i]
    return total


def derivative(x, e, center, scale, i, times):
    """∂_i^times of it."""
    factor, lower = 1.0, list(e)
    for _ in range(times):
        if lower[i] == 0:
            return 0.0
        factor *= lower[i] / scale[i]
        lower[i] -= 1
    return factor * monomial(x, lower, center, scale)
