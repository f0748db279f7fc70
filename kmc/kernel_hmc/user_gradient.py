"""A gradient that the user gives: counted, checked for its shape, and once against differences."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from kmc.errors import KmcWarning

_STEP = 1e-4  # of differences, relative to the spread of the start points
_SMALL = 0.1  # a slope whose terms cancel to less than this part of them is compared with that part
_WRONG = 0.05  # relative error of a slope that causes a warning


class OccasionalGradient:
    """A function of the user's that has the gradient at some points: x (d,) -> (d,), None or NaN.

    Attributes
    ----------
    n_known, n_unknown : int
        Calls that returned a gradient, and others.
    """

    def __init__(self, function: Callable[[np.ndarray], Any]):
        self._function = function
        self.n_known = self.n_unknown = 0

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return the gradients (n, d) at the rows of x (n, d), with NaN where there is none.

        ValueError for another shape, or for something other than numbers.
        """
        return np.array([self._at(row) for row in x]).reshape(x.shape)

    def _at(self, x: np.ndarray) -> np.ndarray:
        returned = self._function(x.copy())
        gradient = np.full(x.shape, np.nan) if returned is None else _as_gradient(returned, x)
        if np.all(np.isfinite(gradient)):
            self.n_known += 1
            return gradient
        self.n_unknown += 1
        return np.full(x.shape, np.nan)


def _as_gradient(returned: Any, x: np.ndarray) -> np.ndarray:
    """Convert what the user's function returned at x (d,) to an array (d,).

    Raise a ValueError if it is none.
    """
    expected = f"expected the gradient of the log-density, an array of shape {x.shape}, or None"
    try:
        gradient = np.array(returned, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"gradients returned {returned!r} at {x.tolist()}: {expected}") from error
    if gradient.shape != x.shape:
        raise ValueError(
            f"gradients returned an array of shape {gradient.shape} at {x.tolist()}: {expected}"
        )
    return gradient


class GradientCheck:
    """A gradient's slope at each start point, in a random direction, against a central difference.

    Parameters
    ----------
    gradients : ndarray, shape (k, d)
        At the start points.
    x : ndarray, shape (k, d)
    spread : ndarray, shape (d,)
        Of the start points.
    rng : Generator

    Attributes
    ----------
    points : ndarray, shape (2 k, d)
        Where the log-density is needed.
    """

    def __init__(
        self, gradients: np.ndarray, x: np.ndarray, *, spread: np.ndarray, rng: np.random.Generator
    ):
        steps = rng.standard_normal(x.shape)
        steps *= _STEP * spread / np.linalg.norm(steps, axis=1, keepdims=True)
        self.points = np.vstack([x + steps, x - steps])
        self._slopes = 2.0 * np.sum(gradients * steps, axis=1)
        self._sizes = 2.0 * np.linalg.norm(gradients * steps, axis=1)

    def warn(self, values: np.ndarray) -> float:
        """Compare slopes with the points' log-densities (2 k,); return the largest relative error.

        Warn if it is large. It is NaN if the density is zero near all start points.
        """
        above, below = np.split(values, 2)
        inside = np.isfinite(above) & np.isfinite(below)
        if not np.any(inside):
            return float("nan")
        differences = above[inside] - below[inside]
        slopes, sizes = (
            self._slopes[inside],
            np.maximum(np.abs(differences), _SMALL * self._sizes[inside]),
        )
        relative = np.abs(slopes - differences) / np.where(sizes > 0, sizes, 1.0)
        relative[~np.isfinite(slopes)] = np.inf
        i = int(np.argmax(relative))
        worst = float(relative[i])
        if worst > _WRONG:
            warnings.warn(
                "The gradient disagrees with differences of the log-density at the start: in one "
                f"direction the change is {differences[i]:.3g}, and {slopes[i]:.3g} by the "
                "gradient. Draws are right for any gradient, but a wrong one makes the sampler "
                "slow. Check its sign, and that it is the gradient of what is sampled: of the "
                "unconstrained vector, with the prior and the log-Jacobian.",
                KmcWarning,
                stacklevel=2,
            )
        return worst
