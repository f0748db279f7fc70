"""Large symmetric systems, given only by products with vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

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
    r"""Solve (M + shift I) x = b by preconditioned conjugate gradients, M symmetric and non-negative.

    In ridge regression with M = K, a kernel matrix, b - Kx is the residual of the data and equals shift x at the
    solution. The residual r of the system is the difference of the two, and the fitted values are within
    :math:`|K (K + \mathrm{shift})^{-1} r| \le |r|` of those of the exact solution. The iteration stops at
    :math:`|r| \le \mathrm{tolerance}\; |\mathrm{shift}\; x|`: the absolute tolerance decreases automatically with the
    shift.

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
        ``error`` is computed from the residual of x: rounding separates it from that of the recurrence, which
        is then restarted. The solver gives up when restarts no longer help.

    References
    ----------
    Hestenes and Stiefel (1952), Methods of conjugate gradients for solving linear systems.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.krylov import solve_shifted
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
    """Conjugate gradients from x until the residual of the recurrence is small; the new x and the number of steps."""
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
    """|residual| / |shift x|; zero if both are zero."""
    above, below = float(np.linalg.norm(residual)), float(shift * np.linalg.norm(x))
    return above / below if below > 0.0 else (0.0 if above == 0.0 else np.inf)
