"""Coordinates in which heavy tails are those of a Gaussian.

A Student-t density, of all coordinates together around a center (*radial*) or of each separately,
becomes a standard normal if every distance from the center is replaced by the corresponding
quantile of a Gaussian's distance: a chain then crosses thousands of scales in a few steps, and
depths no longer grow only with the logarithm of a distance.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import optimize, special

from kmc.surrogate.coordinates.whitening import whiten_states
from kmc.threads import each_in_threads

# Set by hand.
_MOST_POINTS = 600  # to which a guess is fitted
_FIRST_DOF = 2.0  # degrees of freedom at the start
_LOG_DOFS = math.log(0.7), math.log(50.0)  # their range
_FURTHEST_CENTER, _LARGEST_LOG_SCALE = 2.0, 3.0  # in spreads of the states
_EVALUATIONS = 20  # of the least squares
# distances below which a quantile is proportional to it, and beyond which it is cut off
_NEAR, _FAR = 1e-5, 35.0


@dataclass(frozen=True, eq=False)
class HeavyTails:
    """z = matrix (x - origin) has a Student-t density, and u a Gaussian one.

    Either |u| is a function of |z|, or each u_i is one of z_i.

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
        """Return the coordinates u of the rows of x (n, d)."""
        return self._mapped((x - self.origin) @ self.matrix.T, _to_normal)

    def back(self, u: np.ndarray) -> np.ndarray:
        """Return the rows of x that have the coordinates u (n, d)."""
        return self.origin + self._mapped(u, _to_student) @ self.inverse.T

    def log_jacobian(self, x: np.ndarray) -> np.ndarray:
        """Return log |du/dx| at the rows of x, shape (n,).

        By construction it is the ratio of the two densities.
        """
        z = (x - self.origin) @ self.matrix.T
        u = self._mapped(z, _to_normal)
        dim = len(self.origin) if self.radial else 1
        square = np.sum(z**2, axis=1, keepdims=True) if self.radial else z**2
        half = 0.5 * (self.dofs + dim)
        constants = (
            special.gammaln(half)
            - special.gammaln(0.5 * self.dofs)
            - 0.5 * dim * np.log(0.5 * self.dofs)
        )
        student = (constants - half * np.log1p(square / self.dofs)).sum(axis=1)
        return student + 0.5 * np.sum(u**2, axis=1) + np.linalg.slogdet(self.matrix)[1]

    def _mapped(self, z: np.ndarray, quantile: Callable[..., np.ndarray]) -> np.ndarray:
        if not self.radial:
            return np.sign(z) * quantile(np.abs(z), self.dofs, 1)
        length = np.linalg.norm(z, axis=1, keepdims=True)
        mapped = quantile(length, self.dofs, z.shape[1])
        return z * (mapped / np.where(length > 0, length, 1.0))


def _to_normal(r: np.ndarray, dof: np.ndarray, dim: int) -> np.ndarray:
    """Return the length of a standard normal vector (dim,) for the length r of a Student-t one.

    Both lengths are equally improbable.
    """
    share, ratio = r * r / (dof + r * r), dof / (dof + r * r)
    below, above = (
        special.betainc(0.5 * dim, 0.5 * dof, share),
        special.betainc(0.5 * dof, 0.5 * dim, ratio),
    )
    half = np.where(
        below < 0.5, special.gammaincinv(0.5 * dim, below), special.gammainccinv(0.5 * dim, above)
    )
    return np.where(r < _NEAR, r * _slope(dof, dim), np.minimum(np.sqrt(2.0 * half), _FAR))


def _to_student(r: np.ndarray, dof: np.ndarray, dim: int) -> np.ndarray:
    """Return the inverse of :func:`_to_normal` at a distance r."""
    near = r < _NEAR * _slope(dof, dim)
    half = 0.5 * np.minimum(r, _FAR) ** 2
    below, above = special.gammainc(0.5 * dim, half), special.gammaincc(0.5 * dim, half)
    share = special.betaincinv(0.5 * dim, 0.5 * dof, below)
    ratio = np.maximum(special.betaincinv(0.5 * dof, 0.5 * dim, above), 1e-300)
    lower = np.minimum(share, 0.999)
    square = np.where(below < 0.5, lower / (1.0 - lower), (1.0 - ratio) / ratio)
    return np.where(near, r / _slope(dof, dim), np.sqrt(dof * square))


def _slope(dof: np.ndarray, dim: int) -> np.ndarray:
    """Return the slope of :func:`_to_normal` at 0."""
    constant = (
        special.gammaln(0.5 * (dof + dim))
        - special.gammaln(0.5 * dof)
        - 0.5 * dim * np.log(0.5 * dof)
    )
    return np.exp(constant / dim)


