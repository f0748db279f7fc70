"""Statistics of a finished run, which :mod:`kmc.run.run_warnings` compares with limits."""

from __future__ import annotations

import numpy as np

from kmc import convergence
from kmc.ess import worst_bulk_ess
from kmc.surrogates.depth import floor_of

_FEWEST_MOVES = 20  # moves from a tail, fewest for a reliable mean acceptance; set by hand
_FEWEST_LEVELS = 100  # log-densities that tell a floor: one run in 2,000 then begins below it by chance
_CERTAIN = 1e-3  # acceptances are clipped to this distance from 0 and 1; set by hand


def run_statistics(
    positions: np.ndarray,
    log_density: np.ndarray,
    acceptance_rate: np.ndarray,
    *,
    accepted: np.ndarray,
    independent_runs: int = 1,
) -> dict[str, float]:
    """Measure the draws after warm-up.

    Parameters
    ----------
        With at least one draw.
    log_density, acceptance_rate, accepted : ndarray, shape (chains, draws)
        Of the draws; and of the proposals that led to them.
    independent_runs : int
        Number of independent runs, each with the same number of adjacent chains.

    Returns
    -------
    dict
        - ``acceptance``: mean acceptance probability.
        - ``tail_acceptance``: the same of the moves that start below the 5 % or above the 95 % quantile of a coordinate
          or below the 5 % quantile of the log-density, in the worst of these tails. It reveals proposals that are good
          in the bulk only. NaN for fewer than 20 moves from a tail.
        - ``longest_stay``: the largest number of sweeps that a chain spent in one state; ``stay``: the same relative to
          what is expected for as many sweeps with the same acceptance everywhere, log(n) / -log(1 - acceptance).
        - ``rhat``: the largest rank-normalized split R-hat of the coordinates.
        - ``bulk_ess``: the smallest effective sample size of the ranks of a coordinate.
        - ``tail_ess``: the same of the 5 % and 95 % quantiles; ``width_error``: the largest standard error of their
          distance, relative to it.
        - ``burn_in``: the largest number of draws at the start of a chain that are lower than hardly
          any draw should be, by those of the later halves (:func:`kmc.surrogates.depth.floor_of`);
          0 for short chains.
        - ``drift``: log10 of the p-value of equal means in the five fifths of the run, for coordinates, log-density and
          their tails. ``disagreement``: the same for equal means in all independent runs.
    """
    x, lp = positions, log_density[:, :, None]
    acceptance = float(acceptance_rate.mean())
    tails = convergence.in_tails(np.concatenate([x, lp], axis=2))
    tails = tails[:, :, :-1]  # not the highest log-densities
    columns = np.concatenate([x, lp, tails], axis=2)
    longest = _longest_stay(accepted)
    return {
        "acceptance": acceptance,
        "tail_acceptance": _acceptance_from(tails, acceptance_rate),
        "longest_stay": longest,
        "stay": longest / _expected_stay(acceptance, lp.size),
        "rhat": convergence.worst_rhat(x),
        "bulk_ess": worst_bulk_ess(x),
        "tail_ess": convergence.least_tail_ess(x),
        "width_error": convergence.width_error(x),
        "burn_in": _burn_in(log_density),
        "drift": convergence.drift(columns),
        "disagreement": convergence.disagreement(columns, independent_runs),
    }


def _acceptance_from(regions: np.ndarray, acceptance_rate: np.ndarray) -> float:
    """The smallest mean acceptance of moves from one of the regions (chains, draws, k); NaN if it would be noise."""
    starts = regions[:, :-1].reshape(-1, regions.shape[2])
    moves = starts.sum(axis=0)
    enough = moves >= _FEWEST_MOVES
    if not np.any(enough):
        return float("nan")
    return float(np.min((acceptance_rate[:, 1:].ravel() @ starts)[enough] / moves[enough]))


def _burn_in(log_density: np.ndarray) -> int:
    """Draws below the floor at the start of a chain, in the worst of the chains (chains, draws)."""
    later = log_density[:, log_density.shape[1] // 2 :]
    if later.size < _FEWEST_LEVELS:
        return 0
    reached = log_density >= floor_of(later)
    return int(np.argmax(reached, axis=1).max())


def _longest_stay(accepted: np.ndarray) -> int:
    """Sweeps in the longest series without an accepted proposal, over chains, and the one before it."""
    longest = 0
    for chain in accepted:
        moves = np.flatnonzero(np.concatenate([[True], chain, [True]]))
        longest = max(longest, int(np.diff(moves).max()))
    return longest


def _expected_stay(acceptance: float, n: int) -> float:
    """Approximate length of the longest of n stays, if every proposal has the same probability."""
    rejection = np.clip(1.0 - acceptance, _CERTAIN, 1.0 - _CERTAIN)
    return max(float(np.log(n) / -np.log(rejection)), 1.0)
