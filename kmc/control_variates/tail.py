"""How heavy the tails of numbers are, from draws of them: whether averages of them have a standard error at all."""

from __future__ import annotations

import numpy as np

_LEAST = 20  # of the largest values
_FINITE = 0.5  # shape of a generalized Pareto density from which on its variance is infinite
_ERRORS = 2.0  # standard errors by which the shape has to exceed this


def pareto_shape(values: np.ndarray) -> tuple[float, float]:
    """The shape k of a generalized Pareto density fitted to the largest of n values, and its standard error.

    Moments of order 1 / k and higher are infinite. -inf and 0.0 if the values are too few, or too many are equal; inf
    and 0.0 if some are not finite, as their powers overflow.

    References
    ----------
    .. [1] Zhang and Stephens (2009), "A new and efficient estimation method for the generalized Pareto distribution",
       Technometrics 51.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.control_variates.tail import pareto_shape
    >>> u = (np.arange(100_000) + 0.5) / 100_000
    >>> [round(pareto_shape(u**-k)[0], 1) for k in (0.3, 0.7, 1.0)]
    [0.3, 0.7, 1.0]
    """
    m = int(min(0.2 * len(values), 3.0 * np.sqrt(len(values))))
    if m < _LEAST:
        return -np.inf, 0.0
    largest = np.sort(np.partition(values, len(values) - m - 1)[-m - 1 :])
    if not np.isfinite(largest[-1]):
        return np.inf, 0.0
    over = largest[1:] - largest[0]
    if over[m // 4] <= 0.0:
        return -np.inf, 0.0
    over = over[over > 0.0]
    n = len(over)
    grid = 30 + int(np.sqrt(n))
    scale = 1.0 / over[-1] + (1.0 - np.sqrt(grid / (np.arange(1, grid + 1) - 0.5))) / (3.0 * over[int(n / 4 + 0.5) - 1])
    shape = np.log1p(-scale[:, None] * over).mean(axis=1)
    likelihood = n * (np.log(-scale / shape) - shape - 1.0)
    weights = np.exp(likelihood - likelihood.max())
    best = float(weights @ scale / weights.sum())
    found = float(np.log1p(-best * over).mean())
    return found, (1.0 + max(found, 0.0)) / np.sqrt(n)


def without_variance(values: np.ndarray) -> np.ndarray:
    """Which of k numbers (n, k), not negative, have a variance that is infinite, as far as their largest values say."""
    shapes = np.array([pareto_shape(column) for column in values.T]).reshape(-1, 2)
    return shapes[:, 0] - _ERRORS * shapes[:, 1] > _FINITE
