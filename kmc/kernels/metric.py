"""A kernel in another metric: k(Ax, Ay)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kmc.checks import MOST_LENGTH, as_array
from kmc.kernels.algebra import Kernel


@dataclass(frozen=True, eq=False)
class Metric(Kernel):
    r"""The kernel :math:`k(A x, A y)`; derivatives are with respect to x and y.

    Parameters
    ----------
    kernel : Kernel
    matrix : ndarray, shape (d,) or (k, d)
        The matrix A, or its positive diagonal: the inverse of a length scale for each coordinate (automatic relevance
        determination). It is copied.

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
        """The one of the kernel."""
        return self.kernel.differentiability

    def map(self, x: np.ndarray) -> np.ndarray:
        """Ax at the rows of x (n, d), shape (n, k). Equal rows have equal images, to the last bit."""
        return mapped(x, self.matrix)

    def scaled(self, factor: float) -> Metric:
        """The scaled kernel in the same metric."""
        return Metric(self.kernel.scaled(factor), self.matrix)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Metric):
            return NotImplemented
        return self.kernel == other.kernel and np.array_equal(self.matrix, other.matrix)

    def __hash__(self) -> int:
        return hash((self.kernel, self.matrix.shape, self.matrix.tobytes()))


def mapped(x: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Rows of x (n, d) times a matrix (k, d) or a diagonal (d,), each row computed in the same way.

    This does not use BLAS, which sums rows at the edges of blocks in a different order: two equal points would then
    differ by rounding, which matters for a kernel with a kink.
    """
    if matrix.shape[-1] != x.shape[1]:
        raise ValueError(f"matrix has {matrix.shape[-1]} columns, but the points have {x.shape[1]} coordinates")
    return x * matrix if matrix.ndim == 1 else np.einsum("nd,kd->nk", x, matrix)


def composed(outer: np.ndarray, inner: np.ndarray | None) -> np.ndarray:
    """The matrix of x -> outer (inner x); either may be a diagonal."""
    outer = np.diag(outer) if outer.ndim == 1 else outer
    if inner is None:
        return outer
    if outer.shape[1] != inner.shape[0]:
        raise ValueError(f"matrix has {outer.shape[1]} columns, but the metric around it has {inner.shape[0]} rows")
    return outer @ inner


def _checked(matrix):
    try:
        a = np.array(as_array("matrix", matrix))
    except (TypeError, ValueError) as error:
        raise type(error)(f"matrix={matrix!r}: expected numbers of shape (d,) or (k, d)") from error
    if a.ndim not in (1, 2) or a.size == 0:
        raise ValueError(f"matrix has shape {a.shape}: expected (d,), a positive diagonal, or (k, d)")
    if not np.isfinite(a).all():
        raise ValueError(f"matrix={matrix!r}: expected finite numbers")
    if a.ndim == 1 and not (a > 0).all():
        raise ValueError(f"matrix={matrix!r}: expected positive numbers on the diagonal; the least is {a.min():g}")
    if np.abs(a).max() > MOST_LENGTH:
        raise ValueError(f"matrix={matrix!r}: expected numbers of at most {MOST_LENGTH:g}; rescale the data")
    if not a.any():
        raise ValueError(f"matrix={matrix!r}: expected a number other than zero")
    a.flags.writeable = False
    return a
