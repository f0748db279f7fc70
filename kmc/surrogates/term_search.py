"""Which terms: products of few coordinates and their exponentials that explain values.

As in sparse polynomial chaos expansions (Blatman and Sudret 2011, "Adaptive sparse polynomial chaos expansion based on
least angle regression", Journal of Computational Physics 230), with exponentials of coordinates beside polynomials: a
log-scale, the log of a variance and the log of a precision enter as exp(-2 t), exp(-t) and exp(t).
"""

from __future__ import annotations

from copy import copy

import numpy as np

from kmc.surrogates.term_groups import KNOWN, WORTH_BLOCK, Points, by_groups
from kmc.surrogates.term_pursuit import (
    EXACT,
    Exponential,
    Found,
    columns_of,
    cubics,
    pairs,
    pursued,
    quadratic_factors,
    with_exponentials,
)
from kmc.surrogates.term_regression import Regression
from kmc.surrogates.terms_jit_state import LARGEST
from kmc.surrogates.trend import quadratic_features
from kmc.surrogates.wide_trend import is_wide

# Set on histories of differential evolution on hierarchical targets (tried: terms).
POWERS = (-2.0,), (-1.0,), (1.0,), (2.0,), (-1.0, -2.0), (1.0, 2.0)  # of exp(u_j), alone and together
_SPREADS = 0.15, 5.0  # of power times u_j: outside, an exponential is a polynomial, or has a single value that matters
_MOST_DRIVERS = 8  # coordinates with exponentials
_SIMPLER = 1.1  # times the least error: one power with at most this is preferred to two
_LESS_SUMS = 2.5  # times the least error: sums of groups with at most this are preferred to separate terms
_LARGEST_BLOCK = 100  # quadratics, of which whole blocks are tried
_HELD_OUT = 0.2  # of the values


def find_factors(
    v: np.ndarray,
    y: np.ndarray,
    weights: np.ndarray,
    *,
    spreads: np.ndarray,
    center: np.ndarray | float = 0.0,
    rng: np.random.Generator,
) -> Found:
    """Terms that explain values, and their held-out error.

    Parameters
    ----------
    v : ndarray, shape (n, d)
        Coordinates of spread about one.
    y, weights : ndarray, shape (n,)
        Values to be explained, and their weights.
    spreads : ndarray, shape (d,)
        Of the user's (or transported) coordinates u = center + spreads * v.
    center : ndarray, shape (d,), optional
        Needed in many dimensions only.
    rng : Generator
        Chooses the held-out values.
    """
    n, dim = v.shape
    order = rng.permutation(n)
    regression = Regression(y[order], weights[order], int(_HELD_OUT * n))
    v = v[order]
    points = Points(v, spreads, np.broadcast_to(center, spreads.shape))
    possible = [(j, rate) for j in range(dim) for rate in _rates(spreads[j])]
    if is_wide(dim):
        return by_groups(points, possible, regression, others=[], steps=[(pairs, with_exponentials)])
    afresh, chosen = copy(regression), quadratic_factors(dim)
    regression.add(columns_of(v, chosen))
    promising = _promising_drivers(v, spreads, regression)
    several = _one_by_one(promising)
    steps = with_exponentials, cubics
    searches = [pursued(v, several, chosen, regression=copy(regression), steps=[steps])]
    if len(chosen) <= _LARGEST_BLOCK and searches[0].error > EXACT:
        blocks = _by_blocks(v, promising, copy(regression))
        searches.append(pursued(v, blocks, chosen, regression=copy(regression), steps=[(step,) for step in steps]))
    best = min(searches, key=lambda found: found.error)
    grouped = by_groups(points, possible, afresh, others=several, steps=[(pairs,), (cubics,)])
    # Sums of a group are extrapolated far better than separate terms, which cancel each other only at the values.
    return grouped if grouped.groups and grouped.error < max(_LESS_SUMS * best.error, KNOWN) else best


def _one_by_one(promising: dict[int, list[tuple[float, ...]]]) -> list[Exponential]:
    return [(j, option[0]) for j, options in promising.items() for option in options if len(option) == 1]


def _by_blocks(
    v: np.ndarray, promising: dict[int, list[tuple[float, ...]]], regression: Regression
) -> list[Exponential]:
    """Drivers and rates of exponentials that clearly reduce the held-out error, times all quadratics."""
    promising, error = dict(promising), regression.held_out_error
    found: list[Exponential] = []
    while promising and error > EXACT:
        trials = [
            (regression.trial(block), j, option)
            for j in promising
            for option in promising[j]
            if (block := _block(v, j, option)).shape[1] <= regression.room
        ]
        least = min(trials)[0] if trials else np.inf
        if least > WORTH_BLOCK * error:
            break
        error, j, option = min((t for t in trials if t[0] <= _SIMPLER * least), key=lambda t: (len(t[2]), t[0]))
        regression.add(_block(v, j, option))
        found += [(j, rate) for rate in option]
        del promising[j]
    return found


def _promising_drivers(
    v: np.ndarray, spreads: np.ndarray, regression: Regression
) -> dict[int, list[tuple[float, ...]]]:
    """Coordinates whose exponentials are correlated with the residual, and rates for each, alone and in pairs."""
    dim, at = v.shape[1], regression.n_held
    squares = v[at:] ** 2
    residual = regression.root[at:] * regression.residual[at:]
    found = []
    for j in range(dim):
        options = _options(spreads[j])
        if not options:
            continue
        others = np.delete(squares, j, axis=1)
        factors = np.exp(np.clip(v[at:, j : j + 1] * [option[0] for option in options], -LARGEST, LARGEST))
        along = others.T @ (residual[:, None] * factors)
        size = (others**2).T @ (regression.root[at:, None] * factors) ** 2
        found.append((float(np.max(np.sum(along**2 / size, axis=0))), j, options))
    found.sort(key=lambda entry: -entry[0])
    return {j: options for _, j, options in found[:_MOST_DRIVERS]}


def _rates(spread: float) -> list[float]:
    """Rates of single exponentials of a coordinate."""
    return [option[0] for option in _options(spread) if len(option) == 1]


def _options(spread: float) -> list[tuple[float, ...]]:
    """Rates of the exponentials of a coordinate, alone and in pairs."""
    low, high = _SPREADS
    options = [tuple(p * spread for p in option) for option in POWERS]
    return [option for option in options if all(low < abs(rate) < high for rate in option)]


def _block(v: np.ndarray, j: int, rates: tuple[float, ...]) -> np.ndarray:
    """The exponentials of coordinate j times all quadratics of the other coordinates."""
    others = quadratic_features(np.delete(v, j, axis=1))
    return np.hstack([np.exp(np.clip(rate * v[:, j : j + 1], -LARGEST, LARGEST)) * others for rate in rates])
