"""Distributions whose Langevin generator -Δ + <∇V, ∇.> has a known spectrum.

Normal distributions (Hermite polynomials), the uniform distribution on a sphere (spherical
harmonics), and double wells by discretizations of exponential accuracy.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import comb
from typing import Protocol

import numpy as np
from scipy import linalg


class Problem(Protocol):
    """A distribution on R^dim, and the eigenvalues of its generator."""

    name: str
    dim: int

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Independent exact draws (n, dim)."""

    def eigenvalues(self, count: int) -> np.ndarray:
        """The smallest ``count`` eigenvalues, ascending with their multiplicities, without zero."""


@dataclass(frozen=True)
class Normal:
    """N(0, I): the eigenvalues are sums of d whole numbers."""

    dim: int = 1

    @property
    def name(self) -> str:
        return f"N(0, I{self.dim})" if self.dim > 1 else "N(0, 1)"

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Independent exact draws (n, dim)."""
        return rng.standard_normal((n, self.dim))

    def score(self, x: np.ndarray) -> np.ndarray:
        """∇ log p at the rows of x."""
        return -x

    def eigenvalues(self, count: int) -> np.ndarray:
        """Each degree k as often as there are monomials of that degree."""
        degrees = np.arange(1, count + 1)
        return np.repeat(degrees, [comb(self.dim + k - 1, k) for k in degrees])[:count].astype(
            float
        )


@dataclass(frozen=True)
class Sphere:
    """The uniform distribution on the unit sphere of R^dim: s (s + d - 2), Cabannes and Bach
    (2023), section 7.1.
    """

    dim: int = 3

    @property
    def name(self) -> str:
        return f"sphere in R^{self.dim}"

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Independent exact draws (n, dim)."""
        x = rng.standard_normal((n, self.dim))
        return x / np.linalg.norm(x, axis=1, keepdims=True)

    @staticmethod
    def normals(x: np.ndarray) -> np.ndarray:
        """Unit normals at the rows of x."""
        return x / np.linalg.norm(x, axis=1, keepdims=True)

    def eigenvalues(self, count: int) -> np.ndarray:
        """s (s + d - 2), as often as there are spherical harmonics of that degree."""
        d, found = self.dim, []
        for s in range(1, count + 1):
            times = (2 * s + d - 2) * comb(s + d - 3, s - 1) // s
            found += [float(s * (s + d - 2))] * times
            if len(found) >= count:
                break
        return np.array(found[:count])


@dataclass(frozen=True)
class DoubleWell:
    """V = b (x² - 1)² on the line: two wells with a barrier of b between them."""

    barrier: float = 2.0
    dim: int = 1

    @property
    def name(self) -> str:
        return f"double well, barrier {self.barrier:g}"

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Independent draws (n, 1), exact up to the grid's width of 1e-4."""
        return _inverse_cdf(
            lambda x: self.barrier * (x**2 - 1) ** 2, _reach(self.barrier), rng.uniform(size=n)
        )[:, None]

    def score(self, x: np.ndarray) -> np.ndarray:
        """∇ log p at the rows of x."""
        return -4 * self.barrier * x * (x**2 - 1)

    def eigenvalues(self, count: int) -> np.ndarray:
        """By the Schrödinger operator on a grid."""
        return self._spectrum[1 : count + 1]

    @cached_property
    def _spectrum(self):
        x, minus_second = _line(_reach(self.barrier), 400)
        slope, curvature = 4 * self.barrier * x * (x**2 - 1), 4 * self.barrier * (3 * x**2 - 1)
        return linalg.eigvalsh(minus_second + np.diag(slope**2 / 4 - curvature / 2))


