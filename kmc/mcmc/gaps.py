"""Gaps between groups of points, by which a warm-up that has seen several modes separates them."""

from __future__ import annotations

import numpy as np

from kmc.surrogates.whitening import whiten_states

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
