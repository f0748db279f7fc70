"""Means over parallel chains of equal law, with control variates whose means are zero.

For any smooth φ that does not grow too fast, Δφ + <∇φ, ∇log s> has mean zero under s (Stein's
identity), and the gradient of the surrogate is known. With polynomials of degree two as φ, the
means and variances of a Gaussian are exact from a few draws (Mira, Solgi and Imparato 2013, "Zero
variance Markov chain Monte Carlo for Bayesian estimators", Statistics and Computing 23). Kernel
sections reduce the error for other densities (Oates, Girolami and Chopin 2017, "Control functionals
for Monte Carlo integration", Journal of the Royal Statistical Society B 79).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from kmc.bases import Basis, KernelSections, Monomials
from kmc.kernels import Gaussian, median_distance
from kmc.surrogate.coordinates.tails import HeavyTails
from kmc.surrogate.density import Component
from kmc.surrogate.jit_state import gradients

_GROUPS = 4  # of chains: the coefficients of each are from the others
# relative to the mean square of each control variate; with less, stated errors are too small
# (tried)
_RIDGE = 1e-3
_LEAST_DRAWS = 10  # of the other groups, for each coefficient

_LEAST = 20  # of the largest values
_FINITE = 0.5  # shape of a generalized Pareto density from which on its variance is infinite
_ERRORS = 2.0  # standard errors by which the shape has to exceed this

# Tried (docs/what-was-tried.md, expectations): with polynomials of higher degree, errors are larger
# than stated.
_DEGREE = 2  # of the polynomials
_SECTIONS = 300
_WIDTHS = 0.35, 1.0  # of the sections, in median distances between draws
_FOR_WIDTHS = 1000  # draws


class ChainMeans:
    """k numbers, and m control variates, at the draws of some chains.

    The controls are removed by regression. For each group of chains the coefficients are those of
    the other groups (cross-fitting), so that the means are unbiased. Functions whose variance is
    not reduced have no controls.
    """

    def __init__(self) -> None:
        self.values: list[np.ndarray] = []  # (chains, n, k) each
        self._controls: list[np.ndarray] = []
        self._scale = np.ones(0)
        self._gram: np.ndarray | None = None  # (groups, m, m)
        self._sums: np.ndarray | None = None  # (chains, m)

    def extend(self, values: np.ndarray, controls: np.ndarray | None) -> None:
        """Add draws (chains, n, k), and controls (chains, n, m) or None."""
        self.values.append(values)
        if controls is None:
            return
        if self._gram is None:
            scale = np.sqrt(np.mean(controls**2, axis=(0, 1)))
            self._scale = np.where(scale > 0, scale, 1.0)
        controls = controls / self._scale
        self._controls.append(controls)
        gram = np.array([rows.T @ rows for rows in _by_group(controls)])
        sums = controls.sum(axis=1)
        self._gram = gram if self._gram is None else self._gram + gram
        self._sums = sums if self._sums is None else self._sums + sums

    @property
    def length(self) -> int:
        """Number of draws of each chain."""
        return sum(part.shape[1] for part in self.values)

    def by_chain(self, of: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Estimate the means of functions of the numbers from each chain: (chains, q).

        ``of`` takes (..., k) and returns (..., q).
        """
        parts = [of(part) for part in self.values]
        n = self.length
        plain = np.sum([part.sum(axis=1) for part in parts], axis=0) / n
        if self._gram is None or self._sums is None or len(plain) % _GROUPS:
            return plain
        rows = n * len(plain) // _GROUPS
        if rows * (_GROUPS - 1) < _LEAST_DRAWS * len(self._scale):
            return plain
        center = plain.mean(axis=0)
        moment = np.zeros((_GROUPS, len(self._scale), len(center)))
        square = np.zeros((_GROUPS, len(center)))
        for part, controls in zip(parts, self._controls, strict=True):
            for group, (own, given) in enumerate(
                zip(_by_group(part - center), _by_group(controls), strict=True)
            ):
                moment[group] += given.T @ own
                square[group] += np.sum(own**2, axis=0)
        means = self._sums / n
        found, left = plain.copy(), square.sum(axis=0)
        for group in range(_GROUPS):
            rest = self._gram.sum(axis=0) - self._gram[group]
            rest[np.diag_indices_from(rest)] += _RIDGE * rows * (_GROUPS - 1)
            beta = np.linalg.solve(rest, moment.sum(axis=0) - moment[group])
            found[group::_GROUPS] -= means[group::_GROUPS] @ beta
            left += np.sum(beta * (self._gram[group] @ beta - 2.0 * moment[group]), axis=0)
        return np.where(left < square.sum(axis=0), found, plain)


def most_controls(n: int) -> int:
    """Return the number of control variates for which n draws, of all chains together, suffice."""
    return n * (_GROUPS - 1) // (_GROUPS * _LEAST_DRAWS)


def _by_group(values):
    """Return the draws (n, ·) of each group of chains, as a list."""
    return [values[group::_GROUPS].reshape(-1, values.shape[2]) for group in range(_GROUPS)]


# How heavy the tails of numbers are, from draws of them: whether averages of them have a standard
# error at all.


