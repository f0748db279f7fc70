r"""Prior covariances of values and gradients: a quadratic, a bent function and a Matérn kernel.

In coordinates z, and with u = zM in a learned metric whose mean square tr(MMᵀ)/d is m², and with r
= √5 |u - u'|/l,

.. math:: k(z, z') = a^2 q(z, z') + c^2 (1 + \psi \cdot \psi' / s)^p
          + b^2 (1 + r + r^2/3) e^{-r}

.. math:: q(z, z') = 1 + 2 z \cdot z' / 3 + w (z \cdot z' / 3)^2
          + (1 - w) \sum_i (v_i v_i' / 3)^2

The first kernel spans all polynomials of degree two, v_i being z along the i-th parameter. Most of
the many products of two parameters are small in most models, and squares are not: products have the
prior variance w where squares have 1. (With w = 1, q = (1 + z·z'/3)², and a quadratic is known only
after as many values as it has coefficients.) The second kernel is for functions that are bent, in
one of two ways. Without scales ψ = u, p = 4 and s = 3m²: polynomials of
degree four, mostly in the directions that the metric stretches. With a scale e = exp(ρ·z) it spans
products of two of 1, z_i, e and e z_i (p = 2, s = 3): the logarithm of a scale is a coordinate of
most hierarchical models and of most models with an unknown noise, and their log-densities have
terms such as z_j²/e². Several scales have features each.

Derivatives of a Gaussian process are Gaussian, with covariances that are derivatives of the kernel
(Rasmussen and Williams 2006, section 9.4).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import linalg

from kmc.kernels.metric import squared_distances

SHRINK = 3.0
"""Divisor of z·z' in the polynomial kernels: typical posterior draws have |z|² of some units."""

LARGEST_LOG_SCALE = 6.0
"""Beyond it scales no longer change: so deep a value says no more."""

_MANY = 30.0  # times the precision of draws: such a curvature is not that of their density
_CURVATURES = 50  # most points at which second derivatives are taken
_DIFFERENCE = 1e-6  # standard deviations: step of their differences


@dataclass(frozen=True, eq=False)
class Coordinates:
    """The affine map z = (x - center) W, and the metric M."""

    center: np.ndarray  # (d,)
    whitening: np.ndarray  # (d, d), W
    metric: np.ndarray  # (d, d), M
    # of each: which coordinate of x, and the rate of its exponential
    scales: tuple[tuple[int, float], ...] = ()

    @cached_property
    def rates(self) -> np.ndarray:
        """The gradients along z of the logarithms of all scales, (k, d)."""
        rows = [rate * self.inverse[:, j] for j, rate in self.scales]
        return np.array(rows).reshape(len(rows), len(self.center))

    @cached_property
    def axes(self) -> np.ndarray:
        """Return the directions in z of the parameters, columns (d, d) of unit length."""
        return self.inverse / np.linalg.norm(self.inverse, axis=0)

    def map(self, x: np.ndarray) -> np.ndarray:
        """Return z at the rows of x (n, d)."""
        return (x - self.center) @ self.whitening

    @cached_property
    def inverse(self) -> np.ndarray:
        """The inverse of W, (d, d)."""
        return np.linalg.inv(self.whitening)

    def back(self, z: np.ndarray) -> np.ndarray:
        """Return x at the rows of z (n, d)."""
        return self.center + z @ self.inverse


def terms_of(dim: int) -> int:
    """Return the number of coefficients of a quadratic: 1 + d + d (d + 1) / 2."""
    return (dim + 1) * (dim + 2) // 2


def scaled_coordinates(points: np.ndarray) -> Coordinates:
    """Return coordinates in units of the standard deviations of points (n, d)."""
    scale = points.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    return Coordinates(points.mean(axis=0), np.diag(1.0 / scale), np.eye(points.shape[1]))


def whitened_coordinates(points: np.ndarray) -> Coordinates:
    """Return coordinates in which points (n, d) are white."""
    dim = points.shape[1]
    variances = points.var(axis=0)
    covariance = np.cov(points.T).reshape(dim, dim) + 1e-9 * np.diag(
        np.where(variances > 0, variances, 1.0)
    )
    root = np.linalg.cholesky(covariance)
    return Coordinates(points.mean(axis=0), np.linalg.inv(root).T, np.eye(dim))


