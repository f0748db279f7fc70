"""Step size and length of inner chains, chosen on the surrogate alone, without true evaluations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kmc.interrupts import uninterrupted
from kmc.mcmc.surrogate_transition import InnerChainOptions, copy_to, inner_chain
from kmc.mcmc.tempering import COLD, Tempering
from kmc.njit import njit
from kmc.surrogates.jit_state import SurrogateJitState
from kmc.surrogates.wall_jit_state import WalledState

# "Tried" is docs/what-was-tried.md; the others were set by hand.
STEP_SIZES = (0.5, 0.4, 0.3, 0.23, 0.17, 0.12, 0.08, 0.05, 0.03, 0.02)  # candidates
GOOD, POOR = 0.93, 0.05  # mean acceptance on the surrogate; fraction of trajectories with less than .3
GOOD_AT_WALLS, POOR_AT_WALLS = 0.65, 0.35  # a path that ends behind a wall is lost, however small its steps
INNER_CHAIN_LENGTHS = (12, 25, 50, 100)  # candidates
_FORGOTTEN = 0.05  # correlation with the start, beyond chance (tried: run length)
_TRIALS = 2  # trajectories from each start, for a step size
_FREE_STEP = 0.1  # step size of free draws
_FREE_MOVES = 6  # moves of an inner chain between free draws
_FREE_DRAWS = 4  # free draws of each chain, after one that is dropped


class Trials(NamedTuple):
    """Starts and archive for trial inner chains, in whitened coordinates."""

    state: SurrogateJitState | WalledState
    starts: np.ndarray  # (n, d)
    archive: np.ndarray  # (k, d)


def free_draws(
    trials: Trials, options: InnerChainOptions, rng: np.random.Generator, *, tempering: Tempering = COLD
) -> np.ndarray:
    """Draws (4 n, d) from the tempered surrogate: inner chains of small steps from the starts, minus a fifth."""
    careful = options._replace(step_size=_FREE_STEP, small_step_probability=0.0)
    z, kept = trials.starts, []
    for drawn in range(_FREE_DRAWS + 1):
        z = ends_of(trials, z, _FREE_MOVES, options=careful, rng=rng, tempering=tempering)
        if drawn:
            kept.append(z)
    return np.vstack(kept)


def choose_step_size(trials: Trials, options: InnerChainOptions, rng: np.random.Generator) -> float:
    """The largest step with a mean surrogate acceptance above .93 and fewer than 5 % of trajectories under .3.

    For a surrogate with a wall the limits are .65 and 35 %.
    """
    state, starts, archive = trials
    good, most_poor = (GOOD_AT_WALLS, POOR_AT_WALLS) if isinstance(state, WalledState) else (GOOD, POOR)
    for step_size in STEP_SIZES:
        trial = options._replace(step_size=step_size, jump_probability=0.0, small_step_probability=0.0)
        with uninterrupted():
            _, rates, n_poor = _one_by_one(state, COLD, rng, np.ascontiguousarray(starts), _TRIALS, trial, archive)
        if np.mean(rates) > good and n_poor / (_TRIALS * len(starts)) < most_poor:
            return step_size
    return STEP_SIZES[-1]


def choose_inner_chain_length(trials: Trials, options: InnerChainOptions, rng: np.random.Generator) -> int:
    """The smallest K for which inner chains of K/2 to K moves forget their start.

    The largest |corr(z_0, z_{K/2})| over coordinates must be under .05 plus the effect of chance: for n independent
    chains in d coordinates the largest correlation is about sqrt(2 log(2d) / n).
    """
    z = starts = trials.starts
    dim = starts.shape[1]
    limit = _FORGOTTEN + np.sqrt(2 * np.log(2 * dim) / len(starts))
    done = 0
    for length in INNER_CHAIN_LENGTHS:
        z = ends_of(trials, z, length // 2 - done, options=options, rng=rng, tempering=COLD)
        done = length // 2
        if max(abs(_correlation(starts[:, j], z[:, j])) for j in range(dim)) < limit:
            return length
    return INNER_CHAIN_LENGTHS[-1]


def ends_of(
    trials: Trials,
    z: np.ndarray,
    n_moves: int,
    *,
    options: InnerChainOptions,
    rng: np.random.Generator,
    tempering: Tempering,
) -> np.ndarray:
    """End points (n, d) of inner chains from the rows of z (n, d)."""
    with uninterrupted():
        return _one_by_one(trials.state, tempering, rng, np.ascontiguousarray(z), n_moves, options, trials.archive)[0]


@njit()
def _one_by_one(state, tempering, rng, starts, n_moves, options, archive):
    """Inner chains from the rows of ``starts`` (n, d): end points (n, d), acceptance rates (n,), poor trajectories."""
    ends, rates, n_poor = np.empty_like(starts), np.empty(len(starts)), 0
    for i in range(len(starts)):
        end = inner_chain(state, tempering, rng, starts[i], n_moves, options, archive)
        copy_to(ends[i], end.position)
        rates[i] = end.acceptance_rate
        n_poor += end.poor
    return ends, rates, n_poor


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a - a.mean(), b - b.mean()
    scale = np.sqrt((a @ a) * (b @ b))
    return (a @ b) / scale if scale > 0 else 1.0
