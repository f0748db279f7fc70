"""Quadratics of z: their coefficients, and a Student-t whose quadratic form is fitted to log-densities."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg

_FLATTEST = 0.02  # smallest eigenvalue of the precision, in whitened coordinates; set by hand, as the others
_ITERATIONS = 20  # of Gauss-Newton
_DAMPING, _LEAST_DAMPING = 1e-3, 1e-9  # at first, and at least
_LESS, _MORE = 0.2, 10.0  # factors on the damping after a good step and a bad one
_CONVERGED = 0.999  # a step that leaves more of the loss is the last
_CLIPPED_SLOPE = 0.1  # factor on the slope where q is clipped: small, to recover
_LEAST_SHIFT = -0.5  # smallest constant of q, in degrees of freedom


def terms_of(dim: int) -> int:
    """Number of coefficients of a quadratic: 1 + d + d (d + 1) / 2."""
    return (dim + 1) * (dim + 2) // 2


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


class Student(NamedTuple):
    """A Student-t density, (1 + q/ν)^-(ν + d)/2 up to its norm, q = (z - location)ᵀ precision (z - location)."""

    location: np.ndarray  # (d,)
    precision: np.ndarray  # (d, d)


def fit_student(z: np.ndarray, y: np.ndarray, weights: np.ndarray, *, dof: float) -> Student:
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
    eigenvalues, vectors = linalg.eigh(symmetric(theta[1 + d :], d))
    precision = (vectors * np.maximum(eigenvalues, _FLATTEST)) @ vectors.T
    location = -0.5 * linalg.solve(precision, theta[1 : 1 + d], assume_a="pos")
    # q must vanish at its minimum: fold its constant into the scale, (1 + (q + e)/ν) = (1 + e/ν)(1 + q/(ν + e))
    excess = max(theta[0] - location @ precision @ location, _LEAST_SHIFT * dof)
    return Student(location, precision / (1.0 + excess / dof))


def symmetric(upper: np.ndarray, d: int) -> np.ndarray:
    """The symmetric matrix (d, d) of a quadratic form with these coefficients of z_i z_j, i <= j."""
    matrix = np.zeros((d, d))
    matrix[np.triu_indices(d)] = 0.5 * upper
    return matrix + matrix.T


def _diagonal(d: int) -> np.ndarray:
    i, j = np.triu_indices(d)
    return np.flatnonzero(i == j)
