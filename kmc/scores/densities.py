"""Base densities q0: the factor in an exponential family, and its limit far from the data."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import lgamma, log, pi
from typing import Any

import numpy as np
from scipy import linalg

from kmc import jitted
from kmc.bases.base_jit_state import BaseJitState, base_value_and_gradient, flat
from kmc.njit import njit


@dataclass(frozen=True)
class Flat:
    """The improper uniform density on R^d: log-density, gradient and Laplacian are zero.

    It is the uniform q0 of the papers, whose support contains everything of interest.
    """

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """Return zeros, shape (n,)."""
        return np.zeros(len(x))

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Return zeros, shape (n, d)."""
        return np.zeros(np.shape(x))

    def laplacian(self, x: np.ndarray) -> np.ndarray:
        """Return zeros, shape (n,)."""
        return np.zeros(len(x))

    def hessian(self, x: np.ndarray) -> np.ndarray:
        """Return zeros, shape (n, d, d)."""
        return np.zeros((*x.shape, x.shape[1]))


@dataclass(frozen=True, eq=False)
class Uniform:
    """The uniform density on a box.

    The log-density is minus infinity outside, and the gradient and the Laplacian are zero
    everywhere. Score matching assumes that the density of the samples vanishes at the boundary of
    the box (Hyvärinen 2005): samples that pile up there bias a fit.

    Parameters
    ----------
    low, high : float or array_like, shape (d,)
        Opposite corners; a number applies to all columns.

    Raises
    ------
    ValueError
        They are not finite, or ``low < high`` fails in some column.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.scores.densities import Uniform
    >>> Uniform(0.0, [1.0, 2.0]).log_density(np.array([[0.5, 0.5], [1.5, 0.5]])).round(4)
    array([-0.6931,    -inf])
    """

    low: Any
    high: Any

    def __post_init__(self):
        low, high = np.broadcast_arrays(_frozen(self.low), _frozen(self.high))
        if low.ndim > 1 or not np.all(np.isfinite(low) & np.isfinite(high) & (low < high)):
            raise ValueError(
                f"low={self.low!r}, high={self.high!r}: expected finite corners of a box, numbers "
                "or one for each column, with low < high"
            )
        object.__setattr__(self, "low", _frozen(low))
        object.__setattr__(self, "high", _frozen(high))

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """Return minus the log-volume of the box inside it, shape (n,)."""
        inside = np.all((x >= self.low) & (x <= self.high), axis=1)
        widths = np.broadcast_to(self.high - self.low, x.shape[1:])
        return np.where(inside, -np.log(widths).sum(), -np.inf)

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Return zeros, shape (n, d)."""
        return np.zeros(np.shape(x))

    def laplacian(self, x: np.ndarray) -> np.ndarray:
        """Return zeros, shape (n,)."""
        return np.zeros(len(x))

    def hessian(self, x: np.ndarray) -> np.ndarray:
        """Return zeros, shape (n, d, d)."""
        return np.zeros((*x.shape, x.shape[1]))


@dataclass(frozen=True, eq=False)
class Gaussian:
    """The normal density, normalized.

    Parameters
    ----------
    mean : array_like, shape (d,)
    covariance : array_like, shape (d, d)
        Symmetric and positive definite.

    Attributes
    ----------
    precision : ndarray, shape (d, d)
        Inverse of the covariance.
    constant : float
        Log-density at the mean.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.scores.densities import Gaussian
    >>> q0 = Gaussian(mean=[0.0, 1.0], covariance=[[1.0, 0.0], [0.0, 4.0]])
    >>> q0.gradient(np.array([[1.0, 3.0]]))
    array([[-1. , -0.5]])
    """

    mean: Any
    covariance: Any
    precision: np.ndarray = field(init=False, repr=False)
    constant: float = field(init=False, repr=False)

    def __post_init__(self):
        mean, covariance, precision, log_det = _ellipsoid(
            self.mean, self.covariance, "mean", "covariance"
        )
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "covariance", covariance)
        object.__setattr__(self, "precision", precision)
        object.__setattr__(self, "constant", -0.5 * (log_det + len(mean) * log(2.0 * pi)))

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """Return the log-densities, (n,)."""
        r = x - self.mean
        return self.constant - 0.5 * np.einsum("ij,ij->i", r @ self.precision, r)

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Return the gradients, (n, d)."""
        return -((x - self.mean) @ self.precision)

    def laplacian(self, x: np.ndarray) -> np.ndarray:
        """Return minus the trace of the precision everywhere, shape (n,)."""
        return np.full(len(x), -np.trace(self.precision))

    def hessian(self, x: np.ndarray) -> np.ndarray:
        """Return minus the precision everywhere, shape (n, d, d)."""
        return np.tile(-self.precision, (len(x), 1, 1))


