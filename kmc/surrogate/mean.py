"""Posterior means: a polynomial of degree two and sums of kernels around points, with gradients."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kmc.kernels.metric import squared_distances
from kmc.surrogate.covariance import Coordinates, Places, gradients_at, values_at


class Mean(NamedTuple):
    """A posterior mean: constant + b·z + z'Qz + Σ_j w_j k(u, u_j) + Σ_j v_j·∂k(u, u_j)/∂u_j.

    k is the sum of the Matérn and the quartic kernel. The last axis of each array is the output.
    """

    constant: np.ndarray  # (outputs,)
    linear: np.ndarray  # (d, outputs)
    quadratic: np.ndarray  # (d, d, outputs)
    centers: np.ndarray  # (m, d), u_j of the weights
    weights: np.ndarray  # (m, outputs)
    slope_centers: np.ndarray  # (k, d), u_j of the slopes
    slopes: np.ndarray  # (k, d, outputs)
    length: float
    matern: float  # b²
    quartic: float  # c²
    spread: float  # 3 m²


def mean_values(mean: Mean, coordinates: Coordinates, x: np.ndarray) -> np.ndarray:
    """Return a mean at the rows of x, shape (n, outputs)."""
    places = values_at(coordinates.map(x), coordinates.metric)
    polynomial = polynomial_at(places, mean.linear, mean.quadratic)
    return mean.constant + polynomial + _bumps(mean, places.u)[0]


def mean_gradients(mean: Mean, coordinates: Coordinates, x: np.ndarray) -> np.ndarray:
    """Return its gradients along x, shape (n, d, outputs)."""
    places = gradients_at(coordinates.map(x), coordinates.metric)
    along_z = polynomial_at(places, mean.linear, mean.quadratic).reshape(*x.shape, -1)
    return np.einsum("ij,njr->nir", coordinates.whitening, along_z) + bump_gradients(mean, coordinates, x)


def bump_gradients(mean: Mean, coordinates: Coordinates, x: np.ndarray) -> np.ndarray:
    """Return gradients of the bumps alone along x, shape (n, d, outputs)."""
    u = coordinates.map(x) @ coordinates.metric
    matrix = coordinates.whitening @ coordinates.metric
    return np.einsum("ij,njr->nir", matrix, _bumps(mean, u)[1])


def polynomial_at(places: Places, linear: np.ndarray, quadratic: np.ndarray) -> np.ndarray:
    """Return b·z + z'Qz and its gradients at places, shape (places.size, outputs)."""
    z, slope_z = places.z[: places.values], places.z[places.values :]
    dim, outputs = linear.shape
    along = (z @ quadratic.reshape(dim, -1)).reshape(-1, dim, outputs)
    values = z @ linear + np.sum(z[:, :, None] * along, axis=1)
    gradients = linear + 2.0 * np.einsum("ki,ijr->kjr", slope_z, quadratic)
    return np.vstack([values, gradients.reshape(-1, values.shape[1])])


def _bumps(mean, u):
    """Return the sum of the kernels and its gradients along u, shapes (n, outputs) and (n, d,
    outputs).
    """
    k, f, _ = _radial(mean, u, mean.centers)
    values = k @ mean.weights
    t = 1.0 + u @ mean.centers.T / mean.spread
    values = values + mean.quartic * t**4 @ mean.weights
    moments = (mean.centers[:, :, None] * mean.weights[:, None, :]).reshape(len(mean.centers), -1)
    toward = (f + 4.0 * mean.quartic / mean.spread * t**3) @ moments
    gradients = toward.reshape(*u.shape, -1) - u[:, :, None] * (f @ mean.weights)[:, None, :]
    if len(mean.slope_centers) == 0:
        return values, gradients

    # Derivatives of the kernels: f (v·r) with the gradient f v - g (v·r) r, r = u - u_j ...
    _, f, g = _radial(mean, u, mean.slope_centers)
    r = u[:, None, :] - mean.slope_centers[None, :, :]
    along_r = np.einsum("nmi,mir->nmr", r, mean.slopes)
    rising = f[:, :, None] * along_r
    gradients += np.einsum("nm,mir->nir", f, mean.slopes)
    gradients -= np.einsum("nm,nmr,nmi->nir", g, along_r, r)
    # ... and 4 t³ (v·u)/s with the gradient 4 t³ v/s + 12 t² (v·u) u_j/s².
    t = 1.0 + u @ mean.slope_centers.T / mean.spread
    along = mean.quartic / mean.spread * np.einsum("ni,mir->nmr", u, mean.slopes)
    gradients += 4.0 * mean.quartic / mean.spread * np.einsum("nm,mir->nir", t**3, mean.slopes)
    gradients += 12.0 / mean.spread * np.einsum("nm,nmr,mi->nir", t**2, along, mean.slope_centers)
    rising = rising + 4.0 * t[:, :, None] ** 3 * along
    return values + rising.sum(axis=1), gradients


def _radial(mean, u, centers):
    """Return b² times the Matérn kernel k, f and g.

    The gradient of k along u is -f (u - u_j), and that of f is -g (u - u_j).
    """
    r = np.sqrt(5.0 * squared_distances(u, centers)) / mean.length
    decay = mean.matern * np.exp(-r)
    f = 5.0 / 3.0 / mean.length**2 * (1.0 + r) * decay
    return (1.0 + r + r**2 / 3.0) * decay, f, 25.0 / 3.0 / mean.length**4 * decay
