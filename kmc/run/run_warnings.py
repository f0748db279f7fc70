"""Warnings about a finished run: one sentence each, with advice, and a code (:mod:`kmc.run.warning_codes`).

``benchmarks/warning_rates.py`` measures how many wrong runs these warnings name and how many right ones; the limits
were set there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kmc.run.budget import UNKNOWN, Remedies, Spent, draws_cost, extension
from kmc.run.evaluation_summary import NONE, Rejections
from kmc.run.run_statistics import AtBothEnds

# Limits. "Rates": set so that in benchmarks/warning_rates.py wrong runs get warnings and right ones do not; the others
# were set by hand, for the stated reason.
FEWEST_ACCEPTED = 0.1  # of any sampler's proposals that could be accepted
FEWEST_ACCEPTED_CHAINS = 0.4  # of the default sampler's: half of what a good surrogate has
LARGEST_RHAT = 1.05  # for many draws (rates)
RHAT_OF_SHORT = 5.0  # divided by the number of draws, added to it: independent draws stay below
LONGEST_STAY = 8.0  # times the stay that the acceptance rate explains, and also (rates)
LEAST_STAY = 0.01  # of a chain: at 5 sd, a hundredth of one of four chains shifts a mean by .0125 sd
LEAST_TAIL_ESS = 100.0  # (rates)
LARGEST_WIDTH_ERROR = 0.125  # of the distance of these quantiles: it is then off by a quarter in one of twenty runs
LEAST_BULK_ESS = 50.0  # a mean is then off by .14 sd at most in two of three runs; with modes, so are their weights
LEAST_P = -4.0  # log10 of the p-value of a drift or a disagreement (rates)
CURVED_SD = 1.2  # nats by which the best quadratic misses the log-density (rates)
CURVED_SPREAD = 100.0  # of the learned metric (rates)
FEWEST_ACCEPTED_FROM_TAILS = 0.15  # (rates)
FEWEST_ACCEPTED_FROM_CURVED_TAILS = 0.6  # and also (rates)
LEAST_SHARE_IN_CURVED_TAILS = 0.7  # relative to the overall acceptance, which is lower in many dimensions (rates)
LEAST_SHARE_FROM_TAILS = 0.6  # of other samplers; on bananas 0.1 to 0.7, without curvature 0.62 to 2
THOROUGH_TAIL_ESS = 1000.0  # with so many draws from the tails, no warning that they may be cut short (rates)
LEAST_SHARE_FROM_NECKS = 0.5  # acceptance from a tail relative to the overall one, if a funnel was found: eight schools
LARGEST_LOO = 1.0  # nats
LOUD = 1.7  # nats of noise: less than a quarter of the proposals can be accepted
MANY_NONFINITE = 0.01  # of all evaluations, or of those near the draws
LONG_NOISY_STAY = 0.2  # fraction of a noisy chain in one state: with noise of sd 1, one run in several hundred
LEAST_NOISY_STAY = 50  # and at least so many draws
_SHOWN = 6  # coordinates of a place
_NAMED = 5  # parameters


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
        """The report of the independent run with the worst surrogate."""
        return max(self.reports, key=lambda report: report.get("surrogate_loo_sd", np.inf))

    @property
    def noise_sd(self) -> float:
        """Standard deviation of the values' noise; 0 if they have none."""
        return self.facts.get("noise_sd") or 0.0