@dataclass(frozen=True, eq=False)
class StudentT:
    """The multivariate Student-t density, normalized: its score vanishes far from the data.

    Parameters
    ----------
    location : array_like, shape (d,)
    scale : array_like, shape (d, d)
        Symmetric and positive definite; the covariance is ``dof / (dof - 2)`` times it.
    dof : float
        Degrees of freedom ν, positive.

    Attributes
    ----------
    precision : ndarray, shape (d, d)
        Inverse of the scale matrix.
    constant : float
        Log-density at the location.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.scores.densities import StudentT
    >>> StudentT([0.0], [[1.0]], dof=1.0).gradient(np.array([[1.0], [100.0]])).round(4)
    array([[-1.  ],
           [-0.02]])
    """

    location: Any
    scale: Any
    dof: float
    precision: np.ndarray = field(init=False, repr=False)
    constant: float = field(init=False, repr=False)

    def __post_init__(self):
        if not (np.isfinite(self.dof) and self.dof > 0):
            raise ValueError(
                f"dof={self.dof!r}: expected a positive finite number of degrees of freedom"
            )
        location, scale, precision, log_det = _ellipsoid(
            self.location, self.scale, "location", "scale"
        )
        object.__setattr__(self, "location", location)
        object.__setattr__(self, "scale", scale)
        object.__setattr__(self, "dof", float(self.dof))
        object.__setattr__(self, "precision", precision)
        object.__setattr__(
            self, "constant", student_constant(self.dof, len(location)) - 0.5 * log_det
        )

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """Return the log-densities, (n,)."""
        r = x - self.location
        q = np.einsum("ij,ij->i", r @ self.precision, r)
        return self.constant - 0.5 * (self.dof + x.shape[1]) * np.log1p(q / self.dof)

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Return -(ν + d) P r / (ν + q), shape (n, d).

        Here r = x - location, P is the precision and q = rᵀPr.
        """
        r = x - self.location
        pr = r @ self.precision
        q = np.einsum("ij,ij->i", pr, r)
        return -((self.dof + x.shape[1]) / (self.dof + q))[:, None] * pr

    def laplacian(self, x: np.ndarray) -> np.ndarray:
        """Return -(ν + d) (tr P / (ν + q) - 2 |P r|² / (ν + q)²), shape (n,)."""
        r = x - self.location
        pr = r @ self.precision
        below = self.dof + np.einsum("ij,ij->i", pr, r)
        curvature = (
            np.trace(self.precision) / below - 2.0 * np.einsum("ij,ij->i", pr, pr) / below**2
        )
        return -(self.dof + x.shape[1]) * curvature

    def hessian(self, x: np.ndarray) -> np.ndarray:
        """Return -(ν + d) (P / (ν + q) - 2 P r rᵀ P / (ν + q)²), shape (n, d, d)."""
        r = x - self.location
        pr = r @ self.precision
        below = (self.dof + np.einsum("ij,ij->i", pr, r))[:, None, None]
        curvature = self.precision / below - 2.0 * pr[:, :, None] * pr[:, None, :] / below**2
        return -(self.dof + x.shape[1]) * curvature


@dataclass(frozen=True, eq=False)
class UserDensity:
    """A user's density, with checks of the shapes and values that it returns.

    A density without ``laplacian`` gets one by central differences of fourth order of its gradient:
    4 d further calls of ``gradient``, and a relative error near 1e-11 for a gradient that is smooth
    over a thousand steps.

    Parameters
    ----------
    density : object
        With ``log_density(x)`` (n,), ``gradient(x)`` (n, d), and optionally ``laplacian(x)`` (n,).
    step : float or array_like, shape (d,)
        Step of the differences, in the units of each column. :func:`kmc.scores.base_fits.fit_base`
        uses a thousandth of a column's standard deviation, as a power of two so that adding it to a
        coordinate does not round.

    Raises
    ------
    TypeError
        A method is missing.
    ValueError
        When called, if the density returns an array of another shape, or NaN.
    """

    density: Any
    step: Any = 2.0**-10

    def __post_init__(self):
        for name in ("log_density", "gradient"):
            if not callable(getattr(self.density, name, None)):
                raise TypeError(
                    f"base={self.density!r} has no method {name}: expected 'uniform', 'gaussian', "
                    "'student-t', or an object with log_density(x) (n,) and gradient(x) (n, d)"
                )
        object.__setattr__(self, "step", _frozen(self.step))

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """Return the log-densities, (n,)."""
        return self._call("log_density", x, x.shape[:1])

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Return the gradients, (n, d)."""
        return self._call("gradient", x, x.shape)

    def laplacian(self, x: np.ndarray) -> np.ndarray:
        """Return the Laplacians, (n,)."""
        if callable(getattr(self.density, "laplacian", None)):
            return self._call("laplacian", x, x.shape[:1])
        total = np.zeros(len(x))
        for i, step in enumerate(np.broadcast_to(self.step, x.shape[1:])):
            e = np.zeros(x.shape[1])
            e[i] = step
            near = self.gradient(x + e)[:, i] - self.gradient(x - e)[:, i]
            far = self.gradient(x + 2.0 * e)[:, i] - self.gradient(x - 2.0 * e)[:, i]
            total += (8.0 * near - far) / (12.0 * step)
        return total

    def _call(self, name, x, shape):
        values = np.asarray(getattr(self.density, name)(x), dtype=float)
        if values.shape != shape:
            raise ValueError(
                f"base={self.density!r}: {name} returned shape {values.shape} for x of shape "
                f"{x.shape}, expected {shape}"
            )
        if np.any(np.isnan(values)):
            row = int(np.argmax(np.isnan(values).reshape(len(x), -1).any(axis=1)))
            raise ValueError(f"base={self.density!r}: {name} returned NaN at x={x[row]}")
        return values


