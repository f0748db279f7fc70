"""Gradients of the log-density at some of the evaluated points: data of the surrogate's fit, beside the values.

With them the objective is that of Hermite regression (:class:`kmc.regression.HermiteRegression`),

    Σ_k w_k (f(z_k) - y_k)² + Σ_j v_j |∇f(z_j) - t_j|²,

in coordinates z in which the target is roughly a standard normal, and v_j is the weight w of the value at the point.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

_STEP = 1e-5  # of differences, relative to the spread of the points: errors of truncation and rounding are both small


class Slopes(NamedTuple):
    """Gradients in the coordinates of a fit."""

    z: np.ndarray  # (g, d)
    gradient: np.ndarray  # (g, d)
    weights: np.ndarray  # (g,) in the units of the weights of values

    @property
    def effective(self) -> float:
        """The number of components, counted with their weights as effective samples are."""
        return self.z.shape[1] * float(self.weights.sum() ** 2 / np.sum(self.weights**2))

    def __bool__(self) -> bool:
        return len(self.z) > 0


class Coordinates(Protocol):
    """What is needed of a :class:`kmc.surrogates.transport.Transport`."""

    def back(self, u: np.ndarray) -> np.ndarray:
        """The rows of x that have the coordinates u (n, d)."""

    def log_jacobian(self, x: np.ndarray) -> np.ndarray:
        """log |du/dx| at the rows of x, shape (n,)."""


def pulled_back(transport: Coordinates, u: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """The gradient (n, d) of the log-density of u, from that of the log-density of x at the same points.

    By the chain rule, with central differences of the transport. Rows of NaN stay so.
    """
    out = np.full_like(gradient, np.nan)
    known = np.flatnonzero(~np.isnan(gradient[:, 0]))
    if not len(known):
        return out
    u, spread = u[known], u.std(axis=0)
    for j, step in enumerate(_STEP * np.where(spread > 0, spread, 1.0)):
        shift = np.zeros(u.shape[1])
        shift[j] = step
        above, below = transport.back(u + shift), transport.back(u - shift)
        change = np.sum(gradient[known] * (above - below), axis=1)
        change -= transport.log_jacobian(above) - transport.log_jacobian(below)
        out[known, j] = change / (2.0 * step)
    return out
