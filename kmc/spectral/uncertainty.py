"""How well the eigenvalues of accepted modes are known.

Four relative errors add up in squares: the jackknife's, with half of the difference between Ritz
values and held-out quotients; that of an energy to which few samples contribute, as those between
two wells; the change with the bandwidth; and the energy by which functions of a mode stay below the
mode (:func:`least_quotient`). The first is small where all functions are too smooth; one of the
others is large then.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from scipy import linalg

MOST_ERROR = 0.33
"""Relative standard error of an eigenvalue above which there is a warning.

Some of these are off by a factor of 1.5. Of 311 fits to samples of 18 densities with eigenvalues
within that factor, 24 % are above it, nearly all of them with 500 samples of narrow wells; of 78
wrong ones all are.
"""

LEAST_SAMPLES = 100
"""Samples by which the shape of a mode can be judged."""


class Uncertainty(NamedTuple):
    """Relative standard errors by cause, each (k,)."""

    between_samples: np.ndarray
    few_samples: np.ndarray
    bandwidth: np.ndarray
    shape: np.ndarray

    @classmethod
    def of(
        cls,
        between: np.ndarray,
        change: np.ndarray,
        modes: np.ndarray,
        squares: np.ndarray,
        weights: np.ndarray,
        represented: float = 1.0,
    ) -> Self:
        """Judge k modes by their values and |∇f|² at samples.

        Parameters
        ----------
        between : ndarray, shape (k,)
            Relative errors between samples.
        change : ndarray, shape (k,)
            Of the logarithms of the eigenvalues, to the next bandwidth.
        modes, squares : ndarray, shape (n, k)
        weights : ndarray, shape (n,)
        represented : float
            Samples of the fit for each of these.
        """
        weighted = weights[:, None] * squares
        shares = np.ones(modes.shape[1])
        if np.count_nonzero(weights) >= LEAST_SAMPLES:
            for k, (f, square) in enumerate(zip(modes.T, squares.T)):
                shares[k] = least_quotient(f, square, weights, modes[:, :k])
        few = np.sqrt(np.sum(weighted**2, axis=0) / represented) / np.maximum(
            np.sum(weighted, axis=0), 1e-300
        )
        return cls(between, few, 2 * change, -np.log(np.maximum(shares, 1e-3)))

    def total(self) -> np.ndarray:
        """Return the relative standard errors by all causes, shape (k,)."""
        return np.sqrt(sum(np.square(part) for part in self))

    def sentence(self, eigenvalues: np.ndarray) -> str:
        """Return a warning of badly known eigenvalues, with the main cause for the worst.

        It is empty if there are none.
        """
        errors = self.total()
        badly = np.flatnonzero(errors > MOST_ERROR)
        if not len(badly):
            return ""
        k = badly[np.argmax(errors[badly])]
        causes = (
            "it differs between parts of the samples: use more",
            f"its energy is that of about {1 / self.few_samples[k] ** 2:.0f} samples: use more",
            "it depends on the bandwidth: use more samples and functions (n_basis)",
            f"a function of this mode alone has {eigenvalues[k] * np.exp(-self.shape[k]):.4g}, as "
            "the basis cannot represent a step: use more samples and functions (n_basis)",
        )
        cause = causes[int(np.argmax([part[k] for part in self]))]
        others = ", ".join(str(other) for other in badly if other != k)
        value = (
            f"eigenvalue {k} is uncertain: {eigenvalues[k]:.4g}, "
            f"with a relative standard error of {errors[k]:.2g}"
        )
        return f"{value}; {cause}" + (f". Others that are uncertain: {others}" if others else "")


# Whether functions of a mode have less energy than the mode: then the basis did not represent it.
#
# Among the functions g(f) of a mode f, the energy E g'(f)² |∇f|² is least, at unit variance, for an
# eigenfunction of a Sturm–Liouville problem on a line. For a true eigenfunction that is f itself.
# Where a barrier is too sharp for the basis, it is a step where f has a slope. The functions are
# piecewise linear, uncorrelated with slower modes, and fitted to three quarters of the samples at a
# time; their energy and variance are those on the other quarter.

NODES = 9
"""Nodes at quantiles of f, and as many at equal distances."""

LEAST_IN_INTERVAL = 30
"""Samples between two nodes."""

FOLDS = 4


def least_quotient(
    f: np.ndarray, squares: np.ndarray, weights: np.ndarray, slower: np.ndarray
) -> float:
    """Return the least Rayleigh quotient of functions of f on held-out samples.

    It is relative to the quotient of f, and at most one.

    Parameters
    ----------
    f, squares, weights : ndarray, shape (n,)
        f and |∇f|² at samples.
    slower : ndarray, shape (n, k)
        The modes with which a function is not to be correlated.
    """
    nodes = _nodes(f)
    if len(nodes) < 3 + slower.shape[1]:
        return 1.0
    hats, interval = _hats(f, nodes)
    part = np.empty(len(f), dtype=int)
    part[np.argsort(f, kind="stable")] = np.arange(len(f)) % FOLDS
    sums = [
        _HatSums.over(part == k, hats, interval, squares, weights, slower) for k in range(FOLDS)
    ]
    width, energy, variance = np.diff(nodes), 0.0, 0.0
    for own in sums:
        others: Any = zip(*(other for other in sums if other is not own))
        rest = _HatSums(*(np.sum(one, axis=0) for one in others))
        heights = _smoothest(rest, width)
        if heights is None:
            return 1.0
        center = rest.mean @ heights
        scale = heights @ rest.second @ heights - rest.weight * center**2
        energy += own.squares @ (np.diff(heights) / width) ** 2 / scale
        moments = heights @ own.second @ heights - own.weight * center * (
            2 * (own.mean @ heights) - center
        )
        variance += moments / scale
    quotient = weights @ squares / (weights @ f**2 - (weights @ f) ** 2 / weights.sum())
    return min(1.0, float(energy / (variance * quotient)))


class _HatSums(NamedTuple):
    """Weighted sums over samples of m hat functions h and k slower modes."""

    weight: float
    first: np.ndarray  # Σ w h, (m,)
    second: np.ndarray  # Σ w h hᵀ, (m, m)
    squares: np.ndarray  # Σ w |∇f|² in each interval, (m - 1,)
    slow: np.ndarray  # of the slower modes, (k,)
    cross: np.ndarray  # Σ w of slower modes times h, (k, m)

    @classmethod
    def over(cls, rows, hats, interval, squares, weights, slower) -> Self:
        w, h, slow = weights[rows], hats[rows], slower[rows]
        weighted = h * w[:, None]
        inside = np.bincount(interval[rows], w * squares[rows], h.shape[1] - 1)
        return cls(w.sum(), w @ h, h.T @ weighted, inside, w @ slow, slow.T @ weighted)

    @property
    def mean(self) -> np.ndarray:
        """Of the hat functions, (m,)."""
        return self.first / self.weight


def _smoothest(sums: _HatSums, width: np.ndarray) -> np.ndarray | None:
    """Return the heights at the nodes of the function of least quotient; None if there is none.

    The quotient is that in the samples of the sums.
    """
    conductance = sums.squares / width**2
    stiffness = np.diag(np.append(conductance, 0.0) + np.append(0.0, conductance))
    stiffness -= np.diag(conductance, 1) + np.diag(conductance, -1)
    mass = sums.second - np.outer(sums.first, sums.mean)
    mass[np.diag_indices(len(mass))] += 1e-9 * np.trace(mass)
    # functions that vanish at a node, as constants have neither energy nor variance
    space = np.eye(len(mass))[:, 1:]
    if len(sums.slow):
        correlated = (sums.cross - np.outer(sums.slow, sums.mean))[:, 1:]
        space = space @ np.linalg.qr(correlated.T, mode="complete")[0][:, len(correlated) :]
    try:
        best = linalg.eigh(space.T @ mass @ space, space.T @ stiffness @ space)[1][:, -1]
    except linalg.LinAlgError:  # an interval without energy
        return None
    return space @ best


def _hats(f, nodes):
    """(n, m) the hat function of each node, and (n,) the interval of each sample."""
    interval = np.clip(np.searchsorted(nodes, f, side="right") - 1, 0, len(nodes) - 2)
    high = np.clip((f - nodes[interval]) / np.diff(nodes)[interval], 0.0, 1.0)
    hats, rows = np.zeros((len(f), len(nodes))), np.arange(len(f))
    hats[rows, interval], hats[rows, interval + 1] = 1.0 - high, high
    return hats, interval


def _nodes(f: np.ndarray) -> np.ndarray:
    """Return the ends of intervals with enough samples in each."""
    low, high = f.min(), f.max()
    proposed = np.concatenate(
        [np.quantile(f, np.linspace(0, 1, NODES)), np.linspace(low, high, NODES)]
    )
    ordered, kept = np.sort(f), [low]
    for node in np.unique(proposed)[1:-1]:
        inside = np.searchsorted(ordered, [kept[-1], node, high])
        if inside[1] - inside[0] >= LEAST_IN_INTERVAL <= inside[2] - inside[1]:
            kept.append(node)
    return np.array([*kept, high])
