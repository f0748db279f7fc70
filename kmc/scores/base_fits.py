"""Base densities fitted to samples by maximum likelihood."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from kmc.scores.densities import Flat, Gaussian, StudentT, Uniform, UserDensity, student_constant

DOFS = (1.0, 2.0, 3.0, 5.0, 8.0, 15.0, 30.0, 100.0)

_ADVICE = "base='uniform' needs no covariance, or use"
_NARROWEST = 1e-12  # smallest eigenvalue of a correlation matrix that is not rounding error


def fit_base(base: Any, x: np.ndarray, weights: np.ndarray | None = None) -> Any:
    """Return the base density of an estimator, fitted to samples if ``base`` is a name.

    Parameters
    ----------
    base : {"uniform", "gaussian", "student-t"} or object
        "uniform" is :class:`Flat`: uniform on a support that contains everything. "gaussian" has
        the weighted mean and covariance of the samples (maximum likelihood). "student-t" maximizes
        the likelihood, too: location and scale by expectation-maximization (Kent, Tyler and Vardi
        1994), degrees of freedom from ``DOFS``. An object with ``log_density`` and ``gradient`` is
        used unchanged.
    x : ndarray, shape (n, d)
    weights : ndarray, shape (n,), optional
        Not negative; ones by default.

    Returns
    -------
    object
        With ``log_density``, ``gradient`` and ``laplacian``.

    Raises
    ------
    ValueError
        The name is unknown, the covariance of the samples is singular where it is needed, or a
        density returns the wrong shape or is not finite at some sample.
    TypeError
        An object lacks these methods.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.scores.base_fits import fit_base
    >>> fit_base("gaussian", np.array([[0.0], [2.0]])).covariance
    array([[1.]])
    """
    if isinstance(base, str):
        if base not in _FITS:
            raise ValueError(
                f"base={base!r}: expected one of {', '.join(map(repr, _FITS))}, or an object with "
                "log_density and gradient"
            )
        return _FITS[base](x, weights)
    own = isinstance(base, (Flat, Uniform, Gaussian, StudentT, UserDensity))
    density = base if own else UserDensity(base, _difference_step(x))
    _check_at(density, base, x)
    return density


def fit_gaussian(x: np.ndarray, weights: np.ndarray | None = None) -> Gaussian:
    """Fit a Gaussian by maximum likelihood; a singular covariance raises a ValueError.

    The covariance is divided by Σ w.
    """
    w = _shares(x, weights)
    mean = w @ x
    r = x - mean
    mean = mean + w @ r  # corrects the rounding of the mean of numbers far from zero
    r = x - mean
    return gaussian_of_moments(mean, (w[:, None] * r).T @ r, len(x), _ADVICE)


def fit_student(x: np.ndarray, weights: np.ndarray | None = None) -> StudentT:
    """Fit a Student-t density by maximum likelihood; a singular covariance raises a ValueError."""
    w = _shares(x, weights)
    start = fit_gaussian(x, w)
    lower = linalg.cholesky(start.covariance, lower=True)
    z = linalg.solve_triangular(lower, (x - start.mean).T, lower=True).T
    best = _best_dof(z, w)
    if best is None:
        raise ValueError(
            f"base='student-t': so many of the {len(x)} samples coincide that the likelihood has "
            "no maximum. Use base='uniform' or base='gaussian', or give each point once with its "
            "count in weights"
        )
    return StudentT(start.mean + lower @ best.location, lower @ best.scale @ lower.T, best.dof)


def gaussian_of_moments(
    mean: np.ndarray, covariance: np.ndarray, n: int, advice: str = "use"
) -> Gaussian:
    """Return the Gaussian with the moments of n samples.

    If there is none, raise a ValueError with advice.
    """
    sd = np.sqrt(np.diag(covariance))
    singular = not np.all(sd > 0)
    if not singular:
        singular = linalg.eigvalsh(covariance / np.outer(sd, sd))[0] <= _NARROWEST * len(mean)
    if singular:
        raise ValueError(
            f"the covariance of the {n} samples in {len(mean)} dimensions is singular (too few "
            "distinct samples, or a column that is constant or a linear combination of others), "
            f"and a Gaussian needs a spread in every direction: {advice} more samples, or leave "
            "such columns out"
        )
    return Gaussian(mean, covariance)


class _Fit(NamedTuple):
    """A Student-t density of maximum likelihood at its degrees of freedom."""

    likelihood: float  # mean log-density
    location: np.ndarray  # (d,)
    scale: np.ndarray  # (d, d)
    dof: float


def _best_dof(z, w):
    """Return the best fit to white points with degrees of freedom in ``DOFS``; None if none exists.

    They are tried from the largest on until two in turn are worse: as a function of the degrees of
    freedom the likelihood has one maximum. Each fit starts at the last one.
    """
    best, last, worse = None, None, 0
    for dof in reversed(DOFS):
        fit = _student_em(z, w, dof, last)
        if fit is None:  # nor for fewer degrees of freedom
            break
        if best is None or fit.likelihood > best.likelihood:
            best, worse = fit, 0
        else:
            worse += 1
        if worse == 2:
            break
        last = fit
    return best


def _student_em(z, w, dof, start):
    """Fit a Student-t density to white points from the location and scale of ``start``, or 0 and 1.

    None if the likelihood has no maximum, or if the iterations do not reach it. The scale is
    divided by the sum of the weights u rather than by n (parameter expansion), which has the same
    fixed point and converges several times faster. With few degrees of freedom and enough
    coincident points the likelihood grows without bound as the scale shrinks on them.
    """
    d = z.shape[1]
    location, scale = (np.zeros(d), np.eye(d)) if start is None else (start.location, start.scale)
    before = -np.inf
    for _ in range(1000):
        try:
            inverse = np.linalg.inv(np.linalg.cholesky(scale))
        except np.linalg.LinAlgError:
            return None
        diagonal = np.diag(inverse)
        if diagonal.max() > 1e12:
            return None
        half = (z - location) @ inverse.T
        q = np.einsum("nd,nd->n", half, half)
        likelihood = np.log(diagonal).sum() - 0.5 * (dof + d) * (w @ np.log1p(q / dof))
        if likelihood - before < 1e-9:
            return _Fit(likelihood + student_constant(dof, d), location, scale, dof)
        before = likelihood
        u = w / (dof + q)
        u /= u.sum()
        location = u @ z
        r = z - location
        scale = (u[:, None] * r).T @ r
    return None


def _check_at(density, base, x):
    """Check that a user's base has the dimension of the samples, and is finite at all of them."""
    center: Any = 0.0
    if isinstance(density, Uniform):
        center = density.low
    elif isinstance(density, Gaussian):
        center = density.mean
    elif isinstance(density, StudentT):
        center = density.location
    if np.ndim(center) and len(center) != x.shape[1]:
        raise ValueError(
            f"base={base!r} is a density in {len(center)} dimensions, but X has {x.shape[1]} "
            f"columns"
        )
    for start in range(0, len(x), 4096):
        part = x[start : start + 4096]
        for name, function in (
            ("log_density", density.log_density),
            ("gradient", density.gradient),
        ):
            values = function(part)
            finite = np.isfinite(values).reshape(len(part), -1).all(axis=1)
            if not np.all(finite):
                row = int(np.argmin(finite))
                raise ValueError(
                    f"base={base!r}: {name} is {values[row]} at row {start + row} of X, "
                    f"{part[row]}: expected a base "
                    "density that is positive and smooth wherever there are samples"
                )


def _difference_step(x):
    sd = x.std(axis=0)
    return 2.0 ** np.round(np.log2(1e-3 * np.where(sd > 0, sd, 1.0)))


def _shares(x, weights):
    return np.full(len(x), 1.0 / len(x)) if weights is None else weights / np.sum(weights)


_FITS: dict[str, Any] = {
    "uniform": lambda x, weights: Flat(),
    "gaussian": fit_gaussian,
    "student-t": fit_student,
}
