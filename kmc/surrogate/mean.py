"""Posterior means: a polynomial of degree two and sums of kernels around points, with gradients."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kmc.kernels.metric import squared_distances
from kmc.surrogate.covariance import Coordinates, Places, gradients_at, values_at


class Mean(NamedTuple):
    """A posterior mean: constant + b·z + z'Qz + Σ_j w_j k(z, z_j) + Σ_j v_j·∂k(z, z_j)/∂z_j.

    k is the sum of the Matérn and the bent kernel. The last axis of each array is the output.
    """

    constant: np.ndarray  # (outputs,)
    linear: np.ndarray  # (d, outputs)
    quadratic: np.ndarray  # (d, d, outputs)
    places: Places  # z_j: of the weights, then of the slopes
    weights: np.ndarray  # (m, outputs)
    slopes: np.ndarray  # (k, d, outputs)
    length: float
    matern: float  # b²
    bent: float  # c²


def mean_values(mean: Mean, coordinates: Coordinates, x: np.ndarray) -> np.ndarray:
    """Return a mean at the rows of x, shape (n, outputs)."""
    places = values_at(coordinates.map(x), coordinates)
    polynomial = polynomial_at(places, mean.linear, mean.quadratic)
    return mean.constant + polynomial + bump_values(mean, places.z)


def mean_gradients(mean: Mean, coordinates: Coordinates, x: np.ndarray) -> np.ndarray:
    """Return gradients of a mean along x, shape (n, d, outputs)."""
    places = gradients_at(coordinates.map(x), coordinates)
    along_z = polynomial_at(places, mean.linear, mean.quadratic).reshape(*x.shape, -1)
    return np.einsum("ij,njr->nir", coordinates.whitening, along_z) + bump_gradients(
        mean, coordinates, x
    )


def bump_gradients(mean: Mean, coordinates: Coordinates, x: np.ndarray) -> np.ndarray:
    """Return gradients of the bumps alone along x, shape (n, d, outputs)."""
    return np.einsum("ij,njr->nir", coordinates.whitening, _bumps(mean, coordinates.map(x))[1])


def bump_values(mean: Mean, z: np.ndarray) -> np.ndarray:
    """Return the bumps alone at the rows of z, shape (n, outputs)."""
    return _bumps(mean, z)[0]


def polynomial_at(places: Places, linear: np.ndarray, quadratic: np.ndarray) -> np.ndarray:
    """Return b·z + z'Qz and its gradients at places, shape (places.size, outputs)."""
    z, slope_z = places.z[: places.values], places.z[places.values :]
    dim, outputs = linear.shape
    along = (z @ quadratic.reshape(dim, -1)).reshape(-1, dim, outputs)
    values = z @ linear + np.sum(z[:, :, None] * along, axis=1)
    gradients = linear + 2.0 * np.einsum("ki,ijr->kjr", slope_z, quadratic)
    return np.vstack([values, gradients.reshape(-1, values.shape[1])])


def _bumps(mean, z):
    """Return the sum (n, outputs) of the kernels and its gradients (n, d, outputs) along z."""
    at = mean.places._replace(z=z, values=0)
    values, along_u = _radial_sum(mean, at.u)
    more, along_features = _bent_sum(mean, at.features)
    gradients = np.einsum("ij,njr->nir", at.metric, along_u)
    return values + more, gradients + np.einsum("npi,npr->nir", at.jacobians(), along_features)


def _radial_sum(mean, u):
    """Return the sum of the Matérn kernels at u (n, d), and its gradients along u."""
    m = mean.places.values
    centers, ends = mean.places.u[:m], mean.places.u[m:]
    k, f, _ = _radial(mean, u, centers)
    values = k @ mean.weights
    moments = (centers[:, :, None] * mean.weights[:, None, :]).reshape(m, -1)
    gradients = (f @ moments).reshape(*u.shape, mean.weights.shape[1]) - u[:, :, None] * (
        f @ mean.weights
    )[:, None, :]
    if not len(ends):
        return values, gradients
    # Derivatives of the kernels: f (v·r) with the gradient f v - g (v·r) r, r = u - u_j.
    _, f, g = _radial(mean, u, ends)
    slopes = np.einsum("kir,ij->kjr", mean.slopes, mean.places.metric)
    r = u[:, None, :] - ends[None, :, :]
    along = np.einsum("nmi,mir->nmr", r, slopes)
    gradients += np.einsum("nm,mir->nir", f, slopes) - np.einsum("nm,nmr,nmi->nir", g, along, r)
    return values + np.einsum("nm,nmr->nr", f, along), gradients


def _bent_sum(mean, features):
    """Return the sum of the bent kernels at ψ (n, p), and its gradients along ψ."""
    m, s, degree = mean.places.values, mean.places.spread, mean.places.degree
    known = mean.places.features
    centers, ends = known[:m], known[m:]
    t = 1.0 + features @ centers.T / s
    values = mean.bent * t**degree @ mean.weights
    moments = (centers[:, :, None] * mean.weights[:, None, :]).reshape(m, -1)
    first = mean.bent * degree / s
    gradients = (first * t ** (degree - 1) @ moments).reshape(
        *features.shape, mean.weights.shape[1]
    )
    if not len(ends):
        return values, gradients
    # Derivatives along ends: p t^(p-1) (ψ·w)/s with the gradient p t^(p-1) w/s + p (p-1) t^(p-2)
    # (ψ·w) ψ_j/s², w = Jv.
    t = 1.0 + features @ ends.T / s
    slopes = np.einsum("kpi,kir->kpr", mean.places.jacobians(), mean.slopes)
    along = np.einsum("np,mpr->nmr", features, slopes)
    gradients += first * np.einsum("nm,mpr->npr", t ** (degree - 1), slopes)
    gradients += (
        first * (degree - 1) / s * np.einsum("nm,nmr,mp->npr", t ** (degree - 2), along, ends)
    )
    return values + first * np.einsum("nm,nmr->nr", t ** (degree - 1), along), gradients


def _radial(mean, u, centers):
    """Return b² times the Matérn kernel k, f and g.

    The gradient of k along u is -f (u - u_j), and that of f is -g (u - u_j).
    """
    r = np.sqrt(5.0 * squared_distances(u, centers)) / mean.length
    decay = mean.matern * np.exp(-r)
    f = 5.0 / 3.0 / mean.length**2 * (1.0 + r) * decay
    return (1.0 + r + r**2 / 3.0) * decay, f, 25.0 / 3.0 / mean.length**4 * decay
