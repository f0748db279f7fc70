"""The parametric part of the surrogate: a quadratic depth, Gaussian or Student-t, fitted to log-density values."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg

from kmc.linalg import ridge_path

DOFS = (1.0, 2.0, 4.0, 8.0)
FLATTEST = 0.02  # least eigenvalue of the precision, in whitened coordinates: the trend must fall in every direction
_FLATTEST_KNOWN = 1e-5  # the same where the values are quadratic beyond doubt and only the whitening is off


class Trend(NamedTuple):
    """t(z) = constant - depth(q), q = (z - location)ᵀ precision (z - location); see :class:`SurrogateJitState`."""

    constant: float
    location: np.ndarray
    precision: np.ndarray
    dof: float
    residual_sd: float  # weighted root mean square of y - t at the points of the fit


def fit_trend(z: np.ndarray, y: np.ndarray, weights: np.ndarray) -> Trend:
    """The Gaussian trend, or a Student-t one where the values say clearly that the tails are heavy.

    Parameters
    ----------
    z : ndarray, shape (n, d)
        Whitened points.
    y : ndarray, shape (n,)
        Log-density.
    weights : ndarray, shape (n,)
        Summing to one.
    """
    gaussian = fit_gaussian(z, y, weights)
    if gaussian.residual_sd < 0.1 or len(z) < 2 * quadratic_features(z[:1]).shape[1]:
        return gaussian
    student = min((fit_student(z, y, weights, dof) for dof in DOFS), key=lambda t: t.residual_sd)
    heavy = student.residual_sd < min(0.65 * gaussian.residual_sd, 0.5)
    return student if heavy else gaussian


def fit_gaussian(z: np.ndarray, y: np.ndarray, weights: np.ndarray) -> Trend:
    """Least squares on the quadratics, shrunk towards the standard normal by a ridge chosen by leave-one-out."""
    d = z.shape[1]
    features = quadratic_features(z)[:, 1:]
    target = y + 0.5 * np.einsum("ij,ij->i", z, z)
    features, target = features - weights @ features, target - weights @ target
    path = ridge_path((weights[:, None] * features).T @ features, (weights * target) @ features)
    grid = np.logspace(-8, 2, 21)
    loo = weights @ path.leave_one_out(features, target, weights, grid) ** 2
    best = float(grid[np.argmin(loo)])
    exact = _exact(path, features, target, weights)
    solution = path.coefficients(best if exact is None else exact)
    linear, quadratic = solution[:d], _symmetric(solution[d:], d)
    return _completed(np.eye(d) - 2.0 * quadratic, linear, 0.0, z, y, weights)


def _exact(path, features, target, weights):
    """The best ridge where the values are a quadratic beyond doubt; None where they are not.

    Leave-one-out says nothing of points that determine a direction alone, and in many dimensions most of the first
    points do. Generalized cross-validation, RSS / (1 - tr H / n)², does, given some values beyond those that it takes
    to determine a quadratic.
    """
    grid = np.logspace(-14, 2, 33)
    n = 1.0 / np.sum(weights**2)
    spare = n - 1.0 - np.sum(path.eigenvalues[:, None] / (path.eigenvalues[:, None] + grid), axis=0)
    residuals = target[:, None] - features @ np.stack([path.coefficients(float(r)) for r in grid], axis=1)
    error = np.sqrt(weights @ residuals**2) / np.maximum(spare / n, 1e-300)
    error[spare < max(0.05 * n, 5.0)] = np.inf
    best = int(np.argmin(error))
    return float(grid[best]) if error[best] < 1e-3 * np.sqrt(weights @ target**2) else None


def fit_student(z: np.ndarray, y: np.ndarray, weights: np.ndarray, dof: float, iterations: int = 20) -> Trend:
    """Damped Gauss–Newton on y = c - (ν + d)/2 log(1 + q/ν) over c and the coefficients of the quadratic q."""
    d = z.shape[1]
    features = quadratic_features(z)
    theta = np.zeros(features.shape[1])
    theta[1 + d :][_diagonal(d)] = 1.0  # q = |z|²
    half = 0.5 * (dof + d)
    root = np.sqrt(weights)
    damping = 1e-3

    def model(theta):
        q = np.maximum(features @ theta, 0.0)
        shape = -half * np.log1p(q / dof)
        constant = weights @ (y - shape)
        return q, y - constant - shape

    q, residual = model(theta)
    loss = weights @ residual**2
    for _ in range(iterations):
        slope = np.where(q > 0, 1.0, 0.1) * -half / (dof + q)  # where q is clipped, just enough to come back
        jacobian = slope[:, None] * features
        jacobian = root[:, None] * (jacobian - weights @ jacobian)
        normal = jacobian.T @ jacobian
        scale = np.sqrt(np.diag(normal) + 1e-8 * np.trace(normal))
        if not np.all(scale > 0):  # the depths are so large that nothing changes them
            break
        scaled = normal / np.outer(scale, scale) + damping * np.eye(len(theta))
        downhill = jacobian.T @ (root * residual) / scale
        step = linalg.solve(scaled, downhill, assume_a="pos", check_finite=False) / scale
        trial_q, trial_residual = model(theta + step)
        trial_loss = weights @ trial_residual**2
        if trial_loss < loss:
            converged = trial_loss > 0.999 * loss
            theta, q, residual, loss = theta + step, trial_q, trial_residual, trial_loss
            damping = max(0.2 * damping, 1e-9)
            if converged:
                break
        else:
            damping *= 10.0
    precision = _symmetric(theta[1 + d :], d)
    precision = _raised(precision)
    location = -0.5 * linalg.solve(precision, theta[1 : 1 + d], assume_a="pos")
    # q must vanish at its minimum: fold its constant into the scale, (1 + (q + e)/ν) = (1 + e/ν)(1 + q/(ν + e))
    excess = max(theta[0] - location @ precision @ location, -0.5 * dof)
    return _with_residual(location, precision / (1.0 + excess / dof), dof, z, y, weights)


def depth(q: np.ndarray, dof: float, dim: int) -> np.ndarray:
    """Depth of the trend at values of its quadratic form, without the cap."""
    return 0.5 * (dof + dim) * np.log1p(q / dof) if dof > 0 else 0.5 * q


def quadratic_features(z: np.ndarray) -> np.ndarray:
    """(n, 1 + d + d(d+1)/2): 1, z_i and z_i z_j, i <= j."""
    i, j = np.triu_indices(z.shape[1])
    return np.hstack([np.ones((len(z), 1)), z, z[:, i] * z[:, j]])


def _completed(precision, linear, dof, z, y, weights):
    """Complete the square of constant + linear·z - zᵀ precision z / 2."""
    cautious = _bounded(precision, linear, dof, z, y, weights, FLATTEST)
    if linalg.eigvalsh(precision)[0] >= FLATTEST:
        return cautious
    literal = _bounded(precision, linear, dof, z, y, weights, _FLATTEST_KNOWN)
    return literal if literal.residual_sd < 0.5 * cautious.residual_sd else cautious


def _bounded(precision, linear, dof, z, y, weights, flattest):
    """The trend whose precision has its eigenvalues raised to ``flattest``."""
    precision = _raised(precision, flattest)
    location = linalg.solve(precision, linear, assume_a="pos")
    radius = np.linalg.norm(location)
    furthest = np.sqrt(np.max(np.einsum("ij,ij->i", z, z)))
    if radius > furthest:  # a flat direction throws the mode out of the data
        location *= furthest / radius
    return _with_residual(location, precision, dof, z, y, weights)


def _with_residual(location, precision, dof, z, y, weights):
    r = z - location
    residual = y + depth(np.einsum("ij,ij->i", r @ precision, r), dof, z.shape[1])
    constant = float(weights @ residual)
    return Trend(constant, location, precision, dof, float(np.sqrt(weights @ (residual - constant) ** 2)))


def _raised(precision, flattest=FLATTEST):
    eigenvalues, vectors = linalg.eigh(precision)
    return (vectors * np.maximum(eigenvalues, flattest)) @ vectors.T


def _symmetric(upper, d):
    matrix = np.zeros((d, d))
    matrix[np.triu_indices(d)] = 0.5 * upper
    return matrix + matrix.T


def _diagonal(d):
    i, j = np.triu_indices(d)
    return np.flatnonzero(i == j)
