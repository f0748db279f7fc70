"""The choice of scales: coordinates whose exponentials multiply others, found by the marginal likelihood.

In hierarchical models, and in most with an unknown noise, a coordinate is the logarithm of a scale. A kernel without it
is either too smooth where the scale is large or too rough where it is small. See :mod:`kmc.surrogate.covariance`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from kmc.surrogate.covariance import Coordinates, Hyperparameters, bent_covariance
from kmc.surrogate.regression import Exact, Observations

RATES = (1.0, -1.0)
"""Of the exponentials: those of squares and of their square roots are in the span of the kernel, too."""

START = Hyperparameters(2.0, -3.0, -2.0, 1.5, -4.6)
"""A function of these terms, and little else."""

WORTH = 3.0
"""Nats by which another set of scales must raise the log-likelihood, as there are many to choose from."""

_GUESSES = (START, START._replace(bent=-1.0), START._replace(matern=2.0))  # by which sets are compared
_COMPARED = 150  # most observations with which they are


def best_change(observations: Observations, coordinates: Coordinates) -> Coordinates:
    """Return the coordinates with one scale more or less, those with the greatest likelihood at some guesses."""
    n = len(observations.points)
    some = np.unique(np.linspace(0, n - 1, min(n, _COMPARED)).astype(int))
    fewer = Observations(observations.points[some], observations.values[some], observations.noises()[:n][some])
    posterior = Exact(fewer.places(coordinates), fewer.targets(coordinates), fewer.noises())

    def loss(scales):
        places = fewer.places(replace(coordinates, scales=scales))
        posterior.bent = bent_covariance(places, places)
        return min(posterior.negative_log_likelihood(guess)[0] for guess in _GUESSES)

    return replace(coordinates, scales=min(_neighbors(coordinates.scales, len(coordinates.center)), key=loss))


def _neighbors(scales: tuple[tuple[int, float], ...], dim: int) -> Iterator[tuple[tuple[int, float], ...]]:
    for i in range(len(scales)):
        yield scales[:i] + scales[i + 1 :]
    for j in range(dim):
        for rate in RATES:
            if (j, rate) not in scales:
                yield (*scales, (j, rate))