def whitened_again(draws: np.ndarray, old: Coordinates) -> Coordinates:
    """Return coordinates in which draws (n, d) are white.

    Of draws that are stuck, the old coordinates know more: they count as d draws.
    """
    distinct = np.unique(draws, axis=0)
    dim = distinct.shape[1]
    scatter = (
        np.cov(distinct.T).reshape(dim, dim) * len(distinct)
        if len(distinct) > 1
        else np.zeros((dim, dim))
    )
    root = np.linalg.cholesky((scatter + dim * old.inverse.T @ old.inverse) / (len(distinct) + dim))
    return Coordinates(distinct.mean(axis=0), np.linalg.inv(root).T, np.eye(dim))


def narrowed(
    white: Coordinates, gradients: Callable[[np.ndarray], np.ndarray], draws: np.ndarray
) -> Coordinates:
    """Return narrower coordinates where draws of a log-density cannot have come from it.

    The mean curvature at draws (n, d) of a density is its precision if it is normal, and not many
    times as much otherwise. Chains that have not yet come down to a posterior are far apart in
    units of what they would find. ``gradients`` are those along the coordinates z (n, d) of
    ``white``.
    """
    curvatures, axes = np.linalg.eigh(mean_curvature(gradients, white.map(draws)))
    scale = np.sqrt(np.maximum(curvatures / _MANY, 1.0))
    return Coordinates(white.center, white.whitening @ axes * scale, np.eye(len(scale)))


def metric_of(slopes: np.ndarray) -> np.ndarray:
    """Return a metric (d, d) that stretches z where a function has steep slopes (n, d).

    It stretches as the root mean square of the slopes, relative to the geometric mean of all
    directions.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.surrogate.covariance import metric_of
    >>> metric_of(np.array([[4.0, 0.0], [0.0, 1.0]]))
    array([[2. , 0. ],
           [0. , 0.5]])
    """
    squares, vectors = np.linalg.eigh(slopes.T @ slopes / len(slopes))
    if squares[-1] <= 1e-8:
        return np.eye(len(squares))
    stretch = np.sqrt(np.maximum(squares, 1e-3 * squares[-1]))
    stretch /= np.exp(np.log(stretch).mean())
    return (vectors * np.clip(stretch, 0.1, 10.0)) @ vectors.T


