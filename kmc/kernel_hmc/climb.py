"""The climb to the posterior, when the first points are far below it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kmc.kernel_hmc.modes import maximum
from kmc.surrogate.process import Process, Seen, fit_widely

RADII = tuple(0.25 * 2.0**k for k in range(6))
"""Half the widths of the cubes around the best point in which a step may end, in standard deviations of the points
that count: as many of them are allowed as earlier steps were good for, as in trust-region methods (Conn, Gould and
Toint 2000, Trust-Region Methods, SIAM).
"""

LOST = 2
"""Cubes that are not allowed any more after a step that found no higher value; one more is after one that did."""

WORTH = 1.0
"""Nats that a step must promise."""


def climb(seen: Seen, rng: np.random.Generator, cubes: int) -> np.ndarray:
    """Return the point (1, d) that promises most, or none, (0, d).

    It is the maximum of a wide fit's mean in one of the smallest cubes around the best point, that with
    the largest mean minus standard deviation: a step is as long as the fit is sure of.
    """
    fit = fit_widely(seen, rng)
    steps = _maxima(
        fit, RADII[:cubes], seen.points[np.argmax(np.where(np.isfinite(seen.values), seen.values, -np.inf))]
    )
    gains = fit.temperature * fit.heights(steps)
    errors = fit.temperature * fit.regression.standard_deviations(steps)
    best = int(np.argmax(gains - errors))
    return steps[[best]] if gains[best] > WORTH else steps[:0]


def _maxima(fit: Process, radii: Sequence[float], start: np.ndarray) -> np.ndarray:
    """Return the maximum of the mean in each cube around the start (d,), (k, d)."""
    origin = z = fit.coordinates(start[None, :])[0]
    maxima = []
    for radius in radii:
        z = maximum(fit, z, np.stack([origin - radius, origin + radius]))
        maxima.append(z)
    return fit.back(np.array(maxima))
