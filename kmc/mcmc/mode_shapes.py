"""Modes as Gaussians: a point belongs to the mode whose Gaussian is the highest there.

Where one warm-up has seen several modes, its evaluations tell them apart: two Gaussians explain what its surrogate
cannot, or there are gaps between groups of points.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kmc.interrupts import uninterrupted
from kmc.landmarks import spread
from kmc.mcmc.history import History
from kmc.mcmc.proposal_mixture import ProposalMixture
from kmc.mcmc.surrogate_transition import inner_chain
from kmc.mcmc.tempering import COLD
from kmc.mcmc.two_gaussians import two_gaussians_instead
from kmc.surrogates import Surrogate
from kmc.surrogates.whitening import whiten_states

# "Tried" is docs/what-was-tried.md, modes; the others were set by hand.
NEGLIGIBLE = -7.0  # log of mass relative to the largest: modes below it are ignored
REACH = 15.0  # nats below the bulk: deeper evaluations are no evidence of a mode
_BULK_MORE = 2.0  # nats added to the depth of most draws of a Gaussian: shallower points are the bulk
_POOR = 1.0  # error of a surrogate, in nats, from which on chains may leave the modes
_WANDERING = 40  # trajectories after which a chain on the surrogate has reached a mode (tried: (3))
_WANDERERS, _WANDERERS_PER_DIM = 128, 16  # number of these chains, at least and per dimension


class Shape(NamedTuple):
    """A mode as a Gaussian, in the coordinates of the first surrogate."""

    top: float
    center: np.ndarray
    precision: np.ndarray

    @classmethod
    def of(cls, top: float, z: np.ndarray) -> Shape:
        """From states (n, d) of the mode and its highest value."""
        covariance = np.atleast_2d(np.cov(z.T)) + 1e-12 * np.eye(z.shape[1])
        return cls(float(top), z.mean(axis=0), np.linalg.inv(covariance))

    def value(self, z: np.ndarray) -> np.ndarray:
        """The log-density at points (n, d), (n,)."""
        r = z - self.center
        return self.top - 0.5 * np.einsum("ij,ij->i", r @ self.precision, r)

    @property
    def log_mass(self) -> float:
        """Log-mass relative to (2 pi)^(d/2), in these coordinates."""
        return self.top - 0.5 * float(np.linalg.slogdet(self.precision)[1])


def labels(shapes: Sequence[Shape], z: np.ndarray) -> np.ndarray:
    """The index of the highest shape at each of the points (n, d), (n,)."""
    return np.argmax([shape.value(z) for shape in shapes], axis=0)


def bulk_below_top(dim: int) -> float:
    """Depth of most draws of a Gaussian: mean, two sds and a margin."""
    return 0.5 * dim + np.sqrt(2.0 * dim) + _BULK_MORE


def overlapping_shapes(
    surrogate: Surrogate, x: np.ndarray, values: np.ndarray, *, rng: np.random.Generator
) -> list[Shape]:
    """Two modes without a gap, such as a narrow one inside a wide one: Gaussians, far better than the surrogate.

    Empty if two Gaussians do not explain the values (n,) at points (n, d).
    """
    pair = two_gaussians_instead(surrogate, x, values, rng=rng)
    if pair is None:
        return []
    return _of_some_mass(
        [Shape(float(top), *rest) for top, *rest in zip(pair.tops, pair.centers, pair.precisions, strict=True)]
    )


def separate_shapes(
    surrogate: Surrogate, mixture: ProposalMixture, history: History, *, rng: np.random.Generator
) -> list[Shape]:
    """Modes with gaps between them, among the draws of a surrogate, or among the evaluations if it is poor."""
    if surrogate.error_sd < _POOR:
        x = _wandered(surrogate, mixture, history, rng=rng)
        values = surrogate.log_density(x)
    else:
        shallow = history.log_density > history.log_density.max() - bulk_below_top(history.x.shape[1])
        x, rows = np.unique(history.x[shallow], axis=0, return_index=True)
        values = history.log_density[shallow][rows]
    z = surrogate.coordinates(x)
    shapes = [Shape.of(values[group].max(), z[group]) for group in divided(z, rng)]
    if len(shapes) < 2:
        return shapes
    return evaluated_shapes(shapes, surrogate.coordinates(history.x), history.log_density)


def evaluated_shapes(shapes: Sequence[Shape], z: np.ndarray, values: np.ndarray) -> list[Shape]:
    """The shapes that have evaluations, with their highest values: the surrogate may be far too high in places.

    Values (n,) at points z (n, d) may be -inf: those belong to no shape.
    """
    z, values = z[np.isfinite(values)], values[np.isfinite(values)]
    mine = labels(shapes, z)
    tops = [float(values[mine == k].max(initial=-np.inf)) for k in range(len(shapes))]
    lowered = _of_some_mass([shape._replace(top=top) for shape, top in zip(shapes, tops, strict=True)])
    # With lower maxima other shapes may claim the points.
    counts = np.bincount(labels(lowered, z), minlength=len(lowered))
    return [shape for shape, count in zip(lowered, counts, strict=True) if count]


def _of_some_mass(shapes: Sequence[Shape]) -> list[Shape]:
    heaviest = max(shape.log_mass for shape in shapes)
    return [shape for shape in shapes if shape.log_mass > heaviest + NEGLIGIBLE]


def _wandered(
    surrogate: Surrogate, mixture: ProposalMixture, history: History, *, rng: np.random.Generator
) -> np.ndarray:
    """Draws (n, d) from the surrogate by chains that start all over the evaluations.

    They move by trajectories alone, so that they stay in the mode that they reach, also where no walker has stayed
    for long, or where the density is so low that hardly any evaluation is shallow.
    """
    high = np.flatnonzero(history.log_density > history.log_density.max() - surrogate.edge - REACH)
    starts = surrogate.coordinates(history.x[high])
    starts = starts[spread(starts, max(_WANDERERS, _WANDERERS_PER_DIM * starts.shape[1]), rng)]
    options = mixture.inner._replace(jump_probability=0.0)
    state, archive = surrogate.jit_state, mixture.archive_z
    with uninterrupted():
        ends = [inner_chain(state, COLD, rng, z, _WANDERING, options, archive) for z in starts]
    return surrogate.back(np.array([end.position for end in ends]))


# Gaps between groups of points, by which a warm-up that has seen several modes separates them.


# "Tried" is docs/what-was-tried.md, modes: projections; the others were set by hand.
MOST = 12  # groups
_GAP = 1.0  # smallest gap between two groups, in sds of the wider group, or of half the sd of all points (tried)
_NARROW = 0.5  # sd of all points: a narrower group counts as one of this sd
_PER_DIM, _MORE, _SMALLEST = 2, 5, 0.03  # smallest group: points per dimension, additional points, fraction of all
_FEWEST_PER_DIM, _FEWEST_MORE = 5, 10  # fewest points to divide: fewer often seem separated by chance
_STARTS_PER_DIM, _MORE_STARTS = 2, 4  # directions at which the search starts
_ITERATIONS = 30  # of the search, from each direction


def divided(z: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """Indices of groups of points (n, d) that are separated by gaps."""
    waiting: list[np.ndarray] = [np.arange(len(z))]
    groups: list[np.ndarray] = []
    while waiting:
        group = waiting.pop()
        side = gap(z[group], rng)
        if side is None or len(groups) + len(waiting) >= MOST - 1:
            groups.append(group)
        else:
            waiting += [group[side], group[~side]]
    return groups


def gap(z: np.ndarray, rng: np.random.Generator) -> np.ndarray | None:
    """The side of a gap on which each of the points (n, d) is, (n,); None if no direction shows a gap.

    A small group shows best in the direction of the largest kurtosis (Peña and Prieto 2001, "Cluster identification
    using projections", JASA 96), which a fixed-point iteration finds. Two groups of similar size show best where the
    mean absolute value is largest (Kwak 2008, "Principal component analysis based on L1-norm maximization", IEEE PAMI
    30); the tails do not matter there, so that one group may be much narrower than the other.
    """
    n, dim = z.shape
    least = max(_PER_DIM * dim + _MORE, int(_SMALLEST * n))
    if n < max(2 * least, _FEWEST_PER_DIM * dim + _FEWEST_MORE):  # too few
        return None
    white = whiten_states(z)(z)
    best, side = _GAP, None
    for start in white[rng.integers(n, size=_STARTS_PER_DIM * dim + _MORE_STARTS)]:
        for contrast in (_kurtosis_step, _absolute_step):
            w = start / np.linalg.norm(start)
            for _ in range(_ITERATIONS):
                w = contrast(white, w)
                w /= np.linalg.norm(w)
            t = white @ w
            order = np.argsort(t)
            gaps = np.diff(t[order])[least - 1 : n - least]
            at = least - 1 + int(np.argmax(gaps))
            low, high = t[order[: at + 1]], t[order[at + 1 :]]
            width = gaps.max() / max(low.std(), high.std(), _NARROW)  # the sd of all points together is one
            if width > best:
                best, side = width, t > t[order[at]]
    return side


def _kurtosis_step(white: np.ndarray, w: np.ndarray) -> np.ndarray:
    return white.T @ (white @ w) ** 3 / len(white) - 3.0 * w


def _absolute_step(white: np.ndarray, w: np.ndarray) -> np.ndarray:
    return white.T @ np.sign(white @ w)
