"""The statistics of a finished run that :mod:`kmc.run.run_warnings` compares with limits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from kmc import convergence
from kmc.control_variates.correction import FEW
from kmc.control_variates.estimate import ReplicateEstimate
from kmc.control_variates.replicate import Replicate
from kmc.convergence import worst_bulk_ess
from kmc.model.model import Model
from kmc.model.priors import JointPrior
from kmc.run.budget import UNKNOWN, Remedies, Spent
from kmc.run.evaluation_summary import NONE, Rejections
from kmc.run.trace import Trace
from kmc.seeds import Stream, substream
from kmc.surrogate.density import Density
from kmc.surrogate.mass import floor_of

_FEWEST_MOVES = 20  # moves from a tail, fewest for a reliable mean acceptance; set by hand
# log-densities that tell a floor: one run in 2,000 then begins below it by chance
_FEWEST_LEVELS = 100
_CERTAIN = 1e-3  # acceptances are clipped to this distance from 0 and 1; set by hand

FEWEST_DRAWS = 100  # of all chains together
LEAST_SHARE = 0.02  # of the draws, in the outer tenth at either end
EMPTIER = 0.25  # density of the middle half, relative to the lower of these two
# within so many sd of the boundary: least share of the draws in the two outer tenths
NEAREST = 0.25, 0.02

_SURROGATE_DRAWS = 2000  # several times as many as there are effective draws

LEAST_TAIL_ESS = 100.0  # set in benchmarks/warning_rates.py
# of the distance of these quantiles: it is then off by a quarter in one of twenty runs
LARGEST_WIDTH_ERROR = 0.125


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
    positions : ndarray, shape (chains, draws, d)
        With at least one draw.
    log_density, acceptance_rate, accepted : ndarray, shape (chains, draws)
        Of the draws; and of the proposals that led to them.
    independent_runs : int
        Number of independent runs, each with the same number of adjacent chains.

    Returns
    -------
    dict
        - ``acceptance``: mean acceptance probability.
        - ``tail_acceptance``: the same of the moves that start below the 5 % or above the 95 %
          quantile of a coordinate or below the 5 % quantile of the log-density, in the worst of
          these tails. It reveals proposals that are good in the bulk only. Tails with fewer than 20
          moves are left out; NaN if all are.
        - ``longest_stay``: the largest number of sweeps that a chain spent in one state; ``stay``:
          the same relative to what is expected for as many sweeps with the same acceptance
          everywhere, log(n) / -log(1 - acceptance).
        - ``rhat``: the largest rank-normalized split R-hat of the coordinates.
        - ``bulk_ess``: the smallest effective sample size of the ranks of a coordinate.
        - ``tail_ess``: the same of the 5 % and 95 % quantiles; ``width_error``: the largest
          standard error of their distance, relative to it; ``sd_error``: that of a standard
          deviation.
        - ``burn_in``: the largest number of draws at the start of a chain that are lower than
          hardly any draw should be, by those of the later halves
          (:func:`kmc.surrogate.mass.floor_of`); 0 for short chains.
        - ``drift``: log10 of the p-value of equal means in the five fifths of the run, for
          coordinates, log-density and their tails. ``disagreement``: the same for equal means in
          all independent runs.
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
        "sd_error": convergence.sd_error(x),
        "burn_in": _burn_in(log_density),
        "drift": convergence.drift(columns),
        "disagreement": convergence.disagreement(columns, independent_runs),
    }


def _acceptance_from(regions: np.ndarray, acceptance_rate: np.ndarray) -> float:
    """Return the smallest mean acceptance of moves from one of the regions (chains, draws, k).

    Regions with few moves are left out, as their means are noise; NaN if all are.
    """
    starts = regions[:, :-1].reshape(-1, regions.shape[2])
    moves = starts.sum(axis=0)
    enough = moves >= _FEWEST_MOVES
    if not np.any(enough):
        return float("nan")
    return float(np.min((acceptance_rate[:, 1:].ravel() @ starts)[enough] / moves[enough]))


def _burn_in(log_density: np.ndarray) -> int:
    """Count draws (chains, draws) below the floor at the start of the worst chain."""
    later = log_density[:, log_density.shape[1] // 2 :]
    if later.size < _FEWEST_LEVELS:
        return 0
    reached = log_density >= floor_of(later)
    return int(np.argmax(reached, axis=1).max())


def _longest_stay(accepted: np.ndarray) -> int:
    """Count the sweeps in the longest series without an accepted proposal, over all chains.

    The sweep before the series counts, too.
    """
    longest = 0
    for chain in accepted:
        moves = np.flatnonzero(np.concatenate([[True], chain, [True]]))
        longest = max(longest, int(np.diff(moves).max()))
    return longest


def _expected_stay(acceptance: float, n: int) -> float:
    """Approximate length of the longest of n stays, if every proposal has the same probability."""
    rejection = np.clip(1.0 - acceptance, _CERTAIN, 1.0 - _CERTAIN)
    return max(float(np.log(n) / -np.log(rejection)), 1.0)


# Whether few draws contradict the frozen surrogate, which has mass where they are missing.


def contradiction(
    traces: Sequence[Trace], densities: Sequence[Density | None], seed: np.random.SeedSequence
) -> str:
    """Say how draws and surrogate differ; return "" if they do not, or if it is not known.

    Means and squares of the parameters under the surrogate are known in two ways: from its own
    draws, and from the run's draws with weights. They differ if the surrogate has a tail or a mode
    that the draws have not. With 400 draws and more this is not looked at: the surrogate is then
    more often too high somewhere than the draws are wrong.

    Parameters
    ----------
    traces, densities : sequence
        Of each independent run; the traces with their proposals.
    seed : SeedSequence
        That of the run.
    """
    own = substream(seed, Stream.CONTRADICTION)
    for trace, density, each in zip(traces, densities, own.spawn(len(traces)), strict=True):
        if density is None or not trace.proposals or trace.log_density.size >= FEW:
            continue
        values, proposals, move = trace.log_density, trace.proposals, trace.stats["move"]
        # all chains stand at one point: nothing can be compared
        if not np.ptp(trace.positions, axis=(0, 1)).any():
            continue
        replicate = Replicate(
            trace.positions, values, proposals["x"], proposals["lp"], move, density
        )
        found = ReplicateEstimate(replicate, _unchanged, each, _SURROGATE_DRAWS, np.inf)
        if found.contradicted:
            return found.doubts
    return ""


def _unchanged(x: np.ndarray) -> np.ndarray:
    return x


class AtBothEnds(NamedTuple):
    """A scalar whose draws lie at both of its bounds."""

    name: str
    low: float
    high: float
    declared: bool = True  # a parameter of kmc.Model, which can be declared as kmc.Circular


def drawn_at_both_ends(model: Model, trace: Trace) -> list[AtBothEnds]:
    """Return the scalars of a model whose draws lie at both of their bounds."""
    space, intervals = model.space_extras, model.space_extras.intervals
    if not intervals:
        return []
    chains, draws, dim = trace.positions.shape
    values = space.within_intervals(trace.positions.reshape(-1, dim))
    shown = {
        name: np.reshape(values[name], (chains, draws, *values[name].shape[1:]))
        for name in intervals
    }
    return at_both_ends(intervals, shown, declared=model.parameters is not None)


def at_both_ends(
    intervals: Mapping[str, tuple[float, float]], values: Mapping[str, Any], declared: bool = True
) -> list[AtBothEnds]:
    """Return the elements of parameters that have draws at both of their bounds.

    ``intervals`` has the bounds by name, ``values`` the draws (chains, draws, ...).

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.run.run_statistics import at_both_ends
    >>> phase = np.random.default_rng(0).normal(0, 0.05, (4, 100)) % 1.0
    >>> at_both_ends({"phase": (0.0, 1.0)}, {"phase": phase})
    [AtBothEnds(name='phase', low=0.0, high=1.0, declared=True)]
    """
    found = []
    for name, (low, high) in intervals.items():
        array = np.asarray(values[name])
        for index in np.ndindex(array.shape[2:]):
            if _is_cut((array[(..., *index)].ravel() - low) / (high - low)):
                label = f"{name}[{', '.join(map(str, index))}]" if index else name
                found.append(AtBothEnds(label, low, high, declared))
    return found


def _is_cut(y: np.ndarray) -> bool:
    """Return whether draws y (n,) in (0, 1) look like one mode of an angle that the boundary cuts.

    Each end has some draws, the middle hardly any, and the density does not fall towards the
    boundary. This excludes two modes well inside the interval.
    """
    if len(y) < FEWEST_DRAWS:
        return False
    emptier = min(np.mean(y < 0.1), np.mean(y > 0.9))
    if emptier < LEAST_SHARE or np.mean((y > 0.25) & (y < 0.75)) / 5.0 > EMPTIER * emptier:
        return False
    # signed distance from the boundary, on a circle of length 1
    near = np.where(y < 0.5, y, y - 1.0)
    near = near[np.abs(near) < 0.1]
    return bool(np.mean(np.abs(near) < NEAREST[0] * near.std()) >= NEAREST[1])


def against_prior(model: Model, draws: np.ndarray) -> list[str]:
    """Return the names of the parameters whose draws (n, d) contradict their prior."""
    if not isinstance(model.prior, JointPrior) or not len(draws):
        return []
    return model.prior.contradicted(model.constrain(draws))


@dataclass(frozen=True)
class FinishedRun:
    """A finished run, as the warnings see it.

    Attributes
    ----------
    sampler : str
        Its name.
    found : mapping
        Results of :func:`kmc.run.run_statistics.run_statistics`; not used if there are no draws.
    reports : sequence of mappings
        The report of each independent run's sampler.
    made : int
        Draws per chain.
    draws : int or None
        Draws per chain that were requested.
    precision : tuple of float, optional
        The largest error that was asked for, and the one that was reached, in standard deviations.
    cut : {"", "stopped", "callback", "max_time", "interrupted"}
        What ended the run before it was complete: nothing, the caller, the callback, the clock, or
        Ctrl-C.
    rejected : Rejections
        Evaluations where the function failed.
    density_range : tuple of float, optional
        The lowest and highest value of the function, if they are those of a density rather than of
        its logarithm.
    spent : Spent
        Cost of the run, for numbers in the advice.
    ends : sequence of AtBothEnds
        Scalars whose draws lie at both of their bounds.
    contradiction : str
        How draws and surrogate differ: see :mod:`kmc.run.run_statistics`.
    against_prior : sequence of str
        Names of the parameters whose draws lie where their prior is nearly zero.
    has_evaluations : bool
        Whether the result holds the evaluations, from which a surrogate answers.
    """

    sampler: str
    found: Mapping[str, float]
    reports: Sequence[Mapping[str, Any]]
    made: int
    draws: int | None
    cut: str = ""
    rejected: Rejections = NONE
    density_range: tuple[float, float] | None = None
    spent: Spent = UNKNOWN
    ends: Sequence[AtBothEnds] = ()
    contradiction: str = ""
    against_prior: Sequence[str] = ()
    precision: tuple[float, float] | None = None
    has_evaluations: bool = False

    @cached_property
    def facts(self) -> Mapping[str, Any]:
        """Return the report of the independent run with the worst surrogate."""
        return max(self.reports, key=lambda report: report.get("surrogate_loo_sd", np.inf))

    @property
    def noise_sd(self) -> float:
        """Return the standard deviation of the values' noise; 0 if they have none."""
        return self.facts.get("noise_sd") or 0.0

    @property
    def learned(self) -> bool:
        """Return whether the default sampler ran, on exact values.

        Its surrogate then explains the acceptance.
        """
        return self.sampler == "kernel-hmc" and not self.facts.get("noisy")

    @cached_property
    def error_of_spread(self) -> tuple[str, float]:
        """Return the worst measure of spread, and its relative standard error: 0 if unknown."""
        width, sd = np.nan_to_num([self.found["width_error"], self.found["sd_error"]])
        return (
            ("standard deviation", sd)
            if sd > width
            else ("distance of the 5 % and 95 % quantiles", width)
        )

    @cached_property
    def remedies(self) -> Remedies:
        """Return advice in numbers, by effective draws.

        These are those of the tails, or of a Gaussian with the same error of spread.
        """
        error = self.error_of_spread[1]
        as_gaussian = LEAST_TAIL_ESS * (LARGEST_WIDTH_ERROR / error) ** 2 if error > 0 else np.inf
        return Remedies.of(
            self.spent, self.made, min(self.found["tail_ess"], as_gaussian, self.found["bulk_ess"])
        )

    def not_checked(self) -> list[str]:
        """Return sentences about what the run could not check about its draws."""
        if self.sampler != "kernel-hmc":
            return [
                "Further modes, and mass where no draws are: without a frozen surrogate there is "
                "nothing to compare the draws with. Compare with a second run, or with kernel-hmc."
            ]
        if self.facts.get("noisy"):
            return [
                "Further modes: as values are noisy, no points without draws near them were "
                "looked for."
            ]
        return [
            "Further modes: the draws were compared with the evaluated points alone; compare with "
            "a second run."
        ]


def attainable_acceptance(noise_sd: float) -> float:
    """Return the acceptance of proposals from the target itself, with Gaussian noise.

    It is 2 Φ(-sd / sqrt(2)) for noise of standard deviation sd, and 1 without noise.

    References
    ----------
    .. [1] Pitt, Silva, Giordani and Kohn (2012), "On some properties of Markov chain Monte Carlo
       simulation methods based on the particle filter", Journal of Econometrics 171.
    """
    return math.erfc(0.5 * noise_sd)
