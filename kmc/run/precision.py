"""Whether the draws of a run are as precise as was asked for."""

from __future__ import annotations

import math

import numpy as np

from kmc.ess import squared_error

_FIRST = 25  # draws per chain
_GROWTH = 1.1  # of the number of draws between two looks: many looks would find an error that is small by chance


def is_look(draws: int) -> bool:
    """Return whether errors are looked at after so many draws per chain: the same numbers for a run that is resumed.

    Examples
    --------
    >>> [n for n in range(40) if is_look(n)]
    [25, 28, 31, 34, 37]
    """
    if draws < _FIRST:
        return False
    k = math.floor(math.log(draws / _FIRST) / math.log(_GROWTH) + 1e-9)
    return draws == math.ceil(_FIRST * _GROWTH**k - 1e-9)


def largest_error(values: np.ndarray) -> float:
    """Return the largest standard error of a mean or a standard deviation, in standard deviations.

    Parameters
    ----------
    values : ndarray, shape (chains, n, k)
        Columns that have one value are ignored; inf if all have.

    Examples
    --------
    >>> import numpy as np
    >>> draws = np.random.default_rng(1).standard_normal((4, 2500, 3))
    >>> 0.008 < largest_error(draws) < 0.014
    True
    """
    variances = values.var(axis=(0, 1))
    values, variances = values[..., variances > 0.0], variances[variances > 0.0]
    if not len(variances):
        return math.inf
    squares = (values - values.mean(axis=(0, 1))) ** 2
    of_means = np.sqrt(squared_error(values) / variances)
    of_sds = 0.5 * np.sqrt(squared_error(squares)) / variances
    return float(np.maximum(of_means, of_sds).max())
