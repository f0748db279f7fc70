"""A function of each coordinate, as arrays that jitted loops read: what is known of a log-density."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kmc.njit import njit
from kmc.surrogate.coordinates.wall_jit_state import check_arrays


class Splines(NamedTuple):
    """Σ_i f_i(x_i), where f_i is a cubic Hermite spline between its nodes, and linear beyond them.

    Without nodes, it is zero.
    """

    nodes: np.ndarray  # (d, n), increasing
    values: np.ndarray  # (d, n)
    slopes: np.ndarray  # (d, n)

    def values_and_gradients(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the sums (n,) and their gradients (n, d) at the rows of x (n, d)."""
        return _values_and_gradients(self, np.ascontiguousarray(x))


class Known(NamedTuple):
    """What is known of a log-density: functions of one coordinate each, in the coordinates u of a transport."""

    transport: Any
    splines: Splines


def check_splines(splines: Splines, dim: int) -> None:
    """Raise a ValueError unless compiled loops can read the arrays, for ``dim`` coordinates."""
    if type(splines) is not Splines:
        raise ValueError(f"splines of type {type(splines).__name__}")
    check_arrays(splines, dict.fromkeys(splines._fields, (dim, splines.nodes.shape[-1])))
    if splines.nodes.shape[1] == 1 or not np.all(np.diff(splines.nodes) > 0.0):
        raise ValueError("nodes of splines are not increasing")


def no_splines(dim: int) -> Splines:
    """Return those that are zero."""
    return Splines(*np.empty((3, dim, 0)))


@njit()
def value_and_gradient(splines, x, gradient):
    """Return the sum at x (d,), and write its gradient into ``gradient`` (d,)."""
    total = 0.0
    last = splines.nodes.shape[1] - 1
    for i in range(x.size):
        if last < 0:
            gradient[i] = 0.0
            continue
        nodes, values, slopes = splines.nodes[i], splines.values[i], splines.slopes[i]
        if x[i] <= nodes[0] or x[i] >= nodes[last]:
            end = 0 if x[i] <= nodes[0] else last
            total += values[end] + slopes[end] * (x[i] - nodes[end])
            gradient[i] = slopes[end]
            continue
        k = min(np.searchsorted(nodes, x[i], side="right"), last) - 1  # also where x is NaN
        h = nodes[k + 1] - nodes[k]
        t = (x[i] - nodes[k]) / h
        rise = (values[k + 1] - values[k]) / h
        # The polynomial is values[k] + h t (slopes[k] + t (b + t c)).
        b = 3.0 * rise - 2.0 * slopes[k] - slopes[k + 1]
        c = slopes[k] + slopes[k + 1] - 2.0 * rise
        total += values[k] + h * t * (slopes[k] + t * (b + t * c))
        gradient[i] = slopes[k] + t * (2.0 * b + 3.0 * t * c)
    return total


@njit()
def _values_and_gradients(splines, points):
    found, gradients = np.empty(len(points)), np.empty(points.shape)
    for i in range(len(points)):
        found[i] = value_and_gradient(splines, points[i], gradients[i])
    return found, gradients
