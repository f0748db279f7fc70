r"""Gaussian-process regression of low rank, for many values.

The quadratic kernel is exact, by its (d + 1)(d + 2)/2 features. The sum E of the two others is
replaced by Q = C G⁻¹ Cᵀ, with C between places and landmarks and G among the landmarks, which
pivoted Cholesky chooses (:func:`kmc.landmarks.pivots`). So K = ΦΦᵀ + N with few columns of Φ and a
diagonal noise N, and

.. math:: K^{-1} = N^{-1} - N^{-1} \Phi A^{-1} \Phi^T N^{-1}, \quad A = I + \Phi^T N^{-1} \Phi.

The likelihood is the variational bound of Titsias (2009): half of Σ (E_ii - Q_ii) / N_i, which the
landmarks leave unexplained, is added to its negative logarithm. Given the values, E_ii - Q_ii is a
variance of independent noise (Snelson and Ghahramani 2006): with little noise of their own, the
landmarks would be bent to fit what they cannot.

References
----------
Snelson and Ghahramani (2006), Sparse Gaussian processes using pseudo-inputs, NeurIPS 18.

Titsias (2009), Variational learning of inducing variables in sparse Gaussian processes, AISTATS.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg

from kmc.kernels import Matern52
from kmc.landmarks import pivots
from kmc.surrogate.covariance import (
    SHRINK,
    Hyperparameters,
    Places,
    bent_covariance,
    bent_variances,
    distances_between,
    factorized,
    matern_covariance,
    matern_variances,
    of_squares,
)
from kmc.surrogate.mean import Mean, polynomial_at


class LowRank:
    """See :class:`kmc.surrogate.regression.Posterior`; O(n m²) for m features."""

    def __init__(
        self,
        places: Places,
        targets: np.ndarray,
        noise: np.ndarray,
        *,
        landmarks: int,
        length: float,
    ):
        self.places, self.targets, self.noise = places, targets, noise
        self.ones = (np.arange(places.size) < places.values).astype(float)
        chosen = pivots(Matern52(float(length)), places.u, landmarks)
        self.landmarks = places._replace(z=places.z[chosen], values=len(chosen))
        self.polynomials = quadratic_features(places)
        self.cross = Pairs.of(places, self.landmarks)
        self.inner = Pairs.of(self.landmarks, self.landmarks)

    def noise_variances(self, theta: Hyperparameters) -> np.ndarray:
        """Return s² + n²."""
        return np.exp(2.0 * theta.noise) + self.noise**2

    def negative_log_likelihood(self, theta: Hyperparameters) -> tuple[float, np.ndarray]:
        """See :class:`kmc.surrogate.regression.Posterior`."""
        at = _LowRankSolved(self, theta)
        outputs = self.targets.shape[1]
        noise, places = at.noise, self.places

        # The likelihood with the constant integrated out.
        precision = self.ones @ at.k1
        alpha = at.inverse_times(self.targets)
        alpha -= np.outer(at.k1, self.ones @ alpha) / precision
        log_determinant = 2.0 * np.log(np.diag(at.lower)).sum() + np.log(noise).sum()
        value = 0.5 * np.sum(self.targets * alpha)
        value += 0.5 * outputs * (log_determinant + np.log(precision))

        # What the landmarks do not explain.
        prior = section_variances(places, theta)
        left = prior.values - np.einsum("ij,ij->i", at.bumps, at.bumps)
        value += 0.5 * outputs * np.sum(left / noise)

        # D, twice the derivative with respect to K, times the features.
        def slope_times(columns):
            plain = at.inverse_times(columns) - np.outer(at.k1, at.k1 @ columns) / precision
            return outputs * plain - alpha @ (alpha.T @ columns)

        half = np.column_stack([at.polynomials, at.bumps])
        slope_half = slope_times(half)
        n_polynomials = at.polynomials.shape[1]
        by_column = np.einsum("ij,ij->j", half, slope_half)

        # Q = C B' with B = C G⁻¹, so dQ = dC B' + B dC' - B dG B'.
        blend = linalg.solve_triangular(at.root, at.bumps.T, lower=True, trans=1).T
        slope_blend = linalg.solve_triangular(
            at.root, slope_half[:, n_polynomials:].T, lower=True, trans=1
        ).T
        by_sections = []
        for cross, inner, of_prior in zip(
            at.cross.slopes, at.inner.slopes, prior.slopes, strict=True
        ):
            slope = np.vdot(cross, slope_blend) - 0.5 * np.vdot(inner, blend.T @ slope_blend)
            explained = 2.0 * np.einsum("ij,ij->i", cross, blend) - np.einsum(
                "ij,ij->i", blend @ inner, blend
            )
            by_sections.append(slope + 0.5 * outputs * np.sum((of_prior - explained) / noise))

        # The diagonal of D, for the noise.
        whitened = linalg.solve_triangular(at.lower, (half / noise[:, None]).T, lower=True)
        inverse_diagonal = 1.0 / noise - np.einsum("ij,ij->j", whitened, whitened)
        diagonal = outputs * (inverse_diagonal - at.k1**2 / precision)
        diagonal -= np.einsum("ij,ij->i", alpha, alpha) + outputs * left / noise**2
        dim, w = places.z.shape[1], np.exp(theta.products)
        by_products = by_column[1 + dim : n_polynomials - dim].sum()
        by_squares = by_column[n_polynomials - dim : n_polynomials].sum()
        gradient = [
            by_column[:n_polynomials].sum(),
            *by_sections,
            np.exp(2.0 * theta.noise) * diagonal.sum(),
            0.5 * (by_products - w / (1.0 - w) * by_squares),
        ]
        return float(value), np.array(gradient)

    def condition(self, theta: Hyperparameters) -> _LowRankSolved:
        """See :class:`kmc.surrogate.regression.Posterior`."""
        return _LowRankSolved(self, theta, independent=True)


class _LowRankSolved:
    """See :class:`kmc.surrogate.regression.Solved`.

    What the landmarks do not explain is ``independent`` noise of each value, or nothing.
    """

    def __init__(self, posterior: LowRank, theta: Hyperparameters, *, independent: bool = False):
        self.posterior, self.theta = posterior, theta
        self.cross, self.inner = posterior.cross.sections(theta), posterior.inner.sections(theta)
        self.noise = posterior.noise_variances(theta)

        # Φ: polynomials, and kernels around landmarks whitened by the factor of G.
        self.root = factorized(self.inner.values, np.zeros(len(self.inner.values)))
        self.bumps = _whitened(self.root, self.cross.values)
        if independent:
            left = section_variances(posterior.places, theta).values - np.einsum(
                "ij,ij->i", self.bumps, self.bumps
            )
            self.noise = self.noise + np.maximum(left, 0.0)
        self.polynomials = posterior.polynomials * polynomial_scales(theta, posterior.places)
        self.features = np.column_stack([self.polynomials, self.bumps])
        self.lower = _normal_factor(self.features, self.noise)
        self.k1 = self.inverse_times(posterior.ones[:, None])[:, 0]

    def inverse_times(self, columns: np.ndarray) -> np.ndarray:
        """Return K⁻¹ times columns (n, k)."""
        return _inverse_times(self.features, self.noise, self.lower, columns)

    def mean(self) -> Mean:
        """See :class:`kmc.surrogate.regression.Solved`."""
        constant, weights = self._solve(self.features, self.lower, self.posterior.targets)
        split = self.polynomials.shape[1]
        scales = polynomial_scales(self.theta, self.posterior.places)
        more, linear, quadratic = polynomial_of(
            scales[:, None] * weights[:split], self.posterior.places.axes
        )
        return self._joined(constant + more, linear, quadratic, weights[split:])

    def around(self, linear: np.ndarray, quadratic: np.ndarray) -> Mean:
        """See :class:`kmc.surrogate.regression.Solved`."""
        polynomial = polynomial_at(self.posterior.places, linear, quadratic)
        lower = _normal_factor(self.bumps, self.noise)
        constant, weights = self._solve(self.bumps, lower, self.posterior.targets - polynomial)
        return self._joined(constant, linear, quadratic, weights)

    def factors(self, places: Places) -> tuple[np.ndarray, np.ndarray]:
        """See :class:`kmc.surrogate.regression.Solved`."""
        cross = Pairs.of(places, self.posterior.landmarks).sections(self.theta)
        bumps = _whitened(self.root, cross.values)
        polynomials = quadratic_features(places) * polynomial_scales(self.theta, places)
        features = np.column_stack([polynomials, bumps])

        # What is known: all features; what is added: their posterior covariance, and that of the
        # constant.
        uncertain = linalg.solve_triangular(self.lower, features.T, lower=True)
        ones = np.arange(places.size) < places.values
        constant = ones - (features @ (self.features.T @ self.k1))
        constant = constant / np.sqrt(self.posterior.ones @ self.k1)
        return features.T, np.vstack([uncertain, constant])

    def _solve(self, features, lower, targets):
        """Return the constant and the weights of the features."""
        ones = self.posterior.ones
        both = _inverse_times(features, self.noise, lower, np.column_stack([ones, targets]))
        constant = (ones @ both[:, 1:]) / (ones @ both[:, 0])
        return constant, features.T @ (both[:, 1:] - np.outer(both[:, 0], constant))

    def _joined(self, constant, linear, quadratic, weights):
        landmarks, theta = self.posterior.landmarks, self.theta
        weights = linalg.solve_triangular(self.root, weights, lower=True, trans=1)
        none = np.zeros((0, landmarks.z.shape[1], weights.shape[1]))
        return Mean(
            constant,
            linear,
            quadratic,
            landmarks,
            weights,
            none,
            float(np.exp(theta.length)),
            float(np.exp(2.0 * theta.matern)),
            float(np.exp(2.0 * theta.bent)),
        )


class Sections(NamedTuple):
    """Covariances by the bent and the Matérn kernel, and derivatives in log c, log b and log l."""

    values: np.ndarray
    slopes: tuple[np.ndarray, np.ndarray, np.ndarray]


class Pairs(NamedTuple):
    """Two places, and what does not depend on hyperparameters."""

    a: Places
    b: Places
    bent: np.ndarray
    distances: np.ndarray

    @classmethod
    def of(cls, a: Places, b: Places) -> Pairs:
        """Return the covariances and distances of two places."""
        return cls(a, b, bent_covariance(a, b), distances_between(a, b))

    def sections(self, theta: Hyperparameters) -> Sections:
        """Return the covariances between the two places."""
        return _sections(
            theta,
            self.bent,
            *matern_covariance(self.a, self.b, np.exp(theta.length), self.distances),
        )


def section_variances(places: Places, theta: Hyperparameters) -> Sections:
    """Return the diagonals of the covariances of places with themselves."""
    return _sections(theta, bent_variances(places), *matern_variances(places, np.exp(theta.length)))


def _sections(theta, bent, matern, by_length):
    scale = np.exp(2.0 * theta.matern)
    bent, matern = np.exp(2.0 * theta.bent) * bent, scale * matern
    return Sections(bent + matern, (2.0 * bent, 2.0 * matern, scale * by_length))


def quadratic_features(places: Places) -> np.ndarray:
    """Return Φ: 1, √(2/3) z_i, z_i²/3, √2 z_i z_j/3 (i < j) and v_i²/3.

    With the scales S of :func:`polynomial_scales`, ΦS²Φᵀ is the quadratic kernel.
    """
    n, dim, axes = places.values, places.z.shape[1], places.axes
    first, second = np.triu_indices(dim)
    scale = np.where(first == second, 1.0, np.sqrt(2.0)) / SHRINK
    z, slope_z = places.z[:n], places.z[n:]
    linear = np.sqrt(2.0 / SHRINK)
    squares = (z @ axes) ** 2 / SHRINK
    values = np.column_stack([np.ones(n), linear * z, scale * z[:, first] * z[:, second], squares])
    eye = np.eye(dim)
    # ∂(z_i z_j)/∂z_l = δ_il z_j + δ_jl z_i
    products = eye[:, first] * slope_z[:, None, second] + eye[:, second] * slope_z[:, None, first]
    k = len(slope_z)
    slopes = np.concatenate(
        [
            np.zeros((k, dim, 1)),
            np.broadcast_to(linear * eye, (k, dim, dim)),
            scale * products,
            2.0 / SHRINK * (slope_z @ axes)[:, None] * axes,
        ],
        axis=2,
    )
    return np.vstack([values, slopes.reshape(k * dim, values.shape[1])])


def polynomial_scales(theta: Hyperparameters, places: Places) -> np.ndarray:
    """Return a, a √w for products and a √(1 - w) for v_i², (p,)."""
    dim, w = len(places.axes), np.exp(theta.products)
    parts = (1 + dim, 1.0), (dim * (dim + 1) // 2, w), (dim, 1.0 - w)
    return np.exp(theta.quadratic) * np.concatenate([np.full(n, np.sqrt(v)) for n, v in parts])


def polynomial_of(
    weights: np.ndarray, axes: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return constant, b and Q of :func:`quadratic_features` with weights (p, outputs)."""
    dim = len(axes)
    first, second = np.triu_indices(dim)
    scale = np.where(first == second, 1.0, np.sqrt(0.5)) / SHRINK
    quadratic = np.zeros((dim, dim, weights.shape[1]))
    quadratic[first, second] = scale[:, None] * weights[1 + dim : -dim]
    quadratic[second, first] = quadratic[first, second]
    quadratic += of_squares(weights[-dim:], axes) / SHRINK
    return weights[0], np.sqrt(2.0 / SHRINK) * weights[1 : 1 + dim], quadratic


def _whitened(inner, cross):
    return linalg.solve_triangular(inner, cross.T, lower=True).T


def _normal_factor(features, noise):
    scaled = features / np.sqrt(noise)[:, None]
    normal = np.eye(features.shape[1]) + scaled.T @ scaled
    return factorized(normal, np.zeros(len(normal)))


def _inverse_times(features, noise, lower, columns):
    scaled = columns / noise[:, None]
    inner = linalg.cho_solve((lower, True), features.T @ scaled)
    return scaled - features @ inner / noise[:, None]