def pareto_shape(values: np.ndarray) -> tuple[float, float]:
    """Fit a generalized Pareto density to the largest of n values: its shape k and the error of k.

    The error is a standard error. Moments of order 1 / k and higher are infinite. -inf and 0.0 if
    the values are too few, or too many are equal; inf and 0.0 if some are not finite, as their
    powers overflow.

    References
    ----------
    .. [1] Zhang and Stephens (2009), "A new and efficient estimation method for the generalized
       Pareto distribution", Technometrics 51.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.control_variates.chain_means import pareto_shape
    >>> u = (np.arange(100_000) + 0.5) / 100_000
    >>> [round(pareto_shape(u**-k)[0], 1) for k in (0.3, 0.7, 1.0)]
    [0.3, 0.7, 1.0]
    """
    m = int(min(0.2 * len(values), 3.0 * np.sqrt(len(values))))
    if m < _LEAST:
        return -np.inf, 0.0
    largest = np.sort(np.partition(values, len(values) - m - 1)[-m - 1 :])
    if not np.isfinite(largest[-1]):
        return np.inf, 0.0
    over = largest[1:] - largest[0]
    if over[m // 4] <= 0.0:
        return -np.inf, 0.0
    over = over[over > 0.0]
    n = len(over)
    grid = 30 + int(np.sqrt(n))
    scale = 1.0 / over[-1] + (1.0 - np.sqrt(grid / (np.arange(1, grid + 1) - 0.5))) / (
        3.0 * over[int(n / 4 + 0.5) - 1]
    )
    shape = np.log1p(-scale[:, None] * over).mean(axis=1)
    likelihood = n * (np.log(-scale / shape) - shape - 1.0)
    weights = np.exp(likelihood - likelihood.max())
    best = float(weights @ scale / weights.sum())
    found = float(np.log1p(-best * over).mean())
    return found, (1.0 + max(found, 0.0)) / np.sqrt(n)


def without_variance(values: np.ndarray) -> np.ndarray:
    """Return which of k numbers (n, k), not negative, have an infinite variance.

    It is judged by their largest values.
    """
    shapes = np.array([pareto_shape(column) for column in values.T]).reshape(-1, 2)
    return shapes[:, 0] - _ERRORS * shapes[:, 1] > _FINITE


class SteinControls:
    """Functions with mean zero under a smooth density.

    Parameters
    ----------
    slopes : callable
        The gradient of the log-density at the rows of z (n, d): (n, d).
    z : ndarray, shape (n, d)
        Draws of about this density, for coordinates, widths and centers. Means over these same
        draws would be biased, as a section is large at its own center.
    rng : Generator
    most : int, optional
        Largest number of functions; the polynomials are used in any case.
    """

    def __init__(
        self,
        slopes: Callable[[np.ndarray], np.ndarray],
        z: np.ndarray,
        rng: np.random.Generator,
        *,
        most: int | None = None,
    ):
        self._slopes = slopes
        d = z.shape[1]
        self._mean = z.mean(axis=0)
        self._factor = np.linalg.cholesky(np.atleast_2d(np.cov(z.T)) + 1e-12 * np.eye(d))
        self._inverse = np.linalg.inv(self._factor)
        white = self._white(rng.permutation(z)[:_FOR_WIDTHS])
        unit = median_distance(white)
        self._bases: list[Basis] = [Monomials(_DEGREE, d)]
        room = _SECTIONS if most is None else max(min(_SECTIONS, most - self.size), 0)
        sections = min(room, len(white)) // len(_WIDTHS)
        for i, width in enumerate(_WIDTHS):
            centers = white[i * sections : (i + 1) * sections]
            if sections:
                self._bases.append(KernelSections(Gaussian(width * unit), centers))

    @classmethod
    def of(
        cls, component: Component, z: np.ndarray, rng: np.random.Generator
    ) -> SteinControls | None:
        """Make the controls of a surrogate from other draws in its coordinates.

        Return None for a wall or heavy tails. At a wall the density is too steep for controls to be
        of use. In heavy tails, draws that were not made matter, and errors would be larger than
        stated (tried).
        """
        return (
            cls(partial(gradients, component.jit_state), z, rng) if cls.suits(component) else None
        )

    @staticmethod
    def suits(component: Component) -> bool:
        """Return whether a surrogate has neither a wall nor heavy tails."""
        return not component.jit_state.wall.bias.size and not isinstance(
            component.transport, HeavyTails
        )

    @property
    def size(self) -> int:
        """Number of functions m."""
        return sum(basis.size for basis in self._bases)

    def __call__(self, z: np.ndarray) -> np.ndarray:
        """Evaluate the functions at points z (..., d): (..., m)."""
        rows = np.ascontiguousarray(z.reshape(-1, z.shape[-1]))
        white, slopes = self._white(rows), self._slopes(rows) @ self._factor
        values = [
            basis.laplacians(white) + basis.directional(white, slopes) for basis in self._bases
        ]
        return np.concatenate(values, axis=1).reshape(*z.shape[:-1], -1)

    def contract(self, z: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Evaluate the combination with coefficients (m,) at points z (n, d): (n,)."""
        white, slopes = self._white(z), self._slopes(z) @ self._factor
        total, end = np.zeros(len(z)), 0
        for basis in self._bases:
            own, end = coefficients[end : end + basis.size], end + basis.size
            total += basis.contract_laplacians(white, own)
            total += np.sum(basis.contract_gradients(white, own) * slopes, axis=1)
        return total

    def _white(self, z):
        return (z - self._mean) @ self._inverse.T
