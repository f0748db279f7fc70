"""Small dense problems at the end of every fit, and large symmetric systems.

The large systems are given only by products with vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import linalg

FEW = 0.2
"""Share of all eigenvectors up to which computing these alone is faster than computing all."""


def eigh(matrix: np.ndarray, driver: str = "evd") -> tuple[np.ndarray, np.ndarray]:
    """Return all eigenvalues of a symmetric matrix (p, p), ascending, and its eigenvectors.

    By "evd" other threads go on meanwhile: NumPy releases the interpreter's lock, SciPy does not.
    """
    if driver == "evd":
        values, vectors = np.linalg.eigh(matrix)
        return values, np.asfortranarray(vectors)  # as from SciPy: products are rounded by layout
    return linalg.eigh(matrix, check_finite=False, driver=driver)


def eigen_whitening(
    gram: np.ndarray, tolerance: float = 2e-8, most: int | None = None
) -> np.ndarray:
    """Return W = V s^-1/2 of a Gram matrix (p, p) = V diag(s) Vᵀ, shape (p, r), with Wᵀ G W = I.

    The r eigenvalues above ``tolerance`` times the largest are kept, in descending order: r is the
    numerical rank, or ``most`` if that is smaller. Below the square root of the machine epsilon
    they are rounding errors, and so are forms in those directions, which would give spurious modes
    in an eigenproblem.

    Raises
    ------
    scipy.linalg.LinAlgError
        No eigenvalue is left: the matrix is not finite, zero or negative.
    """
    if np.all(np.isfinite(gram)):
        p = len(gram)
        if most is None or most > FEW * p:
            s, v = eigh(gram)
        else:
            s, v = linalg.eigh(gram, check_finite=False, subset_by_index=[p - most, p - 1])
        kept = np.flatnonzero(s > tolerance * max(s[-1], 0.0))[::-1][:most]
        if len(kept):
            return v[:, kept] / np.sqrt(s[kept])
    raise linalg.LinAlgError(
        f"the Gram matrix of {len(gram)} functions is zero or not finite: no basis is left"
    )


def generalized_eigh(a: np.ndarray, b: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the ``count`` largest eigenvalues μ of A v = μ B v, and their vectors (p, count).

    The eigenvalues are descending, and VᵀBV = I. A is symmetric, and B is symmetric and positive
    definite; scipy.linalg.LinAlgError if B is not positive definite.
    """
    p = len(a)
    values, vectors = linalg.eigh(
        a, b, subset_by_index=[max(p - count, 0), p - 1], check_finite=False
    )
    return values[::-1], vectors[:, ::-1]


class RidgePath(NamedTuple):
    """Solutions of (M + λ I) β = b for every λ from one eigendecomposition M = V diag(s) Vᵀ."""

    eigenvalues: np.ndarray  # (p,)
    vectors: np.ndarray  # (p, p), columns
    target: np.ndarray  # Vᵀ b, (p,)

    def coefficients(self, regularization: float) -> np.ndarray:
        """Return β at one λ, shape (p,)."""
        return self.vectors @ (self.target / (self.eigenvalues + regularization))


def ridge_path(matrix: np.ndarray, target: np.ndarray) -> RidgePath:
    """Decompose a symmetric non-negative matrix (p, p) once for every regularization."""
    eigenvalues, vectors = eigh(matrix)
    return RidgePath(np.maximum(eigenvalues, 0.0), vectors, vectors.T @ target)


def ridge_system(
    matrix: np.ndarray, penalty: np.ndarray, regularization: float, jitter: float | str
) -> np.ndarray:
    """Return A + λP + jitter I; "auto" is 1e-9 of the mean diagonal, small enough not to matter."""
    system = matrix + regularization * penalty
    diagonal = np.einsum("ii->i", system)
    diagonal += 1e-9 * diagonal.mean() if jitter == "auto" else jitter
    return system


def ridge_solution(
    matrix: np.ndarray,
    target: np.ndarray,
    penalty: np.ndarray,
    regularization: float,
    jitter: float | str = "auto",
) -> np.ndarray:
    """Solve (A + λP + jitter I) β = target; the shortest β if the system is numerically singular.

    Parameters
    ----------
    matrix, penalty : ndarray, shape (p, p)
        Symmetric, non-negative.
    target : ndarray, shape (p,)
    regularization : float
        λ.
    jitter : float or "auto"
    """
    system = ridge_system(matrix, penalty, regularization, jitter)
    norm = np.abs(system).sum(axis=0).max()
    factor, info = linalg.lapack.dpotrf(system, lower=1)
    if info == 0 and linalg.lapack.dpocon(factor, norm, uplo="L")[0] > np.finfo(float).eps:
        return linalg.lapack.dpotrs(factor, target, lower=1)[0]
    return linalg.pinvh(system, check_finite=False) @ target


