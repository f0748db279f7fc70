"""What is known of a model with a simulator, as arrays that jitted loops read: priors, transforms and data."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kmc.njit import njit

IDENTITY, ABOVE, BELOW, BETWEEN = range(4)
"""Kinds of transforms of one number."""


class Parameters(NamedTuple):
    """The parameters θ_i, each a function of one coordinate u_i, and the log-density that does not need the simulator.

    That is Σ_i f_i(u_i), the prior with the log-Jacobian, where f_i is a cubic Hermite spline between its nodes, and
    linear beyond them.
    """

    kinds: np.ndarray  # (d,) of int
    lower: np.ndarray  # (d,)
    upper: np.ndarray  # (d,)
    nodes: np.ndarray  # (d, n), increasing
    values: np.ndarray  # (d, n)
    slopes: np.ndarray  # (d, n)
    quantiles: np.ndarray  # (d, k) of the prior, from 0 to 1 at equal distances

    @property
    def scales(self) -> np.ndarray:
        """About the standard deviations of the prior, (d,)."""
        levels = np.linspace(0.0, 1.0, self.quantiles.shape[1])
        return np.array([0.5 * np.diff(np.interp([0.16, 0.84], levels, own))[0] for own in self.quantiles])

    def draw(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Draw points (n, d) from the prior, about."""
        levels = np.linspace(0.0, 1.0, self.quantiles.shape[1])
        return np.column_stack([np.interp(rng.random(n), levels, own) for own in self.quantiles])


class Data(NamedTuple):
    """Data y, and their distribution, see :mod:`kmc.surrogate.emulator.observations`.

    Variances are sums of constants and of squares of parameters. ``shapes`` are degrees of freedom, dispersions, or
    numbers of trials. Of the columns, -1 means none.
    """

    kinds: np.ndarray  # (n,) of int
    observed: np.ndarray  # (n,)
    constants: np.ndarray  # (n,), of the log-likelihood
    variances: np.ndarray  # (n,)
    scales: np.ndarray  # (n, k), columns of θ
    relative: np.ndarray  # (n,), variances relative to the square of the output
    relative_scales: np.ndarray  # (n, l), columns of θ
    shapes: np.ndarray  # (n,)
    shape_columns: np.ndarray  # (n,), columns of θ, or -1
    repeats: np.ndarray  # (n,), how often the term -log(2π variance)/2 of normal data is repeated

    def at(self, rows: np.ndarray) -> Data:
        """Return some of the data."""
        return Data(*(column[rows] for column in self))


class Structure(NamedTuple):
    """A model with a simulator."""

    inputs: np.ndarray  # (k,) of int: the coordinates on which the outputs depend
    parameters: Parameters
    data: Data


@njit()
def constrained(parameters, u, theta, slopes):
    """Write the parameters (d,) at u (d,), and their derivatives, into ``theta`` and ``slopes``."""
    for i in range(u.size):
        kind = parameters.kinds[i]
        if kind == 0:
            theta[i], slopes[i] = u[i], 1.0
        elif kind == 3:
            share = 1.0 / (1.0 + np.exp(-u[i]))
            width = parameters.upper[i] - parameters.lower[i]
            theta[i], slopes[i] = parameters.lower[i] + width * share, width * share * (1.0 - share)
        else:
            grown = np.exp(min(u[i], 700.0))
            if kind == 1:
                theta[i], slopes[i] = parameters.lower[i] + grown, grown
            else:
                theta[i], slopes[i] = parameters.upper[i] - grown, -grown


@njit()
def known(parameters, u, gradient):
    """Return Σ_i f_i(u_i), and write its gradient into ``gradient`` (d,)."""
    total = 0.0
    for i in range(u.size):
        nodes, values, slopes = parameters.nodes[i], parameters.values[i], parameters.slopes[i]
        last = nodes.size - 1
        if u[i] <= nodes[0] or u[i] >= nodes[last]:
            end = 0 if u[i] <= nodes[0] else last
            total += values[end] + slopes[end] * (u[i] - nodes[end])
            gradient[i] = slopes[end]
            continue
        k = np.searchsorted(nodes, u[i], side="right") - 1
        h = nodes[k + 1] - nodes[k]
        t = (u[i] - nodes[k]) / h
        rise = (values[k + 1] - values[k]) / h
        # The polynomial is values[k] + h t (slopes[k] + t (b + t c)).
        b = 3.0 * rise - 2.0 * slopes[k] - slopes[k + 1]
        c = slopes[k] + slopes[k + 1] - 2.0 * rise
        total += values[k] + h * t * (slopes[k] + t * (b + t * c))
        gradient[i] = slopes[k] + t * (2.0 * b + 3.0 * t * c)
    return total