def run_warnings(run: FinishedRun) -> dict[str, str]:
    """Sentences about problems of the run, by code; empty if there are none."""
    said = _about_length(run) | _about_rejected(run.rejected)
    if run.density_range is not None:
        low, high = run.density_range
        said["not-a-logarithm"] = (
            f"All values of the function are between {low:.3g} and {high:.3g}, as those of a density: if it returns "
            "a density or a likelihood, return its logarithm."
        )
    if not run.made:
        return said
    remedies = Remedies.of(run.spent, run.made, min(*_tail_sizes(run.found), run.found["bulk_ess"]))
    said |= _about_chains(run, remedies)
    said |= _about_noise(run) if run.facts.get("noisy") else _about_stays(run, remedies)
    if min(report.get("n_history", 1) for report in run.reports) == 0:
        said["unused-history"] = (
            "The history was not used: at its highest points log_density differs from it by more than a nat. Give "
            "values of the same function, without the Jacobians that kmc adds."
        )
    if run.sampler == "score-hmc":
        said |= _about_estimator(run.facts)
    if run.contradiction:
        said["surrogate-disagrees"] = (
            f"The draws and the surrogate disagree: {run.contradiction}; {remedies.more}, or reparametrize."
        )
    if run.sampler == "kernel-hmc":
        said |= _about_surrogate(run, remedies)
        for report in run.reports:
            said |= _about_modes(report)
    else:
        said |= _about_tails_without_surrogate(run, remedies)
    if run.against_prior:
        said["against-prior"] = (
            f"The draws of {_listed(run.against_prior)} lie where the prior is nearly zero: data and "
            "prior contradict each other, and the draws end where the prior is zero in double "
            "precision; give a wider prior, and check units and data."
        )
    if run.ends:
        said["both-ends"] = _about_ends(run.ends)
    return said


def not_checked(run: FinishedRun) -> list[str]:
    """Sentences about what the run could not check about its draws."""
    if run.sampler != "kernel-hmc":
        return [
            "Further modes, and mass where no draws are: without a frozen surrogate there is nothing to "
            "compare the draws with. Compare with a second run, or with kernel-hmc."
        ]
    if run.facts.get("noisy"):
        return ["Further modes: as values are noisy, no points without draws near them were looked for."]
    return ["Further modes: the draws were compared with the evaluated points alone; compare with a second run."]


def _tail_sizes(found: Mapping[str, float]) -> tuple[float, float]:
    """Return the effective draws of the quantiles, and those of a Gaussian with the same error of its spread."""
    error = _error_of_spread(found)[1]
    return found["tail_ess"], LEAST_TAIL_ESS * (LARGEST_WIDTH_ERROR / error) ** 2 if error > 0 else np.inf


def _error_of_spread(found: Mapping[str, float]) -> tuple[str, float]:
    """Name what measures the spread worst, and return its relative standard error: 0 if none is known."""
    width, sd = np.nan_to_num([found["width_error"], found["sd_error"]])
    return ("standard deviation", sd) if sd > width else ("distance of the 5 % and 95 % quantiles", width)


def _about_length(run: FinishedRun) -> dict[str, str]:
    made, draws, cut = run.made, run.draws, run.cut
    learned = " Until then kmc.expectations answers from the surrogate." if run.has_evaluations else ""
    if cut == "interrupted":
        return {"interrupted": f"The run was interrupted after {made} draws per chain; the results hold those."}
    if cut in ("", "max_time") and made and run.precision is not None and run.precision[1] > run.precision[0]:
        return _about_precision(run, *run.precision)
    if cut == "max_time":
        if not made:
            said = f"max_time was reached during warm-up, and there are no draws: raise max_time.{learned}"
            return {"no-draws": said}
        if draws is None:
            return {}
        return {
            "few-draws": f"max_time was reached after {made} of {draws} draws per chain: raise max_time, or make the "
            f"others with {extension(draws - made)}."
        }
    if cut == "stopped" or cut == "callback":  # the caller knows that there are fewer draws
        said = f"The run was stopped within warm-up and has no draws: let it run longer.{learned}"
        return {} if made else {"no-draws": said}
    if not made:
        said = f"The run ended within warm-up and has no draws: raise max_evaluations or lower warmup.{learned}"
        return {"no-draws": said}
    if draws is not None and made < draws:
        enough = draws_cost(run.spent, made, draws)
        return {
            "few-draws": f"Only {made} of {draws} draws per chain were made before the run ended: raise "
            f"max_evaluations{enough}, or make the others with {extension(draws - made)}."
        }
    return {}


