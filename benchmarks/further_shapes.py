"""Shapes that no rule of the sampler was made for: cusps, steps, plateaus, spirals, combs, crosses,
horseshoes.

``shapes.py`` has them as the family "further". Each has exact draws.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import stats


class Laplace:
    """Independent Laplace variables, rotated: cusps along every axis."""

    def __init__(self, dim):
        self.dim = dim
        self._rotation = np.linalg.qr(np.random.default_rng(dim).standard_normal((dim, dim)))[0]

    def __call__(self, x) -> float:
        return -float(np.abs(self._rotation @ x).sum())

    def sample(self, rng, n) -> np.ndarray:
        """Independent exact draws (n, d)."""
        return rng.laplace(size=(n, self.dim)) @ self._rotation


class Scaled:
    """A density in other units: x = scales z."""

    def __init__(self, density, scales):
        self.density, self.scales, self.dim = density, np.asarray(scales, dtype=float), density.dim

    def __call__(self, x) -> float:
        return self.density(x / self.scales)

    def sample(self, rng, n) -> np.ndarray:
        """Independent exact draws (n, d)."""
        return self.density.sample(rng, n) * self.scales


class Equicorrelated:
    """Unit normal variables, each pair of which has the same correlation."""

    def __init__(self, dim, correlation):
        self.dim = dim
        covariance = np.full((dim, dim), correlation) + (1 - correlation) * np.eye(dim)
        self._root = np.linalg.cholesky(covariance)
        self._precision = np.linalg.inv(covariance)

    def __call__(self, x) -> float:
        return -0.5 * float(x @ self._precision @ x)

    def sample(self, rng, n) -> np.ndarray:
        """Independent exact draws (n, d)."""
        return rng.standard_normal((n, self.dim)) @ self._root.T


class LogNormal:
    """Independent log-normal variables as they are: zero below zero, with a long tail above."""

    def __init__(self, dim, sd=0.8):
        self.dim, self.sd = dim, sd

    def __call__(self, x) -> float:
        if x.min() <= 0:
            return -math.inf
        log = np.log(x)
        return -float((0.5 * (log / self.sd) ** 2 + log).sum())

    def sample(self, rng, n) -> np.ndarray:
        """Independent exact draws (n, d)."""
        return np.exp(self.sd * rng.standard_normal((n, self.dim)))


class Annulus:
    """Uniform between radii 2 and 3 in the plane."""

    dim = 2

    def __call__(self, x) -> float:
        return 0.0 if 4 < x @ x < 9 else -math.inf

    def sample(self, rng, n) -> np.ndarray:
        """Independent exact draws (n, 2)."""
        radius, angle = np.sqrt(rng.uniform(4, 9, n)), rng.uniform(0, 2 * math.pi, n)
        return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])


class Rounded:
    """A density whose log is rounded to multiples of a step, as by a conversion to few digits."""

    def __init__(self, density, step):
        self.density, self.step, self.dim = density, step, density.dim

    def __call__(self, x) -> float:
        return self.step * round(self.density(x) / self.step)

    def sample(self, rng, n) -> np.ndarray:
        """Independent exact draws (n, d), by rejection."""
        found: list[np.ndarray] = []
        while sum(map(len, found)) < n:
            x = self.density.sample(rng, n)
            excess = np.array([self(row) - self.density(row) for row in x])
            found.append(x[np.log(rng.random(n)) < excess - 0.5 * self.step])
        return np.concatenate(found)[:n]


class Step:
    """A unit Gaussian that is three times as dense on one side of a plane."""

    def __init__(self, dim, factor=3.0):
        self.dim, self._log_factor, self._share = dim, math.log(factor), factor / (1 + factor)

    def __call__(self, x) -> float:
        return -0.5 * float(x @ x) + self._log_factor * (x.sum() > 0)

    def sample(self, rng, n) -> np.ndarray:
        """Independent exact draws (n, d)."""
        x = rng.standard_normal((n, self.dim))
        up = np.where(rng.random(n) < self._share, 1.0, -1.0)
        return x * (up * np.sign(x.sum(1)))[:, None]


class SkewNormal:
    """Independent skew-normal variables: almost a wall on one side."""

    def __init__(self, dim, shape=8.0):
        self.dim, self.shape = dim, shape

    def __call__(self, x) -> float:
        return float(stats.norm.logcdf(self.shape * x).sum() - 0.5 * (x @ x))

    def sample(self, rng, n) -> np.ndarray:
        """Independent exact draws (n, d): |z| and z', weighted (Azzalini 1985)."""
        delta = self.shape / math.sqrt(1 + self.shape**2)
        a, b = rng.standard_normal((2, n, self.dim))
        return delta * np.abs(a) + math.sqrt(1 - delta**2) * b