def symmetric_power(matrix: np.ndarray, power: float, floor: float = 0.0) -> np.ndarray:
    """Return a power of a symmetric matrix, with eigenvalues first raised to at least ``floor``."""
    eigenvalues, vectors = linalg.eigh(matrix, check_finite=False)
    return (vectors * np.maximum(eigenvalues, floor) ** power) @ vectors.T


Product = Callable[[np.ndarray], np.ndarray]

_RESTARTS = 4


class Iterate(NamedTuple):
    """Result of :func:`solve_shifted`."""

    x: np.ndarray  # of the shape of the right-hand side
    error: float  # |residual| / |shift x|
    iterations: int
    converged: bool


def solve_shifted(
    product: Product,
    shift: float,
    rhs: np.ndarray,
    *,
    precondition: Product | None = None,
    tolerance: float = 1e-7,
    most: int = 2000,
) -> Iterate:
    r"""Solve (M + shift I) x = b by preconditioned conjugate gradients.

    M is symmetric and non-negative.

    In ridge regression with M = K, a kernel matrix, b - Kx is the residual of the data and equals
    shift x at the solution. The residual r of the system is the difference of the two, and the
    fitted values are within :math:`|K (K + \mathrm{shift})^{-1} r| \le |r|` of those of the exact
    solution. The iteration stops at :math:`|r| \le \mathrm{tolerance}\; |\mathrm{shift}\; x|`: the
    absolute tolerance decreases automatically with the shift.

    Parameters
    ----------
    product : callable
        M times an array of the shape of ``rhs`` (any shape; inner products are over all entries).
    shift : float
        Positive.
    rhs : ndarray
        The right-hand side b.
    precondition : callable, optional
        Multiplies by an approximate inverse of M + shift I, symmetric and positive.
    tolerance : float
    most : int
        Largest number of products with M.

    Returns
    -------
    Iterate
        ``error`` is computed from the residual of x: rounding separates it from that of the
        recurrence, which is then restarted. The solver gives up when restarts no longer help.

    References
    ----------
    Hestenes and Stiefel (1952), Methods of conjugate gradients for solving linear systems.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.linalg import solve_shifted
    >>> matrix = np.array([[2.0, 1.0], [1.0, 2.0]])
    >>> solve_shifted(lambda v: matrix @ v, 1.0, np.array([4.0, 0.0])).x
    array([ 1.5, -0.5])
    """
    x, used, error = np.zeros_like(rhs), 0, np.inf
    for _ in range(_RESTARTS):
        residual = rhs - shift * x
        if np.any(x):
            residual -= product(x)
            used += 1
        last, error = error, _ratio(residual, shift, x)
        stuck = last < np.inf and error > 0.5 * last
        if error <= tolerance or used >= most or stuck:
            break
        x, steps = _run(product, shift, x, residual, precondition, 0.5 * tolerance, most - used)
        used += steps
        if not steps:
            break
    return Iterate(x, error, used, bool(error <= tolerance))


def _run(product, shift, x, residual, precondition, tolerance, most):
    """Run conjugate gradients from x until the recurrence's residual is small.

    Return x and the number of steps.
    """
    x, direction, last, steps = x.copy(), np.zeros_like(x), np.inf, 0
    while steps < most and _ratio(residual, shift, x) > tolerance:
        z = residual if precondition is None else precondition(residual)
        squared = np.vdot(residual, z)
        if not squared > 0.0:  # rounding has made the preconditioner indefinite
            break
        direction = z + (squared / last) * direction
        image = product(direction)
        image += shift * direction
        steps += 1
        length = squared / np.vdot(direction, image)
        x += length * direction
        residual = residual - length * image
        last = squared
    return x, steps


def _ratio(residual, shift, x):
    """Return |residual| / |shift x|; zero if both are zero."""
    above, below = float(np.linalg.norm(residual)), float(shift * np.linalg.norm(x))
    return above / below if below > 0.0 else (0.0 if above == 0.0 else np.inf)
