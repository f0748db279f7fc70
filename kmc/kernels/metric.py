"""A kernel in another metric: k(Ax, Ay)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kmc.arrays import as_array
from kmc.checks import MOST_LENGTH
from kmc.kernels.algebra import Kernel
from kmc.njit import njit


@dataclass(frozen=True, eq=False)
class Metric(Kernel):
    r"""The kernel :math:`k(A x, A y)`; derivatives are with respect to x and y.

    Parameters
    ----------
    kernel : Kernel
    matrix : ndarray, shape (d,) or (k, d)
        The matrix A, or its positive diagonal: the inverse of a length scale for each coordinate
        (automatic relevance determination). It is copied.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.kernels import Gaussian, Metric, kernel_derivative
    >>> kernel = Metric(Gaussian(), [1.0, 0.0])
    Traceback (most recent call last):
        ...
    ValueError: matrix=[1.0, 0.0]: expected positive numbers on the diagonal; the least is 0
    >>> kernel = Metric(Gaussian(), [[1.0, 0.0]])  # a matrix can leave a coordinate out
    >>> kernel_derivative(kernel, "k", np.array([[0.0, 5.0]]), np.zeros((1, 2)))
    array([[1.]])
    """

    kernel: Kernel
    matrix: Any

    def __post_init__(self):
        if not isinstance(self.kernel, Kernel):
            raise TypeError(f"kernel={self.kernel!r}: expected a kernel of kmc.kernels")
        object.__setattr__(self, "matrix", _checked(self.matrix))

    @property
    def differentiability(self) -> float:  # type: ignore[override]
        """The differentiability of the kernel."""
        return self.kernel.differentiability

    def map(self, x: np.ndarray) -> np.ndarray:
        """Return Ax at the rows of x (n, d), shape (n, k).

        Equal rows have equal images, to the last bit.
        """
        return mapped(x, self.matrix)

    def scaled(self, factor: float) -> Metric:
        """Return the scaled kernel in the same metric."""
        return Metric(self.kernel.scaled(factor), self.matrix)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Metric):
            return NotImplemented
        return self.kernel == other.kernel and np.array_equal(self.matrix, other.matrix)

    def __hash__(self) -> int:
        return hash((self.kernel, self.matrix.shape, self.matrix.tobytes()))


def mapped(x: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Multiply the rows of x (n, d) by a matrix (k, d) or a diagonal (d,), each in the same way.

    This does not use BLAS, which sums rows at the edges of blocks in a different order: two equal
    points would then differ by rounding, which matters for a kernel with a kink.
    """
    if matrix.shape[-1] != x.shape[1]:
        raise ValueError(
            f"matrix has {matrix.shape[-1]} columns, but the points have {x.shape[1]} coordinates"
        )
    return x * matrix if matrix.ndim == 1 else np.einsum("nd,kd->nk", x, matrix)


def composed(outer: np.ndarray, inner: np.ndarray | None) -> np.ndarray:
    """Return the matrix of x -> outer (inner x).

    ``outer`` may be a diagonal, ``inner`` None for the identity.
    """
    outer = np.diag(outer) if outer.ndim == 1 else outer
    if inner is None:
        return outer
    if outer.shape[1] != inner.shape[0]:
        raise ValueError(
            f"matrix has {outer.shape[1]} columns, but the metric around it has {inner.shape[0]} "
            f"rows"
        )
    return outer @ inner


def _checked(matrix):
    try:
        a = np.array(as_array("matrix", matrix))
    except (TypeError, ValueError) as error:
        raise type(error)(f"matrix={matrix!r}: expected numbers of shape (d,) or (k, d)") from error
    if a.ndim not in (1, 2) or a.size == 0:
        raise ValueError(
            f"matrix has shape {a.shape}: expected (d,), a positive diagonal, or (k, d)"
        )
    if not np.isfinite(a).all():
        raise ValueError(f"matrix={matrix!r}: expected finite numbers")
    if a.ndim == 1 and not (a > 0).all():
        raise ValueError(
            f"matrix={matrix!r}: expected positive numbers on the diagonal; the least is "
            f"{a.min():g}"
        )
    if np.abs(a).max() > MOST_LENGTH:
        raise ValueError(
            f"matrix={matrix!r}: expected numbers of at most {MOST_LENGTH:g}; rescale the data"
        )
    if not a.any():
        raise ValueError(f"matrix={matrix!r}: expected a number other than zero")
    a.flags.writeable = False
    return a


# Squared distances between two sets of points, and the median distance, the unit of bandwidths.

_NEAR = 1e-3  # of |x|² + |y|²: below it the fast formula loses three digits


def squared_distances(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return |x_i - y_j|² for rows of x (n, d) and y (m, d), shape (n, m).

    They are never negative, and 0 for equal points. Both sets are centered first, which preserves
    the digits of data far from the origin. A matrix product gives |x|² + |y|² - 2 x·y. The few
    pairs that are close relative to their distance from the center, for which that formula cancels,
    are recomputed by differences: kernels with a square root need the digits there. The remaining
    relative error is 1e-12, or the rounding of the centered coordinates if that is larger.
    """
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if not (len(x) and len(y)):
        return np.zeros((len(x), len(y)))
    center = y.mean(axis=0)
    x, y = np.subtract(x, center, order="C"), np.subtract(y, center, order="C")
    s = x @ (-2.0 * y.T)
    _complete(s, x, y, np.einsum("ij,ij->i", x, x), np.einsum("ij,ij->i", y, y))
    return s


def median_distance(points: np.ndarray, most: int = 1000) -> float:
    """Return the median distance of points; pairs of equal ones count unless it would be zero.

    Parameters
    ----------
    points : ndarray, shape (n, d)
        At least two distinct points.
    most : int
        If there are more points, this number of rows, evenly spaced, is used.

    Raises
    ------
    ValueError
        All points are equal.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.kernels import median_distance
    >>> median_distance(np.array([[0.0], [1.0], [4.0]]))
    3.0
    """
    if len(points) > most:
        points = points[np.linspace(0, len(points) - 1, most).astype(int)]
    s = _above_diagonal(squared_distances(points, points))
    if not np.any(s > 0):
        raise ValueError(
            f"all {len(points)} points are equal, or too close for floating-point numbers: no "
            "distance between distinct points exists, rescale the data"
        )
    median = np.median(s)
    return float(np.sqrt(median if median > 0 else np.median(s[s > 0])))


@njit()
def _above_diagonal(matrix):
    """Return the entries above the diagonal, row by row."""
    n = len(matrix)
    out = np.empty(n * (n - 1) // 2)
    start = 0
    for i in range(n):
        row = matrix[i]
        for j in range(i + 1, n):
            out[start + j - i - 1] = row[j]
        start += n - i - 1
    return out


@njit()
def _complete(s, x, y, x_norms, y_norms):
    """Add the squared norms to s = -2 x·y, and recompute close pairs by differences."""
    n, m = s.shape
    for i in range(n):
        row = s[i]
        near = 0
        for j in range(m):
            norms = x_norms[i] + y_norms[j]
            row[j] += norms
            near += row[j] < _NEAR * norms
        if near == 0:
            continue
        for j in range(m):
            if row[j] < _NEAR * (x_norms[i] + y_norms[j]):
                row[j] = _by_differences(x[i], y[j])


@njit()
def _by_differences(x, y):
    total = 0.0
    for k in range(x.size):
        total += (x[k] - y[k]) ** 2
    return total
