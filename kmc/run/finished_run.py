"""A finished run, as its warnings see it: what was measured, and what would help."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kmc.run.budget import UNKNOWN, Remedies, Spent
from kmc.run.evaluation_summary import NONE, Rejections
from kmc.run.run_statistics import AtBothEnds

LEAST_TAIL_ESS = 100.0  # set in benchmarks/warning_rates.py
LARGEST_WIDTH_ERROR = 0.125  # of the distance of these quantiles: it is then off by a quarter in one of twenty runs


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
        What ended the run before it was complete: nothing, the caller, the callback, the clock, or Ctrl-C.
    rejected : Rejections
        Evaluations where the function failed.
    density_range : tuple of float, optional
        The lowest and highest value of the function, if they are those of a density rather than of its logarithm.
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

    @property
    def facts(self) -> Mapping[str, Any]:
        """Return the report of the independent run with the worst surrogate."""
        return max(self.reports, key=lambda report: report.get("surrogate_loo_sd", np.inf))

    @property
    def noise_sd(self) -> float:
        """Return the standard deviation of the values' noise; 0 if they have none."""
        return self.facts.get("noise_sd") or 0.0

    @property
    def learned(self) -> bool:
        """Return whether the default sampler ran, on exact values: its surrogate explains the acceptance."""
        return self.sampler == "kernel-hmc" and not self.facts.get("noisy")

    @property
    def error_of_spread(self) -> tuple[str, float]:
        """Return what measures the spread worst, and its relative standard error: 0 if none is known."""
        width, sd = np.nan_to_num([self.found["width_error"], self.found["sd_error"]])
        return ("standard deviation", sd) if sd > width else ("distance of the 5 % and 95 % quantiles", width)

    @property
    def remedies(self) -> Remedies:
        """Return advice in numbers, by effective draws of the tails or of a Gaussian with the same error of spread."""
        error = self.error_of_spread[1]
        as_gaussian = LEAST_TAIL_ESS * (LARGEST_WIDTH_ERROR / error) ** 2 if error > 0 else np.inf
        return Remedies.of(self.spent, self.made, min(self.found["tail_ess"], as_gaussian, self.found["bulk_ess"]))

    def not_checked(self) -> list[str]:
        """Return sentences about what the run could not check about its draws."""
        if self.sampler != "kernel-hmc":
            return [
                "Further modes, and mass where no draws are: without a frozen surrogate there is nothing to "
                "compare the draws with. Compare with a second run, or with kernel-hmc."
            ]
        if self.facts.get("noisy"):
            return ["Further modes: as values are noisy, no points without draws near them were looked for."]
        return ["Further modes: the draws were compared with the evaluated points alone; compare with a second run."]


def attainable_acceptance(noise_sd: float) -> float:
    """Return the acceptance of proposals from the target itself, with Gaussian noise of this standard deviation.

    It is 2 Φ(-sd / sqrt(2)), and 1 without noise.

    References
    ----------
    .. [1] Pitt, Silva, Giordani and Kohn (2012), "On some properties of Markov chain Monte Carlo simulation methods
       based on the particle filter", Journal of Econometrics 171.
    """
    return math.erfc(0.5 * noise_sd)