@dataclass(frozen=True)
class BentDoubleWell:
    """V = b (x² - 1)² + c (y - x²/2)² in the plane: two wells at the ends of a bent valley."""

    barrier: float = 2.0
    stiffness: float = 2.0
    dim: int = 2

    @property
    def name(self) -> str:
        return f"bent double well, barrier {self.barrier:g}"

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Independent draws (n, 2): x as in one dimension, y normal given x."""
        x = DoubleWell(self.barrier).sample(rng, n)
        return np.hstack([x, x**2 / 2 + rng.standard_normal((n, 1)) / np.sqrt(2 * self.stiffness)])

    def score(self, x: np.ndarray) -> np.ndarray:
        """∇ log p at the rows of x."""
        x, y = x.T
        off = 2 * self.stiffness * (y - x**2 / 2)
        return np.column_stack([-4 * self.barrier * x * (x**2 - 1) + off * x, -off])

    def eigenvalues(self, count: int) -> np.ndarray:
        """By a Galerkin method in orthonormal polynomials."""
        return self._spectrum[1 : count + 1]

    @cached_property
    def _spectrum(self):
        """In polynomials of x times Hermite polynomials of z = y - x²/2, which are orthonormal
        here.

        |∇f|² is (∂_x f - x ∂_z f)² + (∂_z f)².
        """
        x, p, dp = _orthonormal_polynomials(self.barrier, 40)
        k = np.arange(26)
        dz = np.diag(np.sqrt(2 * self.stiffness * k[1:]), 1)  # ∫ h_k h_l'
        dzz = np.diag(2 * self.stiffness * k)  # ∫ h_k' h_l'
        mixed = np.kron((dp * x[:, None]).T @ p, dz)
        energy = np.kron(dp.T @ dp, np.eye(len(k))) - mixed - mixed.T
        energy += np.kron(np.eye(40) + (p * x[:, None] ** 2).T @ p, dzz)
        return linalg.eigvalsh(energy, subset_by_index=[0, 40])


def problems() -> list[Problem]:
    """The problems of the accuracy table, the easiest first."""
    return [Normal(1), Normal(3), Normal(5), DoubleWell(), BentDoubleWell()]


def relative_error(estimate: np.ndarray, truth: np.ndarray) -> float:
    """Mean relative error of eigenvalues; a missing one has error 1."""
    errors = np.ones(len(truth))
    given = min(len(estimate), len(truth))
    errors[:given] = np.abs(estimate[:given] / truth[:given] - 1)
    return float(errors.mean())


def sphere_error(estimate: np.ndarray, truth: np.ndarray) -> float:
    """Metric (21) of Cabannes and Bach (2023): Σ |1/λ - 1/λ̂| / Σ 1/λ, which is 1 for an empty
    estimate.
    """
    inverse = np.zeros(len(truth))
    given = min(len(estimate), len(truth))
    inverse[:given] = 1 / estimate[:given]
    return float(np.abs(1 / truth - inverse).sum() / np.sum(1 / truth))


def _reach(barrier: float) -> float:
    """Where the potential of the wells has risen to 40."""
    return float(np.sqrt(1 + np.sqrt(40 / barrier)))


def _line(reach: float, count: int) -> tuple[np.ndarray, np.ndarray]:
    """A grid on [-reach, reach] and -d²/dx² on it for functions that vanish at its ends, by sinc
    functions.
    """
    x, h = np.linspace(-reach, reach, count, retstep=True)
    apart = np.subtract.outer(np.arange(count), np.arange(count)).astype(float)
    off = apart != 0
    second = np.full((count, count), np.pi**2 / 3)
    second[off] = 2 * (-1) ** np.abs(apart[off]) / apart[off] ** 2
    return x, second / h**2


def _orthonormal_polynomials(
    barrier: float, count: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points of a quadrature, polynomials orthonormal for exp(-b (x² - 1)²) and their derivatives
    there, times √w.
    """
    reach = _reach(barrier)
    x, w = np.polynomial.legendre.leggauss(400)
    root = np.sqrt(w * np.exp(-barrier * ((reach * x) ** 2 - 1) ** 2))[:, None]
    degrees = np.eye(count)
    values = np.polynomial.chebyshev.chebval(x, degrees).T
    slopes = np.polynomial.chebyshev.chebval(x, np.polynomial.chebyshev.chebder(degrees)).T / reach
    p, r = linalg.qr(root * values, mode="economic")
    return reach * x, p, linalg.solve_triangular(r, (root * slopes).T, trans=1).T


def _inverse_cdf(potential, reach: float, u: np.ndarray) -> np.ndarray:
    x = np.arange(-reach, reach, 1e-4)
    density = np.exp(-potential(x))
    cdf = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]))])
    return np.interp(u, cdf / cdf[-1], x)