def heavy_tails(
    x: np.ndarray, log_density: np.ndarray, weights: np.ndarray, *, states: np.ndarray
) -> list[HeavyTails]:
    """Fit Student-t densities to values (n,) at x (n, d), and return their transports.

    The first is radial, the second has a tail of its own for each coordinate.
    """
    rows = slice(None, None, max(len(x) // _MOST_POINTS, 1))
    x, y, weights = x[rows], log_density[rows], weights[rows] / weights[rows].sum()
    return each_in_threads(lambda one: one(x, y, weights, states=states), [_radial, _separate])


def _radial(x: np.ndarray, y: np.ndarray, weights: np.ndarray, *, states: np.ndarray) -> HeavyTails:
    """Fit a center, a matrix and degrees of freedom, by least squares on the values."""
    d = x.shape[1]
    white = whiten_states(states)
    z, root = white(x), np.sqrt(weights)
    rows, columns = np.triu_indices(d)

    def unpacked(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        factor = np.zeros((d, d))
        factor[rows, columns] = theta[d:-1]
        return theta[:d], factor, math.exp(theta[-1])

    def residuals(theta: np.ndarray) -> np.ndarray:
        center, factor, dof = unpacked(theta)
        square = np.sum(((z - center) @ factor.T) ** 2, axis=1)
        misfit = y + 0.5 * (dof + d) * np.log1p(square / dof)
        return root * (misfit - weights @ misfit)

    def jacobian(theta: np.ndarray) -> np.ndarray:
        center, factor, dof = unpacked(theta)
        v = (z - center) @ factor.T
        square = np.sum(v**2, axis=1)
        slope = (dof + d) / (dof + square)
        along_dof = 0.5 * dof * np.log1p(square / dof) - 0.5 * slope * square
        along = np.column_stack(
            [
                -slope[:, None] * (v @ factor),
                slope[:, None] * v[:, rows] * (z - center)[:, columns],
                along_dof,
            ]
        )
        return root[:, None] * (along - weights @ along)

    diagonal = d + np.flatnonzero(rows == columns)
    start = np.zeros(d + len(rows) + 1)
    start[diagonal], start[-1] = 1.0, math.log(_FIRST_DOF)
    low, high = np.full(len(start), -np.inf), np.full(len(start), np.inf)
    low[:d], high[:d] = -_FURTHEST_CENTER, _FURTHEST_CENTER
    low[diagonal], high[diagonal] = math.exp(-_LARGEST_LOG_SCALE), math.exp(_LARGEST_LOG_SCALE)
    low[-1], high[-1] = _LOG_DOFS
    found = optimize.least_squares(
        residuals, start, jac=jacobian, bounds=(low, high), max_nfev=_EVALUATIONS
    )
    center, factor, dof = unpacked(found.x)
    matrix = factor @ white.matrix
    return HeavyTails(
        white.back(center[None])[0], matrix, np.linalg.inv(matrix), np.array([dof]), radial=True
    )


def _separate(
    x: np.ndarray, y: np.ndarray, weights: np.ndarray, *, states: np.ndarray
) -> HeavyTails:
    """Fit centers, scales and degrees of freedom of all coordinates by least squares on values."""
    d = x.shape[1]
    low, center, high = np.quantile(states, [0.25, 0.5, 0.75], axis=0)
    unit = np.where(high > low, 0.5 * (high - low), 1.0)
    root = np.sqrt(weights)

    def standardized(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        shifts, log_scales, log_dofs = np.split(theta, 3)
        scales = np.exp(log_scales)
        return (x - center - shifts * unit) / (unit * scales), scales, np.exp(log_dofs)

    def residuals(theta: np.ndarray) -> np.ndarray:
        z, _, dofs = standardized(theta)
        misfit = y + np.sum(0.5 * (dofs + 1.0) * np.log1p(z * z / dofs), axis=1)
        return root * (misfit - weights @ misfit)

    def jacobian(theta: np.ndarray) -> np.ndarray:
        z, scales, dofs = standardized(theta)
        slope = (dofs + 1.0) / (dofs + z * z) * z
        along_dofs = 0.5 * dofs * np.log1p(z * z / dofs) - 0.5 * slope * z
        along = np.hstack([-slope / scales, -slope * z, along_dofs])
        return root[:, None] * (along - weights @ along)

    start = np.repeat([0.0, 0.0, math.log(_FIRST_DOF)], d)
    reach = np.repeat([_FURTHEST_CENTER, _LARGEST_LOG_SCALE], d)
    bounds = np.r_[-reach, np.full(d, _LOG_DOFS[0])], np.r_[reach, np.full(d, _LOG_DOFS[1])]
    found = optimize.least_squares(
        residuals, start, jac=jacobian, bounds=bounds, max_nfev=_EVALUATIONS
    )
    shifts, log_scales, log_dofs = np.split(found.x, 3)
    scale = unit * np.exp(log_scales)
    return HeavyTails(
        center + shifts * unit, np.diag(1.0 / scale), np.diag(scale), np.exp(log_dofs), radial=False
    )