def _about_precision(run: FinishedRun, wanted: float, reached: float) -> dict[str, str]:
    if not math.isfinite(reached):
        return {}  # a coordinate never moved, which has a warning of its own
    needed = math.ceil(run.made * (reached / wanted) ** 2)
    return {
        "few-draws": f"The run ended with errors of up to {reached:.2g} standard deviations: precision={wanted:g} "
        f"needs about {needed:,} draws per chain, so raise what limits the run: draws, max_time or "
        f"max_evaluations{draws_cost(run.spent, run.made, needed)}."
    }


def _about_rejected(rejected: Rejections) -> dict[str, str]:
    said, n = {}, rejected.n_evaluations
    common = f"; {rejected.common}" if rejected.common else ""
    cut = 'the posterior is cut off there; repair the function or bound the parameters. idata.attrs["rejected"] has'
    if rejected.n_failed:
        said["failed-calls"] = (
            f"{rejected.n_failed} of {n} calls of log_density failed and were taken as -inf ({rejected.reasons}"
            f"{common}): {cut} some of these points."
        )
    near = f", and {rejected.near:.0%} of those near the draws" if rejected.near > MANY_NONFINITE else ""
    if rejected.n_nonfinite and (near or rejected.n_nonfinite > MANY_NONFINITE * n):
        said["nonfinite-values"] = (
            f"The log-density was NaN or +inf at {rejected.n_nonfinite} of {n} evaluations{near}, and taken as -inf"
            f'{common}: {cut} some of these points, and nonfinite="raise" ends the run at the first.'
        )
    return said


def _about_chains(run: FinishedRun, remedies: Remedies) -> dict[str, str]:
    said, found = {}, run.found
    if found["acceptance"] < FEWEST_ACCEPTED * attainable_acceptance(run.noise_sd):
        said["low-acceptance"] = (
            f"Only {found['acceptance']:.1%} of the proposals were accepted: {remedies.more}, start at "
            "points of kmc.find_start, or reparametrize."
        )
    if found["rhat"] == np.inf:
        return said | {
            "constant-coordinate": "A coordinate never moved, in all chains or in a part of one: the draws are "
            "useless; start at points of kmc.find_start, or reparametrize."
        }
    if found["rhat"] > LARGEST_RHAT + RHAT_OF_SHORT / run.made:
        said["chains-disagree"] = (
            f"The chains disagree (R-hat {found['rhat']:.2f}): they have not converged; {remedies.more}, start "
            "at points of kmc.find_start, or reparametrize."
        )
    if found["disagreement"] < LEAST_P:
        said["runs-disagree"] = (
            f"The independent runs disagree on a mean or a tail ({_p_value(found['disagreement'])}): what "
            f"one run missed, all may have missed; {remedies.several}, or reparametrize."
        )
    if found["burn_in"] > 0:
        said["burn-in"] = (
            f"A chain begins with {found['burn_in']} draws far below the log-densities of the others: it "
            "had not reached the posterior; leave out as many draws of each chain, as with "
            f"idata.sel(draw=slice({found['burn_in']}, None)), or {remedies.more}."
        )
    if found["drift"] < LEAST_P:
        said["drift"] = (
            f"The draws still change from one fifth of the run to the next ({_p_value(found['drift'])}): "
            f"{remedies.more}, so that warm-up is longer, or start at points of kmc.find_start."
        )
    if found["tail_ess"] < LEAST_TAIL_ESS:
        said["few-tail-draws"] = (
            f"The 5 % and 95 % quantiles rest on {found['tail_ess']:.0f} effective draws in the worst coordinate: "
            f"{remedies.draws}."
        )
    elif (spread := _error_of_spread(found))[1] > LARGEST_WIDTH_ERROR:
        said["few-tail-draws"] = (
            f"The {spread[0]} has a standard error of {spread[1]:.0%} in the worst coordinate: {remedies.draws}."
        )
    elif found["bulk_ess"] < LEAST_BULK_ESS:
        said["few-effective-draws"] = (
            f"The means rest on {found['bulk_ess']:.0f} effective draws in the worst coordinate: {remedies.draws}."
        )
    return said


