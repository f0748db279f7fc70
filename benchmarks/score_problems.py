"""Densities with known scores: the two of Sutherland et al. (2018), section 5.1, and one inside an
exponential family.

The true score of the ring has a term −1/r that the published code lacks: a density that is constant
along a circle of radius r in the plane is the radial density over 2πr.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.special import logsumexp, softmax

NOISE = 0.1  # standard deviation of a component
RADII = np.array([1.0, 3.0, 5.0])


class Problem(Protocol):
    """A known density on R^dim."""

    dim: int

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Independent exact draws (n, dim)."""

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """(n,) at the rows of x, up to a constant."""

    def score(self, x: np.ndarray) -> np.ndarray:
        """Its gradient (n, dim)."""


@dataclass(frozen=True)
class Ring:
    """Three circles in the plane, uniform along their length, with radial noise; Gaussian noise in
    other dimensions.
    """

    dim: int

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Independent exact draws (n, dim)."""
        radius = rng.choice(RADII, n, p=RADII / RADII.sum()) + NOISE * rng.standard_normal(n)
        angle = rng.uniform(0, 2 * np.pi, n)
        plane = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
        return np.hstack([plane, NOISE * rng.standard_normal((n, self.dim - 2))])

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """(n,) at the rows of x, up to a constant."""
        radius = np.linalg.norm(x[:, :2], axis=1)
        rest = -0.5 * np.sum(x[:, 2:] ** 2, axis=1) / NOISE**2
        return logsumexp(self._shares(radius), axis=1) - np.log(radius) + rest

    def score(self, x: np.ndarray) -> np.ndarray:
        """Its gradient (n, dim)."""
        radius = np.linalg.norm(x[:, :2], axis=1)
        pull = (
            np.sum(softmax(self._shares(radius), axis=1) * (RADII - radius[:, None]), axis=1)
            / NOISE**2
        )
        out = -x / NOISE**2
        out[:, :2] = ((pull - 1 / radius) / radius)[:, None] * x[:, :2]
        return out

    @staticmethod
    def _shares(radius):
        """Log of each circle's radial density (n, 3), up to a constant."""
        return np.log(RADII) - 0.5 * ((radius[:, None] - RADII) / NOISE) ** 2


@dataclass(frozen=True)
class Grid:
    """A mixture of dim Gaussians of equal weight, at distinct random vertices of the unit cube."""

    dim: int
    seed: int = 0  # of the vertices

    @cached_property
    def vertices(self) -> np.ndarray:
        """(dim, dim) of zeros and ones, distinct rows."""
        codes = np.random.default_rng(self.seed).choice(2**self.dim, self.dim, replace=False)
        return (codes[:, None] >> np.arange(self.dim) & 1).astype(float)

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Independent exact draws (n, dim)."""
        return self.vertices[rng.integers(self.dim, size=n)] + NOISE * rng.standard_normal(
            (n, self.dim)
        )

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """(n,) at the rows of x, up to a constant."""
        return logsumexp(self._shares(x), axis=1)

    def score(self, x: np.ndarray) -> np.ndarray:
        """Its gradient (n, dim)."""
        return (softmax(self._shares(x), axis=1) @ self.vertices - x) / NOISE**2

    def _shares(self, x):
        """Log of each component's density (n, dim), up to a constant."""
        return -0.5 * np.sum((x[:, None, :] - self.vertices) ** 2, axis=2) / NOISE**2


@dataclass(frozen=True)
class Bumps:
    """A standard normal with a few wide dents: a smooth member of an exponential family with this
    q0.

    f = -depth Σ exp(-|x - z|² / (2 width²)) lies in the space of a Gaussian kernel of bandwidth 1,
    and is so much smoother than the kernel that theorem 2 of Sutherland et al. (2018) gives its
    best rate (b = 1/2).
    """

    dim: int = 2
    width: float = 2.0
    depth: float = 2.0
    count: int = 4

    @cached_property
    def centers(self) -> np.ndarray:
        """(count, dim)."""
        return np.random.default_rng(3).normal(scale=1.5, size=(self.count, self.dim))

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Independent exact draws (n, dim), by rejection from the normal: f is at most 0."""
        draws = np.empty((0, self.dim))
        while len(draws) < n:
            x = rng.standard_normal((10 * n, self.dim))
            draws = np.concatenate(
                [draws, x[np.log(rng.random(10 * n)) < -self._dents(x).sum(axis=1)]]
            )
        return draws[:n]

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """(n,) at the rows of x, up to a constant."""
        return -self._dents(x).sum(axis=1) - 0.5 * np.sum(x**2, axis=1)

    def score(self, x: np.ndarray) -> np.ndarray:
        """Its gradient (n, dim)."""
        weights = self._dents(x) / self.width**2
        return weights.sum(axis=1, keepdims=True) * x - weights @ self.centers - x

    def _dents(self, x):
        """(n, count)."""
        return self.depth * np.exp(
            -0.5 * np.sum((x[:, None, :] - self.centers) ** 2, axis=2) / self.width**2
        )


def fisher_divergence(estimated: np.ndarray, true: np.ndarray) -> float:
    """J = ½ E|∇log p − ∇log p₀|², with the factor ½, from both scores (n, d) at draws of p₀."""
    return 0.5 * float(np.mean(np.sum((estimated - true) ** 2, axis=1)))