def mean_curvature(gradients: Callable[[np.ndarray], np.ndarray], z: np.ndarray) -> np.ndarray:
    """Return the mean (d, d) of a function's negative second derivatives at some of z (n, d).

    They are differences of gradients, at the half of the points where it is less curved: not at the
    few in a funnel's neck.
    """
    some = np.unique(z, axis=0)
    some = some[:: len(some) // _CURVATURES + 1]
    dim = z.shape[1]
    ends = [
        gradients(np.repeat(some, dim, axis=0) + step * np.tile(np.eye(dim), (len(some), 1)))
        for step in (_DIFFERENCE, -_DIFFERENCE)
    ]
    each = (ends[1] - ends[0]).reshape(-1, dim, dim) / (2.0 * _DIFFERENCE)
    each = each[np.isfinite(each).all(axis=(1, 2))]
    if not len(each):
        return np.zeros((dim, dim))
    sizes = np.trace(each, axis1=1, axis2=2)
    found = each[sizes <= np.median(sizes)].mean(axis=0)
    return 0.5 * (found + found.T)


class Hyperparameters(NamedTuple):
    """Natural logarithms, in the units of y and of z."""

    quadratic: float  # a
    bent: float  # c
    matern: float  # b
    length: float  # l
    noise: float  # s
    products: float = -2.3  # w


class Places(NamedTuple):
    """Where a function is regarded: values at the first points, gradients at the others.

    All outputs are ordered so: n values, then d derivatives along z for each of the other points.
    """

    z: np.ndarray  # (n + k, d)
    metric: np.ndarray  # (d, d)
    rates: np.ndarray  # (k, d), of scales
    axes: np.ndarray  # (d, d), columns: directions of the parameters
    values: int  # n

    @classmethod
    def of(cls, z: np.ndarray, coordinates: Coordinates, values: int) -> Places:
        """Return the places of so many values, and gradients at the other rows of z (n + k, d)."""
        return cls(z, coordinates.metric, coordinates.rates, coordinates.axes, values)

    @property
    def u(self) -> np.ndarray:
        """The points in the metric."""
        return self.z @ self.metric

    @property
    def degree(self) -> int:
        """The power p of the bent kernel."""
        return 2 if len(self.rates) else 4

    @property
    def spread(self) -> float:
        """Divisor s of ψ·ψ' in the bent kernel."""
        return (
            SHRINK if len(self.rates) else SHRINK * float(np.mean(np.sum(self.metric**2, axis=0)))
        )

    @property
    def features(self) -> np.ndarray:
        """ψ at all points, (n + k, p): u, or z and then e and e z for each scale."""
        if not len(self.rates):
            return self.u
        scales = [scale[:, None] for scale in self._scales().T]
        return np.hstack([self.z, *(part for scale in scales for part in (scale, scale * self.z))])

    def jacobians(self) -> np.ndarray:
        """Return derivatives of ψ along z at the points of gradients, (k, p, d)."""
        z = self.z[self.values :]
        k, dim = z.shape
        if not len(self.rates):
            return np.broadcast_to(self.metric.T, (k, dim, dim))
        blocks = [np.broadcast_to(np.eye(dim), (k, dim, dim))]
        scales, slopes = self._scales()[self.values :], self._slopes()[self.values :]
        for i, rate in enumerate(self.rates):
            rise = slopes[:, i, None] * rate
            blocks += [
                rise[:, None, :],
                z[:, :, None] * rise[:, None, :] + scales[:, i, None, None] * np.eye(dim),
            ]
        return np.concatenate(blocks, axis=1)

    def _scales(self):
        return np.exp(np.clip(self.z @ self.rates.T, -LARGEST_LOG_SCALE, LARGEST_LOG_SCALE))

    def _slopes(self):
        """Return the scales where they change, and zero where they are cut off."""
        logs = self.z @ self.rates.T
        return np.where(np.abs(logs) < LARGEST_LOG_SCALE, np.exp(np.clip(logs, -1e2, 1e2)), 0.0)

    @property
    def size(self) -> int:
        """The number of outputs, n + k d."""
        return self.values + (len(self.z) - self.values) * self.z.shape[1]


def values_at(z: np.ndarray, coordinates: Coordinates) -> Places:
    """Return the places of values at the rows of z (n, d)."""
    return Places.of(z, coordinates, len(z))


def gradients_at(z: np.ndarray, coordinates: Coordinates) -> Places:
    """Return the places of gradients at the rows of z (n, d)."""
    return Places.of(z, coordinates, 0)


def distances_between(a: Places, b: Places) -> np.ndarray:
    """Return |u - u'|² between all points of both."""
    return squared_distances(a.u, b.u)


def quadratic_covariance(a: Places, b: Places) -> tuple[np.ndarray, np.ndarray]:
    """Return two parts of q at w: the first one, and what w times is added to it.

    With t = z·z'/3 and p_i = v_i v_i'/3 they are 1 + 2t + Σ p_i² and t² - Σ p_i², each of shape
    (a.size, b.size). The derivatives of v along z are the axes A. So ∂t²/∂z'_j = 2 t z_j/3,
    ∂²t²/∂z_i∂z'_j = 2 (z'_i z_j/9 + t δ_ij/3), and ∂p_k²/∂z'_j = 2 p_k v_k A_jk/3,
    ∂²p_k²/∂z_i∂z'_j = 4 p_k A_ik A_jk/3.
    """
    t, own, other = a.z @ b.z.T / SHRINK, a.z @ a.axes, b.z @ a.axes
    n, m, dim = a.values, b.values, a.z.shape[1]
    linear = 1.0 + 2.0 * t[:n, :m]
    squares = (own[:n] / SHRINK) ** 2 @ (other[:m] ** 2).T
    products = t[:n, :m] ** 2
    if n == len(a.z) and m == len(b.z):
        return linear + squares, products - squares
    eye = np.broadcast_to(np.eye(dim), (len(a.z) - n, len(b.z) - m, dim, dim))
    left, right = b.z[None, :m, :], a.z[:n, None, :]
    scale = 2.0 / SHRINK
    linear = _joined(
        linear,
        np.broadcast_to(scale * right, (n, len(b.z) - m, dim)),
        np.broadcast_to(scale * left, (len(a.z) - n, m, dim)),
        scale * eye,
    )
    products = _joined(
        products,
        scale * t[:n, m:, None] * right,
        scale * t[n:, :m, None] * left,
        scale / SHRINK * a.z[n:, None, None, :] * b.z[None, m:, :, None]
        + scale * t[n:, m:, None, None] * eye,
    )
    scale /= SHRINK
    each = own[n:, None, None] * other[None, m:, None] * a.axes
    squares = _joined(
        squares,
        scale * (own[:n, None] ** 2 * other[None, m:]) @ a.axes.T,
        scale * (own[n:, None] * other[None, :m] ** 2) @ a.axes.T,
        2.0 * scale * each @ a.axes.T,
    )
    return linear + squares, products - squares


def of_squares(weights: np.ndarray, axes: np.ndarray) -> np.ndarray:
    """Return matrices Q (d, d, r) with zᵀQz the sum of weights (d, r) times v²."""
    return np.einsum("il,lr,jl->ijr", axes, weights, axes)


def bent_covariance(a: Places, b: Places) -> np.ndarray:
    """Return the covariances by t^p, t = 1 + ψ·ψ'/s, shape (a.size, b.size).

    With the derivatives J of ψ along z, ∂t^p/∂z' = p t^(p-1) J'ᵀψ/s and ∂²t^p/∂z∂z' = p (p - 1)
    t^(p-2) Jᵀψ' (J'ᵀψ)ᵀ/s²
    + p t^(p-1) JᵀJ'/s.
    """
    s, degree = a.spread, a.degree
    of_a, of_b = a.features, b.features
    t = 1.0 + of_a @ of_b.T / s
    n, m = a.values, b.values
    values = t[:n, :m] ** degree
    if n == len(a.z) and m == len(b.z):
        return values
    slopes_a, slopes_b = a.jacobians(), b.jacobians()
    first = degree * t ** (degree - 1) / s
    along_b = np.einsum("np,lpj->nlj", of_a, slopes_b)  # J'ᵀψ
    along_a = np.einsum("mp,kpi->kmi", of_b, slopes_a)  # Jᵀψ'
    right = first[:n, m:, None] * along_b[:n]
    left = first[n:, :m, None] * along_a[:, :m]
    second = degree * (degree - 1) * t[n:, m:, None, None] ** (degree - 2) / s**2
    both = second * along_a[:, m:, :, None] * along_b[n:, :, None, :]
    both = both + first[n:, m:, None, None] * np.einsum("kpi,lpj->klij", slopes_a, slopes_b)
    return _joined(values, right, left, both)


def matern_covariance(
    a: Places, b: Places, length: float, distances: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the covariances by k = (1 + r + r²/3) exp(-r), and their derivatives in log l.

    Here r = √5 |u - u'|/l. With q = (u - u')Mᵀ/l², f = 5 (1 + r) exp(-r)/3 and g = 25 exp(-r)/3,
    the gradient in z' is fq, that in z is -fq, and the mixed one is f MMᵀ/l² - g qqᵀ.

    Parameters
    ----------
    a, b : Places
    length : float
        l.
    distances : ndarray
        As returned by :func:`distances_between`.
    """
    n, m = a.values, b.values
    r = np.sqrt(5.0 * distances) / length
    decay = np.exp(-r)
    values = ((1.0 + r + r**2 / 3.0) * decay)[:n, :m]
    by_length = (r**2 * (1.0 + r) / 3.0 * decay)[:n, :m]
    if n == len(a.z) and m == len(b.z):
        return values, by_length
    f, g = 5.0 / 3.0 * (1.0 + r) * decay, 25.0 / 3.0 * decay
    f_by_length, g_by_length = 5.0 / 3.0 * r**2 * decay - 2.0 * f, (r - 4.0) * g
    q = (a.u[:, None, :] - b.u[None, :, :]) @ a.metric.T / length**2
    # Rows of one axis of a's points and columns of one of b's: i belongs to a and j to b.
    inverse = a.metric @ a.metric.T / length**2
    outer = q[n:, m:, :, None] * q[n:, m:, None, :]

    def joined(values, f, g):
        fq = f[:, :, None] * q
        mixed = f[n:, m:, None, None] * inverse - g[n:, m:, None, None] * outer
        return _joined(values, fq[:n, m:], -fq[n:, :m], mixed)

    return joined(values, f, g), joined(by_length, f_by_length, g_by_length)


def covariance(theta: Hyperparameters, a: Places, b: Places) -> np.ndarray:
    """Return the prior covariances, shape (a.size, b.size)."""
    matern, _ = matern_covariance(a, b, np.exp(theta.length), distances_between(a, b))
    quadratic, products = quadratic_covariance(a, b)
    return (
        np.exp(2.0 * theta.quadratic) * (quadratic + np.exp(theta.products) * products)
        + np.exp(2.0 * theta.bent) * bent_covariance(a, b)
        + np.exp(2.0 * theta.matern) * matern
    )


def variances(theta: Hyperparameters, a: Places) -> np.ndarray:
    """Return the diagonal of :func:`covariance` of places with themselves."""
    matern, _ = matern_variances(a, np.exp(theta.length))
    quadratic, products = quadratic_variances(a)
    return (
        np.exp(2.0 * theta.quadratic) * (quadratic + np.exp(theta.products) * products)
        + np.exp(2.0 * theta.bent) * bent_variances(a)
        + np.exp(2.0 * theta.matern) * matern
    )


def quadratic_variances(a: Places) -> tuple[np.ndarray, np.ndarray]:
    """Return the diagonals of :func:`quadratic_covariance` of places with themselves."""
    t, own = np.einsum("ij,ij->i", a.z, a.z) / SHRINK, a.z @ a.axes
    n, dim, scale = a.values, a.z.shape[1], 2.0 / SHRINK
    along_linear = np.full((len(a.z) - n) * dim, scale)
    along_products = scale / SHRINK * a.z[n:] ** 2 + scale * t[n:, None]
    along_squares = 2.0 * scale / SHRINK * own[n:] ** 2 @ (a.axes**2).T
    linear = np.concatenate([1.0 + 2.0 * t[:n], along_linear])
    products = np.concatenate([t[:n] ** 2, along_products.ravel()])
    squares = np.concatenate([np.sum(own[:n] ** 4, axis=1) / SHRINK**2, along_squares.ravel()])
    return linear + squares, products - squares


def bent_variances(a: Places) -> np.ndarray:
    """Return the diagonal of :func:`bent_covariance` of places with themselves."""
    n, s, degree, features = a.values, a.spread, a.degree, a.features
    t = 1.0 + np.einsum("ij,ij->i", features, features) / s
    jacobians, after = a.jacobians(), t[n:, None]
    along = np.einsum("kp,kpi->ki", features[n:], jacobians)
    slopes = degree * (degree - 1) * after ** (degree - 2) * along**2 / s**2
    slopes = slopes + degree * after ** (degree - 1) * np.sum(jacobians**2, axis=1) / s
    return np.concatenate([t[:n] ** degree, slopes.ravel()])


def matern_variances(a: Places, length: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the diagonals of :func:`matern_covariance` of places with themselves."""
    inverse = 5.0 / 3.0 * np.einsum("ij,ij->i", a.metric, a.metric) / length**2
    slopes = np.tile(inverse, len(a.z) - a.values)
    zeros = np.zeros(a.values)
    return np.append(np.ones(a.values), slopes), np.append(zeros, -2.0 * slopes)


def factorized(covariance: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Return the lower Cholesky factor of the covariance (n, n) plus noise variances (n,).

    Rounding errors are relative to the diagonal, and so is what is added to it: 1e-11, or what is
    needed.
    """
    diagonal = np.diag(covariance).copy()
    for jitter in 1e-11, 1e-9, 1e-7, 1e-5:
        total = covariance.copy()
        total[np.diag_indices(len(total))] += noise + jitter * diagonal
        lower, info = linalg.lapack.dpotrf(total, lower=1, clean=1, overwrite_a=1)
        if info == 0:
            return lower
    raise linalg.LinAlgError(
        "the covariance matrix of the regression is not finite: rescale the values"
    )


def inverted(lower: np.ndarray) -> np.ndarray:
    """Return the inverse of the matrix with this lower Cholesky factor."""
    inverse, _ = linalg.lapack.dpotri(lower, lower=1)
    inverse += np.tril(inverse, -1).T
    return inverse


def _joined(values, right, left, both):
    """Join blocks (n, m), (n, l, d), (k, m, d) and (k, l, d, d) into one matrix."""
    n, m = values.shape
    k, many, dim, _ = both.shape
    out = np.empty((n + k * dim, m + many * dim))
    out[:n, :m] = values
    out[:n, m:] = right.reshape(n, many * dim)
    out[n:, :m] = left.transpose(0, 2, 1).reshape(k * dim, m)
    out[n:, m:] = both.transpose(0, 2, 1, 3).reshape(k * dim, many * dim)
    return out
