"""Parameters on a circle: angles, phases, times of day."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtri

from kmc.model.parameters import Parameter, check_interval

SPREAD = 0.2
"""Sd of the log of the radius.

Thinner rings mix worse around the circle, wider ones along narrow posteriors.
"""

_LEAST = np.finfo(np.float64).tiny
_GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0


@dataclass(frozen=True)
class Circular(Parameter):
    """Numbers on a circle, where `high` is `low` again: angles in degrees, phases, times of day.

    The sampler moves two coordinates in the plane, whose direction is the parameter: no boundary
    cuts the posterior, and a chain can go around the circle either way. The distance from the
    origin is independent of the parameter and log-normal, with a median of 1.

    Parameters
    ----------
    low, high : float
        Draws are in [low, high); the period is high - low. The density must have that period, too:
        the same value at `low` and at `high`.
    shape : int or tuple of int, optional
        As for :class:`kmc.Real`. Each number adds two to the model's `dim`.

    Notes
    -----
    The variable in the results has the attributes "circular", "low" and "period";
    :func:`kmc.summary` and ``kernelmc summary`` give its circular mean and sd. For a density that
    is not periodic, with a hard bound at `low`, use :class:`kmc.Interval`.

    Examples
    --------
    >>> import numpy as np
    >>> import kmc
    >>> kmc.Circular(0, 24)
    Circular(low=0.0, high=24.0, shape=None)
    >>> model = kmc.Model(
    ...     lambda p: np.cos(p["hour"] * np.pi / 12), parameters={"hour": kmc.Circular(0, 24)}
    ... )
    >>> model.dim
    2
    >>> model.constrain(np.array([[1.0, 0.0], [0.0, 3.0]]))  # the middle, and a quarter circle on
    {'hour': array([12., 18.])}
    """

    low: float
    high: float
    shape: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_interval(self, "low", "high")

    @property
    def transform(self) -> Direction:
        """The map from a point in the plane to its direction."""
        return Direction(self.low, self.high)

    @property
    def attrs(self) -> dict[str, Any]:
        """Attributes of the variable in results; see :func:`circle_attrs`."""
        return circle_attrs(self.low, self.high)


@dataclass(frozen=True)
class Angle(Parameter):
    """Angles in radians, in [-pi, pi): :class:`Circular` with these ends.

    ArviZ's circular statistics have the same ends.

    For draws in [0, 2 pi) use ``kmc.Circular(0, 2 * np.pi)``: there is no other difference.

    Parameters
    ----------
    shape : int or tuple of int, optional
        As for :class:`kmc.Real`. Each number adds two to the model's `dim`.

    Examples
    --------
    >>> import numpy as np
    >>> import kmc
    >>> model = kmc.Model(lambda p: 3 * np.cos(p["theta"]), parameters={"theta": kmc.Angle()})
    >>> model.constrain(np.array([[2.0, 0.0], [0.0, -1.0]]))
    {'theta': array([ 0.  , -1.57])}
    """

    shape: Any = None

    @property
    def transform(self) -> Direction:
        """The map from a point in the plane to its direction."""
        return Direction(-np.pi, np.pi)

    @property
    def attrs(self) -> dict[str, Any]:
        """Attributes of the variable in results; see :func:`circle_attrs`."""
        return circle_attrs(-np.pi, np.pi)


def circle_attrs(low: float, high: float) -> dict[str, Any]:
    """Return attributes of the variable of a number on a circle."""
    return {"circular": 1, "low": low, "period": high - low}


@dataclass(frozen=True)
class Direction:
    """y = (low + high) / 2 + (high - low) atan2(x_2, x_1) / (2 pi): the direction of a point x.

    Not a bijection: the radius r = |x| accompanies y, and has a density of its own, with log r
    normal of mean 0 and sd SPREAD. Instead of the log-Jacobian there is the term that makes the
    density of x, times its area element r dr dφ, that of y times that of r: log((high - low) / (2
    pi)) - log r + log q(r), where q is the density of the log-normal distribution. It vanishes at
    the origin, where the direction is not smooth.
    """

    low: float
    high: float
    unconstrained_shape: ClassVar[tuple[int, ...]] = (2,)
    shape: ClassVar[tuple[int, ...]] = ()

    @property
    def support(self) -> str:
        """The allowed values in words, for error messages."""
        return "finite numbers, which count modulo the period"

    def constrain(self, x: np.ndarray) -> np.ndarray:
        """Return the directions of points x (..., 2), shape (...)."""
        turns = np.arctan2(x[..., 1], x[..., 0]) / (2.0 * np.pi)
        y = 0.5 * (self.low + self.high) + (self.high - self.low) * turns
        # rounding can reach the ends
        return np.where((y >= self.high) | (y < self.low), self.low, y)

    def log_jacobian(self, x: np.ndarray) -> np.ndarray:
        """Return what replaces a log-Jacobian at points x (..., 2), shape (...); see the class."""
        log_r = np.log(np.maximum(np.hypot(x[..., 0], x[..., 1]), _LEAST))
        constant = (
            np.log((self.high - self.low) / (2.0 * np.pi))
            - 0.5 * np.log(2.0 * np.pi)
            - np.log(SPREAD)
        )
        return constant - 2.0 * log_r - 0.5 * (log_r / SPREAD) ** 2

    def contains(self, y: np.ndarray) -> np.ndarray:
        """Return whether the values y are directions, as an array of the same shape.

        Each finite number is one.
        """
        return np.isfinite(y)

    def unconstrain(self, y: np.ndarray) -> np.ndarray:
        """Return a point in each direction; radii differ, so start points are not on one circle."""
        angle = 2.0 * np.pi * (y - 0.5 * (self.low + self.high)) / (self.high - self.low)
        quantiles = (0.5 + _GOLDEN * np.arange(np.size(y)).reshape(np.shape(y))) % 1.0
        r = np.exp(SPREAD * ndtri(quantiles))
        return np.stack([r * np.cos(angle), r * np.sin(angle)], axis=-1)
