"""The parametric part of the surrogate: a quadratic depth, Gaussian or Student-t, fitted to log-density values."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg

from kmc.linalg import RidgePath, ridge_path
from kmc.surrogates.low_rank import fit_diagonal, fit_structured
from kmc.surrogates.slopes import Slopes
from kmc.surrogates.wide_trend import is_wide, terms_of, values_for_any, wide_ridge
from kmc.threads import each_in_threads

# "Tried" is docs/what-was-tried.md; the others were set by hand.
DOFS = (1.0, 2.0, 4.0, 8.0)  # candidates for degrees of freedom
FLATTEST = 0.02  # smallest eigenvalue of the precision, in whitened coordinates: the trend decreases in every direction
_FLATTEST_KNOWN = 1e-5  # the same if the values are certainly quadratic and only the whitening is off (tried)
_LITERAL = 0.5  # a flatter trend is used if it leaves less than this fraction of the residual sd
_GAUSSIAN = 0.1  # nats of residual sd, below which no other tail is tried
_HEAVY, _HEAVY_MOST = 0.65, 0.5  # of the Gaussian's residual sd, and nats: limits for a Student-t
_RIDGES = np.logspace(-8, 2, 21)  # candidates, by leave-one-out
_EXACT_RIDGES = np.logspace(-14, 2, 33)  # the same by generalized cross-validation (tried: Gaussian 50-d)
_SPARE, _LEAST_SPARE = 0.05, 5.0  # fraction and number of values beyond those that determine a quadratic
_EXACT = 1e-3  # relative to the values' sd: with a smaller error they are certainly quadratic
_POOR_STRUCTURE = 3.0  # nats of held-out error, with which a structured quadratic is no use
_ITERATIONS = 20  # of Gauss-Newton
_DAMPING, _LEAST_DAMPING = 1e-3, 1e-9  # at first, and at least
_LESS, _MORE = 0.2, 10.0  # factors on the damping after a good step and a bad one
_CONVERGED = 0.999  # a step that leaves more of the loss is the last
_CLIPPED_SLOPE = 0.1  # factor on the slope where q is clipped: small, to recover
_LEAST_SHIFT = -0.5  # smallest constant of q, in degrees of freedom


class Trend(NamedTuple):
    """t(z) = constant - depth(q), q = (z - location)ᵀ precision (z - location); see :class:`SurrogateJitState`."""

    constant: float
    location: np.ndarray
    precision: np.ndarray
    dof: float
    residual_sd: float  # weighted root mean square of y - t at the points of the fit


def fit_trend(z: np.ndarray, y: np.ndarray, weights: np.ndarray, *, slopes: Slopes | None = None) -> Trend:
    """The Gaussian trend, or a Student-t one if the values clearly have heavy tails.

    Parameters
    ----------
    z : ndarray, shape (n, d)
        Whitened points.
    y : ndarray, shape (n,)
        Log-density.
    weights : ndarray, shape (n,)
        Summing to one.
    slopes : Slopes, optional
        Known gradients; only the Gaussian is fitted to them, too.
    """
    gaussian = fit_gaussian(z, y, weights, slopes=slopes)
    if gaussian.residual_sd < _GAUSSIAN or len(z) < 2 * terms_of(z.shape[1]) or is_wide(z.shape[1]):
        return gaussian
    students = each_in_threads(lambda dof: fit_student(z, y, weights, dof=dof), DOFS)
    student = min(students, key=lambda t: t.residual_sd)
    heavy = student.residual_sd < min(_HEAVY * gaussian.residual_sd, _HEAVY_MOST)
    return student if heavy else gaussian


def fit_independent(z: np.ndarray, y: np.ndarray, weights: np.ndarray) -> Trend:
    """The Gaussian trend of independent coordinates, by least squares; arguments as in :func:`fit_trend`."""
    linear, quadratic = fit_diagonal(z, y, weights)
    return _completed(-2.0 * quadratic, linear, _Values(z, y, weights))


def fit_gaussian(z: np.ndarray, y: np.ndarray, weights: np.ndarray, *, slopes: Slopes | None = None) -> Trend:
    """Least squares on the quadratics, shrunk towards the standard normal by a ridge chosen by leave-one-out.

    Leave-one-out is that of the values. In many dimensions the ridge is chosen by held-out values instead.
    """
    d = z.shape[1]
    target = y + 0.5 * np.einsum("ij,ij->i", z, z)
    if is_wide(d) and not slopes:
        return _of_coefficients(_wide_coefficients(z, target, weights), _Values(z, y, weights))
    features = quadratic_features(z)[:, 1:]
    features, target = features - weights @ features, target - weights @ target
    matrix, right = (weights[:, None] * features).T @ features, (weights * target) @ features
    gradients = None
    if slopes:
        gradients = _gradient_rows(slopes)
        matrix = matrix + gradients.features.T @ gradients.features
        right = right + gradients.target @ gradients.features
    path = ridge_path(matrix, right)
    loo = weights @ path.leave_one_out(features, target, weights, _RIDGES) ** 2
    best = float(_RIDGES[np.argmin(loo)])
    exact = _exact(path, features, target=target, weights=weights, gradients=gradients)
    return _of_coefficients(path.coefficients(best if exact is None else exact), _Values(z, y, weights))


def _wide_coefficients(z: np.ndarray, target: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The better of a structured and of any quadratic, by held-out values; LinAlgError if there are too few values."""
    structured = fit_structured(z, target, weights)
    known = np.sqrt(weights @ (target - weights @ target) ** 2)
    if len(z) < values_for_any(z.shape[1]):
        if structured.error > max(_POOR_STRUCTURE, _EXACT * known):
            raise linalg.LinAlgError("too few values for a quadratic that is not a diagonal plus a matrix of low rank")
        return structured.coefficients
    if structured.error < _EXACT * known:
        return structured.coefficients
    features = quadratic_features(z)[:, 1:]
    features -= weights @ features
    solution, error = wide_ridge(features, target - weights @ target, weights)
    return solution if error < structured.error else structured.coefficients


