r"""Gaussian-process regression: values, known gradients and noisy values in one model.

.. math:: y_i = m + f(z_i) + \text{noise}_i

with an unknown constant m, and f a Gaussian process with the covariances of
:mod:`kmc.surrogate.covariance`. The noise of a value has the variance s² + n_i²: s is learned, and
n_i is known. The logarithms of the amplitudes a, b and c, of the length l, of s and of the variance
w of products maximize the marginal likelihood, in which m is integrated out. Several outputs at the
same places share the hyperparameters and one factorization.

The likelihood also chooses scales: coordinates whose exponentials multiply others. In hierarchical
models, and in most with an unknown noise, a coordinate is the logarithm of a scale. A kernel
without it is either too smooth where the scale is large or too rough where it is small.

References
----------
Rasmussen and Williams (2006), Gaussian Processes for Machine Learning: section 2.7 (the constant),
5.4.1 (derivatives of the marginal likelihood) and 9.4 (gradients).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from scipy import linalg, optimize

from kmc.surrogate.covariance import (
    SHRINK,
    Coordinates,
    Hyperparameters,
    Places,
    bent_covariance,
    covariance,
    distances_between,
    factorized,
    inverted,
    matern_covariance,
    of_squares,
    quadratic_covariance,
    values_at,
    variances,
)
from kmc.surrogate.mean import Mean, mean_gradients, mean_values, polynomial_at
from kmc.surrogate.nystrom import LowRank


@dataclass(frozen=True)
class Settings:
    """Numbers of the regression."""

    exact: int = 2000
    """Outputs up to which the regression is exact: a Cholesky factorization takes 0.1 s there."""
    landmarks: int = 400
    """Points that span the Matérn kernel beyond it; the time of a fit grows with their square."""
    tolerance: float = 1e-5
    """Relative change of the log-likelihood at which L-BFGS ends: as a rule less than 0.01 nats."""
    lower: tuple[float, ...] = (-1.0, -12.0, -6.0, -2.5, -9.2, -4.0)
    """Least log a (nats), c (nats), b (nats), l (standard deviations), s (nats) and w. An amplitude
    of the quadratic below 0.4 nats would let noise explain everything; s = 1e-4 nats is far below
    what matters.
    """
    upper: tuple[float, ...] = (9.0, 5.0, 9.0, 4.0, 1.1, -0.01)
    """Greatest ones: with s above 3 nats nothing is learned."""


SETTINGS = Settings()


STARTS = (
    Hyperparameters(2.0, -4.0, 4.0, 3.0, -6.9),
    Hyperparameters(2.0, -2.0, -2.0, 1.5, -6.9),
    Hyperparameters(2.0, -4.0, 3.0, 1.5, -6.9),
    Hyperparameters(2.0, -4.0, 2.0, 0.5, -4.6),
)
"""A nearly quadratic function, a polynomial, a bent one and a rough one: the likelihood can have a
maximum near each.
"""


RATES = (1.0, -1.0)
"""Of the exponentials of scales: those of squares and of their square roots are in the span of the
kernel, too.
"""

SCALED = Hyperparameters(2.0, -3.0, -2.0, 1.5, -4.6)
"""A function of terms with scales, and little else."""

SCALES_WORTH = 3.0
"""Nats by which another set of scales must raise the log-likelihood, as there are many sets."""

# by which sets are compared
_GUESSES = (SCALED, SCALED._replace(bent=-1.0), SCALED._replace(matern=2.0))
_COMPARED = 150  # most observations with which they are


@dataclass(frozen=True, eq=False)
class Observations:
    """Known values, and gradients if there are any.

    The noise is a standard deviation: that of values in units of y, that of gradients in units of y
    per unit of z.
    """

    points: np.ndarray  # (n, d)
    values: np.ndarray  # (n,), or (n, outputs)
    noise: np.ndarray | None = None  # (n,), zero by default
    gradient_points: np.ndarray | None = None  # (k, d)
    gradients: np.ndarray | None = None  # (k, d), or (k, d, outputs), along x
    gradient_noise: np.ndarray | None = None  # (k,), zero by default

    def __post_init__(self):
        n = len(self.points)
        if self.points.ndim != 2 or n == 0:
            raise ValueError(f"points has shape {self.points.shape}: expected (n, d), n >= 1")
        if self.values.shape[:1] != (n,) or self.values.ndim > 2:
            raise ValueError(f"values has shape {self.values.shape}: expected ({n},) or ({n}, k)")
        if not np.isfinite(self.values).all():
            raise ValueError("values contains NaN or infinity: leave these points out")

    def places(self, coordinates: Coordinates) -> Places:
        """Return where the values and gradients are, in these coordinates."""
        z = coordinates.map(self.points)
        if self.gradient_points is not None:
            z = np.vstack([z, coordinates.map(self.gradient_points)])
        return Places.of(z, coordinates, len(self.points))

    def targets(self, coordinates: Coordinates) -> np.ndarray:
        """Return values, then gradients along z, shape (n + k d, outputs)."""
        values = self.values.reshape(len(self.points), -1)
        if self.gradients is None:
            return values
        k, dim = self.gradients.shape[:2]
        along_x = self.gradients.reshape(k, dim, -1)
        along_z = np.einsum("ij,kjr->kir", coordinates.inverse, along_x)
        return np.vstack([values, along_z.reshape(k * dim, -1)])

    def noises(self) -> np.ndarray:
        """Return the known noise of all targets, shape (n + k d,)."""
        n, dim = self.points.shape
        noise = np.zeros(n) if self.noise is None else self.noise
        if self.gradient_points is None:
            return noise
        k = len(self.gradient_points)
        more = np.zeros(k) if self.gradient_noise is None else self.gradient_noise
        return np.append(noise, np.repeat(more, dim))


class Posterior(Protocol):
    """A regression at given places: exact, or of low rank."""

    def negative_log_likelihood(self, theta: Hyperparameters) -> tuple[float, np.ndarray]:
        """Return the negative log marginal likelihood and its gradient in all hyperparameters."""

    def condition(self, theta: Hyperparameters) -> Solved:
        """Factorize at these hyperparameters."""


class Solved(Protocol):
    """A factorized regression."""

    def mean(self) -> Mean:
        """Return the posterior mean."""

    def around(self, linear: np.ndarray, quadratic: np.ndarray) -> Mean:
        """Return the mean with this polynomial: the constant and other kernels are solved again."""

    def factors(self, places: Places) -> tuple[np.ndarray, np.ndarray]:
        """Return V and R: posterior covariances are k(x, x') - V(x)'V(x') + R(x)'R(x')."""


@dataclass(frozen=True, eq=False)
class Regression:
    """A fitted regression."""

    coordinates: Coordinates
    hyperparameters: Hyperparameters
    negative_log_likelihood: float
    solved: Solved
    outputs: tuple[int, ...]  # (), or the number of outputs

    @cached_property
    def mean(self) -> Mean:
        """The posterior mean in the coordinates z and u."""
        return self.solved.mean()

    def values(self, x: np.ndarray) -> np.ndarray:
        """Return posterior means at the rows of x (n, d): shape (n,) or (n, outputs)."""
        return mean_values(self.mean, self.coordinates, x).reshape(len(x), *self.outputs)

    def gradients(self, x: np.ndarray) -> np.ndarray:
        """Return gradients of the posterior mean along x: shape (n, d) or (n, d, outputs)."""
        gradients = mean_gradients(self.mean, self.coordinates, x)
        return gradients.reshape(*x.shape, *self.outputs)

    def standard_deviations(self, x: np.ndarray) -> np.ndarray:
        """Return standard deviations of values without noise, equal for all outputs, shape (n,)."""
        return np.sqrt(self.conditional(x).variances)

    def conditional(self, x: np.ndarray) -> Conditional:
        """Return the joint distribution of the values at the rows of x (n, d)."""
        places = values_at(self.coordinates.map(x), self.coordinates)
        variances, factors = _variances(self, places)
        return Conditional(places, variances, factors, self.hyperparameters)


class Conditional(NamedTuple):
    """Posterior covariances of the values at some points."""

    places: Places
    variances: np.ndarray  # (n,)
    factors: tuple[np.ndarray, np.ndarray]
    hyperparameters: Hyperparameters

    def covariances(self) -> np.ndarray:
        """Return the covariance matrix of all values, (n, n)."""
        known, added = self.factors
        return (
            covariance(self.hyperparameters, self.places, self.places)
            - known.T @ known
            + added.T @ added
        )


def fit(
    observations: Observations,
    coordinates: Coordinates,
    starts: Sequence[Hyperparameters] = STARTS,
    *,
    settings: Settings = SETTINGS,
) -> Regression:
    """Fit hyperparameters by marginal likelihood, the best of some starts, and condition."""
    posterior = _posterior(observations, coordinates, starts[0], settings)
    found = []
    for start in starts:
        result = optimize.minimize(
            lambda theta: posterior.negative_log_likelihood(Hyperparameters(*theta)),
            np.clip(start, settings.lower, settings.upper),
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip(settings.lower, settings.upper)),
            options={"ftol": settings.tolerance},
        )
        found.append(result)
    best = min(found, key=lambda result: result.fun)
    theta = Hyperparameters(*best.x)
    return Regression(
        coordinates,
        theta,
        float(best.fun),
        posterior.condition(theta),
        observations.values.shape[1:],
    )


def condition(
    observations: Observations,
    coordinates: Coordinates,
    hyperparameters: Hyperparameters,
    *,
    settings: Settings = SETTINGS,
) -> Regression:
    """Condition on the observations with given hyperparameters, without the likelihood (NaN)."""
    posterior = _posterior(observations, coordinates, hyperparameters, settings)
    solved = posterior.condition(hyperparameters)
    return Regression(coordinates, hyperparameters, np.nan, solved, observations.values.shape[1:])


def _posterior(observations, coordinates, theta, settings) -> Posterior:
    places, targets = observations.places(coordinates), observations.targets(coordinates)
    noise = observations.noises()
    if places.size <= settings.exact:
        return Exact(places, targets, noise)
    return LowRank(
        places, targets, noise, landmarks=settings.landmarks, length=np.exp(theta.length)
    )


class Exact:
    """The regression by the Cholesky factor of the covariance matrix, O(n³)."""

    def __init__(self, places: Places, targets: np.ndarray, noise: np.ndarray):
        self.places, self.targets, self.noise = places, targets, noise
        self.quadratic, self.products = quadratic_covariance(places, places)
        self.bent = bent_covariance(places, places)
        self.distances = distances_between(places, places)
        # The constant is seen by values, not by gradients.
        self.ones = (np.arange(places.size) < places.values).astype(float)

    def noise_variances(self, theta: Hyperparameters) -> np.ndarray:
        """Return s² + n²."""
        return np.exp(2.0 * theta.noise) + self.noise**2

    def negative_log_likelihood(self, theta: Hyperparameters) -> tuple[float, np.ndarray]:
        """See :class:`Posterior`."""
        products = np.exp(2.0 * theta.quadratic + theta.products) * self.products
        quadratic = np.exp(2.0 * theta.quadratic) * self.quadratic + products
        matern, by_length = matern_covariance(
            self.places, self.places, np.exp(theta.length), self.distances
        )
        bent = np.exp(2.0 * theta.bent) * self.bent
        matern = np.exp(2.0 * theta.matern) * matern
        by_length = np.exp(2.0 * theta.matern) * by_length
        lower = factorized(quadratic + bent + matern, self.noise_variances(theta))
        inverse = inverted(lower)

        # The constant's generalized least-squares estimate, and the likelihood with the constant
        # integrated out.
        k1 = inverse @ self.ones
        precision = self.ones @ k1
        alpha = inverse @ self.targets
        alpha -= np.outer(k1, self.ones @ alpha) / precision
        outputs = self.targets.shape[1]
        log_determinant = 2.0 * np.log(np.diag(lower)).sum() + np.log(precision)
        value = 0.5 * np.sum(self.targets * alpha) + 0.5 * outputs * log_determinant

        # Twice the derivative with respect to the covariance matrix.
        slope = outputs * (inverse - np.outer(k1, k1) / precision) - alpha @ alpha.T
        gradient = [
            np.vdot(slope, quadratic),
            np.vdot(slope, bent),
            np.vdot(slope, matern),
            0.5 * np.vdot(slope, by_length),
            np.exp(2.0 * theta.noise) * np.trace(slope),
            0.5 * np.vdot(slope, products),
        ]
        return float(value), np.array(gradient)

    def condition(self, theta: Hyperparameters) -> Solved:
        """See :class:`Posterior`."""
        return ExactSolved(self, theta)


class ExactSolved:
    """See :class:`Solved`."""

    def __init__(self, posterior: Exact, theta: Hyperparameters):
        # of the posterior, only what is needed: it has several matrices of this size
        self.theta = theta
        self.places, self.targets, self.ones = posterior.places, posterior.targets, posterior.ones
        self.noise_variances = posterior.noise_variances(theta)
        places = posterior.places
        matern, _ = matern_covariance(places, places, np.exp(theta.length), posterior.distances)
        self.sections = (
            np.exp(2.0 * theta.matern) * matern + np.exp(2.0 * theta.bent) * posterior.bent
        )
        quadratic = posterior.quadratic + np.exp(theta.products) * posterior.products
        total = np.exp(2.0 * theta.quadratic) * quadratic + self.sections
        self.lower = factorized(total, self.noise_variances)
        self.k1 = linalg.cho_solve((self.lower, True), self.ones)

    def mean(self) -> Mean:
        """See :class:`Solved`."""
        constant, alpha = self._solve(self.lower, self.targets)
        places, scale = self.places, np.exp(2.0 * self.theta.quadratic)
        n, dim = places.values, places.z.shape[1]
        z, slope_z = places.z[:n], places.z[n:]
        values, slopes = alpha[:n], alpha[n:].reshape(len(slope_z), dim, alpha.shape[1])

        # The expanded quadratic kernel: Σ α_j q(z, z_j), and derivatives of it for gradients.
        constant = constant + scale * values.sum(axis=0)
        linear = scale * 2.0 / SHRINK * (z.T @ values + slopes.sum(axis=0))
        mixed = np.einsum("ki,kjr->ijr", slope_z, slopes)
        products = np.einsum("ni,nr,nj->ijr", z, values, z) + mixed + mixed.transpose(1, 0, 2)
        squares = np.einsum("il,ijr,jl->lr", places.axes, products, places.axes)
        w = np.exp(self.theta.products)
        quadratic = w * products + (1.0 - w) * of_squares(squares, places.axes)
        return self._joined(constant, linear, scale / SHRINK**2 * quadratic, alpha)

    def around(self, linear: np.ndarray, quadratic: np.ndarray) -> Mean:
        """See :class:`Solved`."""
        places = self.places
        polynomial = polynomial_at(places, linear, quadratic)
        lower = factorized(self.sections, self.noise_variances)
        constant, alpha = self._solve(lower, self.targets - polynomial)
        return self._joined(constant, linear, quadratic, alpha)

    def factors(self, places: Places) -> tuple[np.ndarray, np.ndarray]:
        """See :class:`Solved`."""
        cross = covariance(self.theta, self.places, places)
        known = linalg.solve_triangular(self.lower, cross, lower=True, check_finite=False)
        ones = np.arange(places.size) < places.values
        added = (ones - self.k1 @ cross) / np.sqrt(self.ones @ self.k1)
        return known, added[None, :]

    def _solve(self, lower, targets):
        """Return the constant and the weights of the covariance functions."""
        ones = self.ones
        both = linalg.cho_solve((lower, True), np.column_stack([ones, targets]), check_finite=False)
        constant = (ones @ both[:, 1:]) / (ones @ both[:, 0])
        return constant, both[:, 1:] - np.outer(both[:, 0], constant)

    def _joined(self, constant, linear, quadratic, alpha):
        places = self.places
        n, dim = places.values, places.z.shape[1]
        return Mean(
            constant,
            linear,
            quadratic,
            places,
            alpha[:n],
            alpha[n:].reshape(len(places.z) - n, dim, alpha.shape[1]),
            float(np.exp(self.theta.length)),
            float(np.exp(2.0 * self.theta.matern)),
            float(np.exp(2.0 * self.theta.bent)),
        )


def _variances(regression, places):
    """Return posterior variances at places, and the factors of the covariances."""
    prior = variances(regression.hyperparameters, places)
    known, added = factors = regression.solved.factors(places)
    found = prior - np.einsum("ij,ij->j", known, known) + np.einsum("ij,ij->j", added, added)
    return np.maximum(found, 1e-14 * prior), factors


def best_change(observations: Observations, coordinates: Coordinates) -> Coordinates:
    """Return the coordinates with one scale more or less that are likeliest at some guesses."""
    n = len(observations.points)
    some = np.unique(np.linspace(0, n - 1, min(n, _COMPARED)).astype(int))
    fewer = Observations(
        observations.points[some], observations.values[some], observations.noises()[:n][some]
    )
    posterior = Exact(fewer.places(coordinates), fewer.targets(coordinates), fewer.noises())

    def loss(scales):
        places = fewer.places(replace(coordinates, scales=scales))
        posterior.bent = bent_covariance(places, places)
        return min(posterior.negative_log_likelihood(guess)[0] for guess in _GUESSES)

    return replace(
        coordinates, scales=min(_neighbors(coordinates.scales, len(coordinates.center)), key=loss)
    )


def _neighbors(
    scales: tuple[tuple[int, float], ...], dim: int
) -> Iterator[tuple[tuple[int, float], ...]]:
    for i in range(len(scales)):
        yield scales[:i] + scales[i + 1 :]
    for j in range(dim):
        for rate in RATES:
            if (j, rate) not in scales:
                yield (*scales, (j, rate))
