"""Step size and length of inner chains, chosen on the surrogate alone: no true evaluation is spent."""

from __future__ import annotations

import numpy as np

from kmc.mcmc.surrogate_transition import InnerChainOptions, inner_chain
from kmc.mcmc.tempering import COLD, Tempering
from kmc.surrogates.wall_jit_state import WalledState

STEP_SIZES = (0.5, 0.4, 0.3, 0.23, 0.17, 0.12, 0.08, 0.05, 0.03, 0.02)
GOOD, POOR = 0.93, 0.05  # mean acceptance on the surrogate; share of trajectories with less than .3
GOOD_AT_WALLS, POOR_AT_WALLS = 0.65, 0.35  # a path that ends behind a wall is lost, however small its steps
INNER_CHAIN_LENGTHS = (12, 25, 50, 100)


def free_draws(
    point,
    starts: np.ndarray,
    archive: np.ndarray,
    options: InnerChainOptions,
    rng,
    tempering: Tempering = COLD,
    n_moves: int = 30,
) -> np.ndarray:
    """Draws (4 n, d) from the tempered surrogate: inner chains of small steps from ``starts`` (n, d), less a fifth."""
    careful = options._replace(step_size=0.1, small_step_probability=0.0)
    z, kept = starts, []
    for quarter in range(5):
        z = np.array([inner_chain(point, tempering, rng, row, n_moves // 5, careful, archive).position for row in z])
        if quarter:
            kept.append(z)
    return np.vstack(kept)


def choose_step_size(point, starts: np.ndarray, archive: np.ndarray, options: InnerChainOptions, rng) -> float:
    """The largest step with a mean surrogate acceptance above .93 and fewer than 5 % of trajectories under .3.

    Of a surrogate with a wall less is asked: .65 and 35 %.

    ``starts`` (n, d) and ``archive`` are in whitened coordinates.
    """
    good, most_poor = (GOOD_AT_WALLS, POOR_AT_WALLS) if isinstance(point, WalledState) else (GOOD, POOR)
    for step_size in STEP_SIZES:
        trial = options._replace(step_size=step_size, jump_probability=0.0, small_step_probability=0.0)
        results = [inner_chain(point, COLD, rng, z, 2, trial, archive) for z in starts]
        rate = np.mean([r.acceptance_rate for r in results])
        poor = sum(r.poor for r in results) / (2 * len(results))
        if rate > good and poor < most_poor:
            return step_size
    return STEP_SIZES[-1]


def choose_inner_chain_length(point, starts: np.ndarray, archive: np.ndarray, options: InnerChainOptions, rng) -> int:
    """The shortest K whose inner chains, of K/2 to K moves, forget their start.

    The largest |corr(z_0, z_{K/2})| over coordinates is to be under .05, and what noise makes of .05.

    Of n independent chains in d coordinates the largest correlation by chance is about sqrt(2 log(2d) / n).
    """
    z = starts
    dim = starts.shape[1]
    limit = 0.05 + np.sqrt(2 * np.log(2 * dim) / len(starts))
    done = 0
    for length in INNER_CHAIN_LENGTHS:
        z = np.array([inner_chain(point, COLD, rng, row, length // 2 - done, options, archive).position for row in z])
        done = length // 2
        if max(abs(_correlation(starts[:, j], z[:, j])) for j in range(dim)) < limit:
            return length
    return INNER_CHAIN_LENGTHS[-1]


def _correlation(a, b):
    a, b = a - a.mean(), b - b.mean()
    scale = np.sqrt((a @ a) * (b @ b))
    return (a @ b) / scale if scale > 0 else 1.0
