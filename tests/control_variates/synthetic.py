"""Chains for a standard normal target with proposals from a surrogate that is wrong on purpose."""

import numpy as np
from scipy import stats

from kmc.surrogate.coordinates.walls import NO_WALL
from kmc.surrogate.jit_state import SurrogateJitState
from kmc.surrogate.known import no_hierarchy, no_splines


def gaussian_state(location, *, centers=(), coefficients=(), rate=1.0, **fields):
    """A compiled surrogate: a Gaussian with covariance 1, and bumps at the rows of ``centers``,
    bounded nowhere.
    """
    eye = np.eye(len(location))
    centers = np.ascontiguousarray(np.reshape(centers, (-1, len(location))).T, dtype=float)
    given = {
        "constant": 0.0,
        "slope": np.zeros(len(location)),
        "location": np.array(location),
        "precision": eye,
        "metric": eye,
        "rates": np.empty((0, len(location))),
        "centers": centers,
        "bent_centers": centers,
        "coefficients": np.array(coefficients, dtype=float),
        "ends": np.empty((0, len(location))),
        "slopes": np.empty((0, len(location))),
        "bent_ends": np.empty((0, len(location))),
        "bent_slopes": np.empty((0, len(location))),
        "rate": rate,
        "both": 0.0,
        "spread": 1.0,
        "ceiling": np.inf,
        "reach": 1.0,
        "fall": 0.0,
        "origin": np.zeros(len(location)),
        "back": eye,
        "known": no_splines(len(location)),
        "hierarchy": no_hierarchy(),
        "wall": NO_WALL,
    }
    return SurrogateJitState(**given | fields)


class Normal:
    """An unnormalized normal density as a surrogate, off by a tilt (its mean) and a scale."""

    def __init__(self, mean=0.0, sd=1.0, constant=0.0):
        self.law, self.constant = stats.norm(mean, sd), constant
        self.moments = np.array([mean, mean**2 + sd**2])

    def log_density(self, x):
        return self.law.logpdf(x) + self.constant

    def draw(self, rng, n):
        return self.law.rvs(n, random_state=rng)


class Wavy:
    """The target times exp(.1 sin 3x): close to it, but outside its family."""

    def __init__(self, size=0.1):
        self.size = size
        self._grid = np.linspace(-9, 9, 20001)
        weights = np.exp(self.log_density(self._grid))
        weights /= weights.sum()
        self.moments = np.array([weights @ self._grid, weights @ self._grid**2])
        self._ends = np.cumsum(weights)

    def log_density(self, x):
        return -0.5 * x**2 + self.size * np.sin(3 * x)

    def draw(self, rng, n):
        return np.interp(rng.random(n), self._ends, self._grid)


class FalseMode(Normal):
    """A third of its mass is where the target has none."""

    def __init__(self):
        super().__init__()
        self.moments = np.array([3.0, 1.0 + 27.0])

    def log_density(self, x):
        return np.logaddexp(stats.norm.logpdf(x), np.log(0.5) + stats.norm.logpdf(x, 9.0))

    def draw(self, rng, n):
        return super().draw(rng, n) + 9.0 * (rng.random(n) < 1 / 3)


class Flat:
    """Constant on [-6, 6], and nothing beyond."""

    moments = np.array([0.0, 12.0])

    def log_density(self, x):
        return np.where(np.abs(x) < 6, 0.0, -80.0)

    def draw(self, rng, n):
        return rng.uniform(-6, 6, n)


class Truncated:
    """The target where |x| < 2, and a 1,000th of it beyond."""

    def __init__(self):
        self._inside = stats.norm.cdf(2) - stats.norm.cdf(-2)
        self._share = self._inside / (self._inside + 1e-3 * (1 - self._inside))
        inner = stats.truncnorm(-2, 2).var()
        outer = (1 - self._inside * inner) / (1 - self._inside)
        self.moments = np.array([0.0, self._share * inner + (1 - self._share) * outer])

    def log_density(self, x):
        return stats.norm.logpdf(x) + np.where(np.abs(x) < 2, 0.0, np.log(1e-3))

    def draw(self, rng, n):
        low = stats.norm.cdf(-2)
        beyond = low * rng.random(n)
        sign = np.where(rng.random(n) < 0.5, -1.0, 1.0)
        inner = stats.truncnorm.rvs(-2, 2, size=n, random_state=rng)
        return np.where(rng.random(n) < self._share, inner, sign * stats.norm.ppf(beyond))


def chains(surrogate, rng, m, n, share=0.9, noise=0.0):
    """m chains: states, proposals, whether these are from the surrogate, and log p at both, (m, n)
    each.

    With noise, log p is that of an unbiased estimate.
    """
    runs = rng.random((m, n)) < share
    steps, uniforms = rng.standard_normal((m, n)), rng.random((m, n))
    from_surrogate = surrogate.draw(rng, m * n).reshape(m, n)
    errors = noise * rng.standard_normal((m, n + 1)) - 0.5 * noise**2
    x, y, at_x, at_y = np.empty((4, m, n))
    now = rng.standard_normal(m)
    value = -0.5 * now**2 + errors[:, n]
    for i in range(n):
        proposal = np.where(runs[:, i], from_surrogate[:, i], now + steps[:, i])
        proposed = -0.5 * proposal**2 + errors[:, i]
        x[:, i], y[:, i], at_x[:, i], at_y[:, i] = now, proposal, value, proposed
        of_surrogate = surrogate.log_density(now) - surrogate.log_density(proposal)
        ratio = proposed - value + np.where(runs[:, i], of_surrogate, 0.0)
        accepted = np.log(uniforms[:, i]) < ratio
        now, value = np.where(accepted, proposal, now), np.where(accepted, proposed, value)
    return x, y, runs, at_x, at_y
