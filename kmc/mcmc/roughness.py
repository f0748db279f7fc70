"""Roughness of a log-density: differences between close points that no smooth surrogate can follow.

An ODE solver with a loose tolerance or a table with few digits gives values with bumps. Their sd bounds the acceptance,
and a surrogate need not come closer to the values than that. It is estimated where the surrogate is not good, from
pairs of close points, as the nugget of a variogram is (Cressie 1993, "Statistics for spatial data", section 2.4).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kmc.surrogates import Surrogate

# Set on the rough targets of benchmarks/shapes.py, and on smooth ones (tried: roughness).
FIRST, NEXT = 300, 1.5  # evaluations before the first pairs, and times as many before others: some percent is spent
_PAIRS, _LEAST_PAIRS = 16, 8  # made, and finite
_MISFIT = 0.2, 2.0  # nats of leave-one-out error: a smaller one needs no explanation, a larger one is misfit
_STEPS = (0.2, 0.1, 0.05, 0.02)  # distances in whitened coordinates: the first at which ...
_ALONG = 0.5  # ... the surrogate changes by less, in nats, so that both points are on the same ridge
_ROUGH = 0.6  # smallest fraction of the error: a smooth misfit changes by less over such distances
_NORMAL_MEDIAN = 0.6745  # of the absolute value of a standard normal variable


class Pairs(NamedTuple):
    """Evaluated points, and a close one for each."""

    close: np.ndarray  # (k, d) not evaluated yet
    error: np.ndarray  # (k,) value minus surrogate at the evaluated points
    predicted: np.ndarray  # (k,) surrogate at the close ones


def close_pairs(surrogate: Surrogate, x: np.ndarray, values: np.ndarray, *, rng: np.random.Generator) -> Pairs:
    """Pairs from evaluated points x (n, d) of the bulk, with their values (n,)."""
    rows = rng.choice(len(x), min(_PAIRS, len(x)), replace=False)
    x, values = x[rows], values[rows]
    known, z = surrogate.log_density(x), surrogate.coordinates(x)
    direction = rng.standard_normal(z.shape)
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    close = surrogate.back(z + _STEPS[-1] * direction)
    for step in _STEPS[-2::-1]:
        trial = surrogate.back(z + step * direction)
        near = np.abs(surrogate.log_density(trial) - known) < _ALONG
        close[near] = trial[near]
    return Pairs(close, values - known, surrogate.log_density(close))


def is_unexplained(surrogate: Surrogate) -> bool:
    """Whether the surrogate's error is of a size that roughness may explain."""
    least, most = _MISFIT
    return least < surrogate.loo_sd < most


def roughness_sd(pairs: Pairs, values: np.ndarray, loo_sd: float) -> float:
    """The sd of the roughness from values (k,) at the close points; 0 if the misfit may be smooth.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.mcmc.roughness import Pairs, roughness_sd
    >>> error = np.tile([0.5, -0.5], 8)
    >>> pairs = Pairs(np.zeros((16, 1)), error, np.zeros(16))
    >>> roughness_sd(pairs, error, 0.5), round(roughness_sd(pairs, -error, 1.5), 2)
    (0.0, 1.05)
    """
    differences = values - pairs.predicted - pairs.error
    differences = differences[np.isfinite(differences)]
    if len(differences) < _LEAST_PAIRS:
        return 0.0
    sd = float(np.median(np.abs(differences)) / (_NORMAL_MEDIAN * np.sqrt(2.0)))
    return min(sd, loo_sd) if sd > _ROUGH * loo_sd else 0.0