class _Rows(NamedTuple):
    """Gradients as rows of least squares, multiplied by the roots of their weights."""

    features: np.ndarray  # (g d, p)
    target: np.ndarray  # (g d,)
    effective: float  # number of rows, counted with their weights


def _gradient_rows(slopes: Slopes) -> _Rows:
    z, gradient, weights = slopes
    root = np.sqrt(weights)[:, None]
    features = root[..., None] * quadratic_gradients(z)[:, :, 1:]
    target = root * (gradient + z)
    return _Rows(features.reshape(target.size, -1), target.ravel(), slopes.effective)


def _exact(
    path: RidgePath, features: np.ndarray, *, target: np.ndarray, weights: np.ndarray, gradients: _Rows | None = None
) -> float | None:
    """The best ridge if the values are certainly quadratic, otherwise None.

    Leave-one-out gives no information on points that alone determine a direction, and in many dimensions most of the
    first points do. Generalized cross-validation, RSS / (1 - tr H / n)², does, given some more values than a quadratic
    needs.
    """
    grid = _EXACT_RIDGES
    n = 1.0 / np.sum(weights**2) + (gradients.effective if gradients else 0.0)
    spare = n - 1.0 - np.sum(path.eigenvalues[:, None] / (path.eigenvalues[:, None] + grid), axis=0)
    coefficients = np.stack([path.coefficients(float(r)) for r in grid], axis=1)
    residuals = target[:, None] - features @ coefficients
    squared = weights @ residuals**2
    if gradients is not None:
        squared = squared + np.sum((gradients.target[:, None] - gradients.features @ coefficients) ** 2, axis=0)
    error = np.sqrt(squared) / np.maximum(spare / n, 1e-300)
    error[spare < max(_SPARE * n, _LEAST_SPARE)] = np.inf
    best = int(np.argmin(error))
    return float(grid[best]) if error[best] < _EXACT * np.sqrt(weights @ target**2) else None