class FlatTop:
    """Independent variables with density exp(-x⁸): a plateau with steep flanks."""

    def __init__(self, dim):
        self.dim = dim

    def __call__(self, x) -> float:
        return -float((x**8).sum())

    def sample(self, rng, n) -> np.ndarray:
        """Independent exact draws (n, d): |x|⁸ is a gamma variable of shape 1/8."""
        return (
            rng.choice([-1.0, 1.0], (n, self.dim)) * rng.gamma(0.125, size=(n, self.dim)) ** 0.125
        )


class Horseshoe:
    """Pairs of a coefficient N(0, exp(2 l)) and l = log of a half-Cauchy scale: funnels side by
    side.
    """

    def __init__(self, pairs):
        self.pairs, self.dim = pairs, 2 * pairs

    def __call__(self, x) -> float:
        beta, log = x[: self.pairs], np.clip(x[self.pairs :], -300.0, 300.0)
        return float(
            (-0.5 * (beta * np.exp(-log)) ** 2 - log + log - np.logaddexp(0.0, 2 * log)).sum()
        )

    def sample(self, rng, n) -> np.ndarray:
        """Independent exact draws (n, d)."""
        log = np.log(np.abs(rng.standard_cauchy((n, self.pairs))))
        return np.hstack([rng.standard_normal((n, self.pairs)) * np.exp(log), log])


def _spiral(mixture):
    """A ridge of width .15 that winds twice around its beginning."""
    angle = np.sqrt(np.linspace(2.0, (5 * math.pi) ** 2, 240))
    means = 0.4 * angle[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return mixture(np.full(240, 1 / 240), means, 0.15)


def _cross(mixture, dim):
    """Two long Gaussians that cross at right angles."""
    sds = np.full((2, dim), 0.3)
    sds[0, 0], sds[1, 1] = 4.0, 4.0
    return mixture([0.5, 0.5], np.zeros((2, dim)), covariances=[np.diag(sd**2) for sd in sds])


def _permuted(mixture):
    """Three exchangeable parameters, as of a mixture model: the same mode six times."""
    means = np.array(list(itertools.permutations([-2.0, 0.0, 2.0])))
    return mixture(np.full(6, 1 / 6), means, 0.4)


def _comb(mixture):
    """Seven narrow modes side by side, as of a frequency, whose weights fall from the middle."""
    place = np.arange(-3, 4)
    shares = np.exp(-0.5 * (place / 2.0) ** 2)
    return mixture(
        shares / shares.sum(),
        np.column_stack([place, np.zeros(7)]),
        covariances=[np.diag([0.01, 1.0])] * 7,
    )


def further(mixture, funnel, gaussian, shells) -> Iterator[tuple[str, Any, dict[str, Any], bool]]:
    """Name, density, options of ``Shape`` and whether it has modes; the arguments are classes of
    ``shape_targets``.
    """
    yield "laplace-2d", Laplace(2), {}, False
    yield "laplace-6d", Laplace(6), {}, False
    yield "units-8d", Scaled(gaussian(8, 0, 1), np.logspace(-6, 6, 8)), {}, False
    yield "correlated-10d", Equicorrelated(10, 0.9999), {}, False
    yield "lognormal-3d", LogNormal(3), {}, False
    yield "annulus", Annulus(), {}, False
    yield "rounded-3d", Rounded(gaussian(3, 0, 1), 0.5), {}, False
    yield "step-2d", Step(2), {}, False
    yield "step-6d", Step(6), {}, False
    yield "skew-normal-5d", SkewNormal(5), {}, False
    yield "flat-top-4d", FlatTop(4), {}, False
    yield "horseshoe-6d", Horseshoe(3), {"heavy": True}, False
    yield "funnel-10d-sd3", funnel(3.0, dim=10), {}, False
    yield "shell-3d", shells(3, 0.3, 5.0, 1), {}, False
    yield "spiral", _spiral(mixture), {}, False
    yield "cross-2d", _cross(mixture, 2), {}, False
    yield "cross-5d", _cross(mixture, 5), {}, False
    yield "permuted-3d", _permuted(mixture), {}, True
    yield "comb", _comb(mixture), {}, True