def _p_value(log10: float) -> str:
    return f"p = {10.0**log10:.0e}" if log10 > -10.0 else "p < 1e-10"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")


def _about_ends(ends: Sequence[AtBothEnds]) -> str:
    name, low, high, declared = ends[0]
    which = _listed([each.name for each in ends])
    half = 0.5 * (high - low)
    if declared:
        remedy = f"declare it as kmc.Circular({low:.6g}, {high:.6g})"
    else:
        remedy = f"move the interval by half its length, to ({low - half:.6g}, {high - half:.6g})"
    return (
        f"The draws of {which} lie at both ends of the interval and hardly any in between: if this is an angle or a "
        f"phase, its boundary cuts the posterior in two; {remedy} (here for {name})."
    )


def _about_stays(run: FinishedRun, remedies: Remedies) -> dict[str, str]:
    found = run.found
    if found["stay"] > LONGEST_STAY and found["longest_stay"] > LEAST_STAY * run.made:
        return {
            "stuck-chain": f"A chain stayed in one state {found['stay']:.0f} times as long as its acceptance explains: "
            f"proposals hardly reach some regions; {remedies.more}, or reparametrize."
        }
    return {}


def _about_noise(run: FinishedRun) -> dict[str, str]:
    """Noise lowers acceptance as misfit does: warn only of loud noise, and of chains stuck at too high an estimate."""
    said, noise_sd = {}, run.noise_sd
    if noise_sd > LOUD:
        times = int(np.ceil(np.expm1(noise_sd**2) / np.expm1(1.0)))
        said["loud-noise"] = (
            f"The noise of log_density has a sd of about {noise_sd:.1f} nats, so few proposals can be accepted: "
            f"average about {times} times as many simulations in each estimate, for a sd near 1."
        )
    longest = run.found["longest_stay"]
    if longest > max(LONG_NOISY_STAY * run.made, LEAST_NOISY_STAY):
        said["stuck-chain"] = (
            f"A chain stayed {longest:.0f} draws in one state, whose estimate was far too high: average more "
            "simulations in each estimate, or allow more evaluations."
        )
    return said


def _about_surrogate(run: FinishedRun, remedies: Remedies) -> dict[str, str]:
    found, facts = run.found, run.facts
    said = {}
    error = _beyond_noise(facts["surrogate_loo_sd"], run.noise_sd)
    if error > LARGEST_LOO:
        said["poor-surrogate"] = (
            f"The surrogate misses the log-density by {error:.1f} nats (sd of its predictions): expect slow mixing in "
            f"places; {remedies.more}, or reparametrize."
        )
    if facts.get("noisy"):
        return said
    if "surrogate_wall" in facts and found["acceptance"] < FEWEST_ACCEPTED_CHAINS:
        said["wall"] = (
            f"The density is zero at {facts['surrogate_wall_share']:.0%} of the evaluations near the bulk: the "
            f"allowed region seems to end at {facts['surrogate_wall']}, and proposals are lost behind it; give the "
            "parameters supports without the wall (kmc.Positive, LowerBound, UpperBound, Interval, Simplex, Ordered), "
            "or make the first coordinate the distance from it."
        )
    if FEWEST_ACCEPTED <= found["acceptance"] < FEWEST_ACCEPTED_CHAINS:
        said["low-acceptance"] = (
            f"Only {found['acceptance']:.0%} of the proposals were accepted, while a good surrogate has 80 %: "
            f"{remedies.more}, or reparametrize."
        )
    return said | _about_tails(run, remedies)