def jit_parameters(base: Any, dim: int = 0) -> BaseJitState | None:
    """Return a base density as numbers for jitted loops; None unless flat, Gaussian or Student-t.

    Parameters
    ----------
    base : object
        A fitted base density.
    dim : int
        Size of the arrays of a flat base, which are not used.
    """
    if isinstance(base, Flat):
        return flat(dim)
    if isinstance(base, Gaussian):
        return BaseJitState(base.constant, base.mean.copy(), base.precision.copy(), 0.0)
    if isinstance(base, StudentT):
        return BaseJitState(base.constant, base.location.copy(), base.precision.copy(), base.dof)
    return None


@njit()
def _base_workspace(state):
    return 0


@njit()
def _base_value_and_gradient(state, x, gradient, work):
    return base_value_and_gradient(
        state.constant, state.location, state.precision, state.dof, x, gradient
    )


jitted.register(BaseJitState, _base_workspace, _base_value_and_gradient)


def student_constant(dof: float, d: int) -> float:
    """Return the logarithm of the normalizing factor of a Student-t density of unit scale."""
    return lgamma(0.5 * (dof + d)) - lgamma(0.5 * dof) - 0.5 * d * log(dof * pi)


def _ellipsoid(center, matrix, center_name, matrix_name):
    """Return the center (d,), matrix (d, d), its inverse and its log-determinant."""
    center, matrix = np.atleast_1d(_frozen(center)), np.atleast_2d(_frozen(matrix))
    if center.ndim != 1 or matrix.shape != (len(center), len(center)):
        raise ValueError(
            f"{center_name} has shape {center.shape} and {matrix_name} has shape {matrix.shape}: "
            "expected (d,) and (d, d)"
        )
    if not (np.all(np.isfinite(center)) and np.all(np.isfinite(matrix))):
        raise ValueError(f"{center_name}={center}, {matrix_name}={matrix}: expected finite numbers")
    if not np.allclose(matrix, matrix.T, rtol=1e-8, atol=1e-8 * np.abs(np.diag(matrix)).max()):
        raise ValueError(f"{matrix_name}={matrix}: expected a symmetric matrix")
    sd = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    try:
        if not np.all(sd > 0):
            raise linalg.LinAlgError
        lower = linalg.cholesky(matrix / np.outer(sd, sd), lower=True)
    except linalg.LinAlgError:
        raise ValueError(f"{matrix_name}={matrix}: expected a positive definite matrix") from None
    half = linalg.solve_triangular(lower, np.diag(1.0 / sd), lower=True)
    return center, matrix, _frozen(half.T @ half), 2.0 * float(np.log(sd * np.diag(lower)).sum())


def _frozen(array):
    copy = np.array(array, dtype=float)
    copy.flags.writeable = False
    return copy
