"""Coordinates in which heavy tails are those of a Gaussian.

A Student-t density, of all coordinates together around a center (*radial*) or of each separately, becomes a standard
normal if every distance from the center is replaced by the corresponding quantile of a Gaussian's distance: a chain
then crosses thousands of scales in a few steps, and depths no longer grow only with the logarithm of a distance.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import optimize, special

from kmc.surrogate.quadratic import fit_student
from kmc.surrogate.whitening import whiten_states
from kmc.threads import each_in_threads

# Set by hand.
_DOFS = (1.0, 2.0, 3.0, 5.0)  # of radial tails; lighter tails need no transport
_MOST_POINTS = 600  # to which a guess is fitted
_LARGEST_DIM = 12  # for separate tails
_FIRST_DOF = 2.0  # of each of them, at the start
_LOG_DOFS = math.log(0.7), math.log(50.0)  # its range
_FURTHEST_CENTER, _LARGEST_LOG_SCALE = 2.0, 3.0  # in spreads of the states
_EVALUATIONS = 20  # of the least squares
_NEAR, _FAR = 1e-5, 35.0  # distances below which a quantile is proportional to it, and beyond which it is cut off


@dataclass(frozen=True, eq=False)
class HeavyTails:
    """z = matrix (x - origin) has a Student-t density, and u a Gaussian one: |u| is a function of |z|, or u_i of z_i.

    Attributes
    ----------
    dofs : ndarray, shape (1,) or (d,)
        Degrees of freedom: one number for the length of z, or one for each coordinate.
    """

    origin: np.ndarray
    matrix: np.ndarray
    inverse: np.ndarray
    dofs: np.ndarray
    radial: bool

    driver: ClassVar[None] = None

    @property
    def size(self) -> int:
        """Number of learned parameters."""
        d = len(self.origin)
        return d + 1 + d * (d + 1) // 2 if self.radial else 3 * d

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """The coordinates u of the rows of x (n, d)."""
        return self._mapped((x - self.origin) @ self.matrix.T, _to_normal)

    def back(self, u: np.ndarray) -> np.ndarray:
        """The rows of x that have the coordinates u (n, d)."""
        return self.origin + self._mapped(u, _to_student) @ self.inverse.T

    def log_jacobian(self, x: np.ndarray) -> np.ndarray:
        """log |du/dx| at the rows of x, shape (n,): by construction the ratio of the two densities."""
        z = (x - self.origin) @ self.matrix.T
        u = self._mapped(z, _to_normal)
        dim = len(self.origin) if self.radial else 1
        square = np.sum(z**2, axis=1, keepdims=True) if self.radial else z**2
        half = 0.5 * (self.dofs + dim)
        constants = special.gammaln(half) - special.gammaln(0.5 * self.dofs) - 0.5 * dim * np.log(0.5 * self.dofs)
        student = (constants - half * np.log1p(square / self.dofs)).sum(axis=1)
        return student + 0.5 * np.sum(u**2, axis=1) + np.linalg.slogdet(self.matrix)[1]

    def _mapped(self, z: np.ndarray, quantile: Callable[..., np.ndarray]) -> np.ndarray:
        if not self.radial:
            return np.sign(z) * quantile(np.abs(z), self.dofs, 1)
        length = np.linalg.norm(z, axis=1, keepdims=True)
        mapped = quantile(length, self.dofs, z.shape[1])
        return z * (mapped / np.where(length > 0, length, 1.0))


def _to_normal(r: np.ndarray, dof: np.ndarray, dim: int) -> np.ndarray:
    """The distance from 0 of a standard normal in ``dim`` dimensions that is as improbable as r of a Student-t."""
    share, ratio = r * r / (dof + r * r), dof / (dof + r * r)
    below, above = special.betainc(0.5 * dim, 0.5 * dof, share), special.betainc(0.5 * dof, 0.5 * dim, ratio)
    half = np.where(below < 0.5, special.gammaincinv(0.5 * dim, below), special.gammainccinv(0.5 * dim, above))
    return np.where(r < _NEAR, r * _slope(dof, dim), np.minimum(np.sqrt(2.0 * half), _FAR))


def _to_student(r: np.ndarray, dof: np.ndarray, dim: int) -> np.ndarray:
    """The inverse of :func:`_to_normal`."""
    near = r < _NEAR * _slope(dof, dim)
    half = 0.5 * np.minimum(r, _FAR) ** 2
    below, above = special.gammainc(0.5 * dim, half), special.gammaincc(0.5 * dim, half)
    share = special.betaincinv(0.5 * dim, 0.5 * dof, below)
    ratio = np.maximum(special.betaincinv(0.5 * dof, 0.5 * dim, above), 1e-300)
    lower = np.minimum(share, 0.999)
    square = np.where(below < 0.5, lower / (1.0 - lower), (1.0 - ratio) / ratio)
    return np.where(near, r / _slope(dof, dim), np.sqrt(dof * square))


def _slope(dof: np.ndarray, dim: int) -> np.ndarray:
    """du/dr at 0."""
    constant = special.gammaln(0.5 * (dof + dim)) - special.gammaln(0.5 * dof) - 0.5 * dim * np.log(0.5 * dof)
    return np.exp(constant / dim)


def heavy_tails(x: np.ndarray, log_density: np.ndarray, weights: np.ndarray, *, states: np.ndarray) -> list[HeavyTails]:
    """Transports for values (n,) at x (n, d) that are Student-t, radial ones and one of separate tails."""
    rows = slice(None, None, max(len(x) // _MOST_POINTS, 1))
    x, y, weights = x[rows], log_density[rows], weights[rows] / weights[rows].sum()
    white = whiten_states(states)
    z = white(x)

    def with_dof(dof: float | None) -> HeavyTails | None:
        if dof is None:
            return _separate(x, y, weights, states=states)
        try:
            trend = fit_student(z, y, weights, dof=dof)
            root = np.linalg.cholesky(trend.precision).T
        except np.linalg.LinAlgError:
            return None
        matrix = root @ white.matrix
        origin = white.back(trend.location[None])[0]
        return HeavyTails(origin, matrix, np.linalg.inv(matrix), np.array([dof]), radial=True)

    separate = [None] if 1 < x.shape[1] <= _LARGEST_DIM else []
    return [tails for tails in each_in_threads(with_dof, [*_DOFS, *separate]) if tails is not None]


def _separate(x: np.ndarray, y: np.ndarray, weights: np.ndarray, *, states: np.ndarray) -> HeavyTails:
    """Centers, scales and degrees of freedom of all coordinates, by least squares on the values."""
    d = x.shape[1]
    low, center, high = np.quantile(states, [0.25, 0.5, 0.75], axis=0)
    unit = np.where(high > low, 0.5 * (high - low), 1.0)
    root = np.sqrt(weights)

    def residuals(theta: np.ndarray) -> np.ndarray:
        shifts, log_scales, log_dofs = np.split(theta, 3)
        dofs = np.exp(log_dofs)
        z = (x - center - shifts * unit) / (unit * np.exp(log_scales))
        misfit = y + np.sum(0.5 * (dofs + 1.0) * np.log1p(z * z / dofs), axis=1)
        return root * (misfit - weights @ misfit)

    start = np.repeat([0.0, 0.0, math.log(_FIRST_DOF)], d)
    reach = np.repeat([_FURTHEST_CENTER, _LARGEST_LOG_SCALE], d)
    bounds = np.r_[-reach, np.full(d, _LOG_DOFS[0])], np.r_[reach, np.full(d, _LOG_DOFS[1])]
    shifts, log_scales, log_dofs = np.split(
        optimize.least_squares(residuals, start, bounds=bounds, max_nfev=_EVALUATIONS).x, 3
    )
    scale = unit * np.exp(log_scales)
    return HeavyTails(center + shifts * unit, np.diag(1.0 / scale), np.diag(scale), np.exp(log_dofs), radial=False)