def fit_student(z: np.ndarray, y: np.ndarray, weights: np.ndarray, *, dof: float) -> Trend:
    """Damped Gauss–Newton on y = c - (ν + d)/2 log(1 + q/ν) over c and the coefficients of the quadratic q."""
    d = z.shape[1]
    features = quadratic_features(z)
    theta = np.zeros(features.shape[1])
    theta[1 + d :][_diagonal(d)] = 1.0  # q = |z|²
    half = 0.5 * (dof + d)
    root = np.sqrt(weights)
    damping = _DAMPING

    def model(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        q = np.maximum(features @ theta, 0.0)
        shape = -half * np.log1p(q / dof)
        constant = weights @ (y - shape)
        return q, y - constant - shape

    q, residual = model(theta)
    loss = weights @ residual**2
    for _ in range(_ITERATIONS):
        slope = np.where(q > 0, 1.0, _CLIPPED_SLOPE) * -half / (dof + q)
        jacobian = slope[:, None] * features
        jacobian = root[:, None] * (jacobian - weights @ jacobian)
        normal = jacobian.T @ jacobian
        scale = np.sqrt(np.diag(normal) + 1e-8 * np.trace(normal))
        if not np.all(scale > 0):  # the depths are so large that changes are lost to rounding
            break
        scaled = normal / np.outer(scale, scale) + damping * np.eye(len(theta))
        downhill = jacobian.T @ (root * residual) / scale
        step = linalg.solve(scaled, downhill, assume_a="pos", check_finite=False) / scale
        trial_q, trial_residual = model(theta + step)
        trial_loss = weights @ trial_residual**2
        if trial_loss < loss:
            converged = trial_loss > _CONVERGED * loss
            theta, q, residual, loss = theta + step, trial_q, trial_residual, trial_loss
            damping = max(_LESS * damping, _LEAST_DAMPING)
            if converged:
                break
        else:
            damping *= _MORE
    precision = symmetric(theta[1 + d :], d)
    precision = _raised(precision)
    location = -0.5 * linalg.solve(precision, theta[1 : 1 + d], assume_a="pos")
    # q must vanish at its minimum: fold its constant into the scale, (1 + (q + e)/ν) = (1 + e/ν)(1 + q/(ν + e))
    excess = max(theta[0] - location @ precision @ location, _LEAST_SHIFT * dof)
    return _with_residual(location, precision / (1.0 + excess / dof), _Values(z, y, weights), dof=dof)


def depth(q: np.ndarray, dof: float, dim: int) -> np.ndarray:
    """Depth of the trend at values of its quadratic form, without the cap."""
    return 0.5 * (dof + dim) * np.log1p(q / dof) if dof > 0 else 0.5 * q


def quadratic_features(z: np.ndarray) -> np.ndarray:
    """(n, 1 + d + d(d+1)/2): 1, z_i and z_i z_j, i <= j."""
    n, d = z.shape
    out = np.empty((n, terms_of(d)))
    out[:, 0], out[:, 1 : 1 + d] = 1.0, z
    end = 1 + d
    for i in range(d):
        begin, end = end, end + d - i
        np.multiply(z[:, i : i + 1], z[:, i:], out=out[:, begin:end])
    return out


def quadratic_gradients(z: np.ndarray) -> np.ndarray:
    """Gradients of the same features, (n, d, 1 + d + d(d+1)/2)."""
    n, d = z.shape
    i, j = np.triu_indices(d)
    columns = np.arange(1 + d, 1 + d + len(i))
    out = np.zeros((n, d, 1 + d + len(i)))
    out[:, np.arange(d), 1 + np.arange(d)] = 1.0
    out[:, i, columns] += z[:, j]
    out[:, j, columns] += z[:, i]
    return out


class _Values(NamedTuple):
    """Data to which a trend is fitted."""

    z: np.ndarray  # (n, d)
    y: np.ndarray  # (n,)
    weights: np.ndarray  # (n,)


def _of_coefficients(solution: np.ndarray, values: _Values) -> Trend:
    """The Gaussian trend with these coefficients of z_i and z_i z_j (p - 1,), beside those of a standard normal."""
    d = values.z.shape[1]
    return _completed(np.eye(d) - 2.0 * symmetric(solution[d:], d), solution[:d], values)


def _completed(precision: np.ndarray, linear: np.ndarray, values: _Values) -> Trend:
    """The Gaussian trend of constant + linear·z - zᵀ precision z / 2, its square completed."""
    cautious = _bounded(precision, linear, values, flattest=FLATTEST)
    if linalg.eigvalsh(precision)[0] >= FLATTEST:
        return cautious
    literal = _bounded(precision, linear, values, flattest=_FLATTEST_KNOWN)
    return literal if literal.residual_sd < _LITERAL * cautious.residual_sd else cautious


def _bounded(precision: np.ndarray, linear: np.ndarray, values: _Values, *, flattest: float) -> Trend:
    """The trend whose precision has its eigenvalues raised to ``flattest``."""
    precision = _raised(precision, flattest)
    location = linalg.solve(precision, linear, assume_a="pos")
    radius = np.linalg.norm(location)
    furthest = np.sqrt(np.max(np.einsum("ij,ij->i", values.z, values.z)))
    if radius > furthest:  # a flat direction throws the mode out of the data
        location *= furthest / radius
    return _with_residual(location, precision, values, dof=0.0)


def _with_residual(location: np.ndarray, precision: np.ndarray, values: _Values, *, dof: float) -> Trend:
    z, y, weights = values
    r = z - location
    residual = y + depth(np.einsum("ij,ij->i", r @ precision, r), dof, z.shape[1])
    constant = float(weights @ residual)
    return Trend(constant, location, precision, dof, float(np.sqrt(weights @ (residual - constant) ** 2)))


def _raised(precision: np.ndarray, flattest: float = FLATTEST) -> np.ndarray:
    eigenvalues, vectors = linalg.eigh(precision)
    return (vectors * np.maximum(eigenvalues, flattest)) @ vectors.T


def symmetric(upper: np.ndarray, d: int) -> np.ndarray:
    """The symmetric matrix (d, d) of a quadratic form with these coefficients of z_i z_j, i <= j."""
    matrix = np.zeros((d, d))
    matrix[np.triu_indices(d)] = 0.5 * upper
    return matrix + matrix.T


def _diagonal(d: int) -> np.ndarray:
    i, j = np.triu_indices(d)
    return np.flatnonzero(i == j)