def _about_tails(run: FinishedRun, remedies: Remedies) -> dict[str, str]:
    """At most one warning, of the most specific reason why proposals from a tail are rejected."""
    found, facts = run.found, run.facts
    if found["tail_ess"] > THOROUGH_TAIL_ESS:
        return {}
    accepted, missed = found["tail_acceptance"], facts["surrogate_trend_sd"]
    curved = missed > CURVED_SD and facts["surrogate_metric_spread"] > CURVED_SPREAD
    in_tails = min(FEWEST_ACCEPTED_FROM_CURVED_TAILS, LEAST_SHARE_IN_CURVED_TAILS * found["acceptance"])
    if curved and accepted < in_tails:
        return {
            "curved-ridge": f"Too few evaluations for such a curved ridge (a quadratic misses it by {missed:.1f} nats, "
            f"and only {accepted:.0%} of the proposals from a tail were accepted): tails may be cut short; "
            f"{remedies.several}, or reparametrize."
        }
    if facts.get("surrogate_driver") is not None and accepted < LEAST_SHARE_FROM_NECKS * found["acceptance"]:
        return {
            "funnel-neck": "A parameter sets the scale of others (a funnel), and only "
            f"{accepted:.0%} of the proposals from a tail were accepted: the funnel's neck may be cut short; "
            "reparametrize: sample standard normal variables and multiply them by the scale (the non-centered form)."
        }
    if accepted < FEWEST_ACCEPTED_FROM_TAILS:
        return {
            "poor-tails": f"Only {accepted:.0%} of the proposals from a tail were accepted: it may be cut short; "
            f"{remedies.more}, or reparametrize."
        }
    return {}


def _about_tails_without_surrogate(run: FinishedRun, remedies: Remedies) -> dict[str, str]:
    """Local and screened proposals are accepted from a tail as often as elsewhere, unless it is curved or unknown."""
    found = run.found
    least = LEAST_SHARE_FROM_TAILS * found["acceptance"]
    if found["tail_ess"] > THOROUGH_TAIL_ESS or not found["tail_acceptance"] < least:
        return {}
    return {
        "poor-tails": f"Only {found['tail_acceptance']:.0%} of the proposals from a tail were accepted, and "
        f"{found['acceptance']:.0%} of all: it may be cut short; {remedies.more}, or use kernel-hmc."
    }


def _about_modes(facts: Mapping[str, Any]) -> dict[str, str]:
    if not facts.get("modes_left"):
        return {}
    *position, value = max(facts["modes_left"], key=lambda mode: mode[-1])
    place = ", ".join(f"{x:.3g}" for x in position[:_SHOWN]) + (", ..." if len(position) > _SHOWN else "")
    mass = f" with {facts['mass_left']:.0%} of the mass by the surrogate" if facts.get("mass_left") else ""
    return {
        "unvisited-mode": f"The log-density is {value:.1f} near ({place}), where no chain has been: possibly another "
        f"mode{mass}; start chains there, or allow several times as many evaluations."
    }


def _about_estimator(facts: Mapping[str, Any]) -> dict[str, str]:
    if "surrogate_acceptance_rate" not in facts:
        why = facts.get("refit_error", "warm-up was too short for a fit")
        return {
            "no-surrogate": f"There was no surrogate ({why}), so all draws came from a random walk: raise warmup "
            "or max_evaluations, or use another surrogate."
        }
    if facts["n_failed_refits"]:
        return {
            "failed-fits": f"Of the {facts['surrogate']}, {facts['n_failed_refits']} fits failed, and the last good "
            f"one stayed in use ({facts['refit_error']}): regularize it more, or use another one."
        }
    return {}


def _beyond_noise(sd: float, noise_sd: float) -> float:
    """Return the standard deviation of residuals without the part of the noise."""
    return float(np.sqrt(max(sd**2 - noise_sd**2, 0.0)))


def attainable_acceptance(noise_sd: float) -> float:
    """Return the acceptance of proposals from the target itself, with Gaussian noise of this standard deviation.

    It is 2 Φ(-sd / sqrt(2)), and 1 without noise.

    References
    ----------
    .. [1] Pitt, Silva, Giordani and Kohn (2012), "On some properties of Markov chain Monte Carlo simulation methods
       based on the particle filter", Journal of Econometrics 171.
    """
    return math.erfc(0.5 * noise_sd)
