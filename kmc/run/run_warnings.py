"""One table of the warnings about a finished run: code, check, sentence with advice, and help.

A new warning is a function that returns what was found and what to do, and a record of it in
``WARNINGS``. The codes that users see, the page ``docs/warnings.md`` and the pages of
:func:`kmc.report` come from this table. ``benchmarks/warning_rates.py`` measures how many wrong
runs these warnings name and how many right ones; the limits were set there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kmc.convergence import LARGEST_RHAT
from kmc.run.budget import draws_cost, extension
from kmc.run.problems import RunWarning, Said
from kmc.run.run_statistics import (
    LARGEST_WIDTH_ERROR,
    LEAST_TAIL_ESS,
    FinishedRun,
    attainable_acceptance,
)

# Limits. "Rates": set so that in benchmarks/warning_rates.py wrong runs get warnings and right ones
# do not; the others were set by hand, for the stated reason.
FEWEST_ACCEPTED = 0.1  # of any sampler's proposals that could be accepted
FEWEST_ACCEPTED_CHAINS = 0.4  # of the default sampler's: half of what a good surrogate has
RHAT_OF_SHORT = 5.0  # divided by the number of draws, added to it: independent draws stay below
LONGEST_STAY = 8.0  # times the stay that the acceptance rate explains, and also (rates)
# of a chain: at 5 sd, a hundredth of one of four chains shifts a mean by 0.0125 sd
LEAST_STAY = 0.01
# a mean is then off by 0.14 sd at most in two of three runs; with modes, so are their weights
LEAST_BULK_ESS = 50.0
LEAST_P = -4.0  # log10 of the p-value of a drift or a disagreement (rates)
CURVED_SD = 1.2  # nats by which the best quadratic misses the log-density (rates)
CURVED_SPREAD = 100.0  # of the learned metric (rates)
FEWEST_ACCEPTED_FROM_TAILS = 0.15  # (rates)
FEWEST_ACCEPTED_FROM_CURVED_TAILS = 0.6  # and also (rates)
# relative to the overall acceptance, which is lower in many dimensions (rates)
LEAST_SHARE_IN_CURVED_TAILS = 0.7
# of other samplers; on bananas 0.1 to 0.7, without curvature 0.62 to 2
LEAST_SHARE_FROM_TAILS = 0.6
# with so many draws from the tails, no warning that they may be cut short (rates)
THOROUGH_TAIL_ESS = 1000.0
# acceptance from a tail relative to the overall one, if a funnel was found: eight schools
LEAST_SHARE_FROM_NECKS = 0.5
LARGEST_LOO = 1.0  # nats
# nats, at the states of the fit; on normal densities and rings at most 0.3, on bananas to 4
LARGEST_MISFIT = 0.5
LOUD = 1.7  # nats of noise: less than a quarter of the proposals can be accepted
MANY_NONFINITE = 0.01  # of all evaluations, or of those near the draws
# fraction of a noisy chain in one state: with noise of sd 1, one run in several hundred
LONG_NOISY_STAY = 0.2
LEAST_NOISY_STAY = 50  # and at least so many draws
_SHOWN = 6  # coordinates of a place
_NAMED = 5  # parameters

# The length of the run


def _interrupted(run: FinishedRun) -> Said:
    if run.cut != "interrupted":
        return None
    return f"The run was interrupted after {run.made} draws per chain", "the results hold those"


def _no_draws(run: FinishedRun) -> Said:
    if run.made or run.cut == "interrupted":
        return None
    learned = (
        ". Until then kmc.expectations answers from the surrogate" if run.has_evaluations else ""
    )
    if run.cut == "max_time":
        return (
            "max_time was reached during warm-up, and there are no draws",
            f"raise max_time{learned}",
        )
    if run.cut:  # by the caller
        return "The run was stopped within warm-up and has no draws", f"let it run longer{learned}"
    return (
        "The run ended within warm-up and has no draws",
        f"raise max_evaluations or lower warmup{learned}",
    )


def _few_draws(run: FinishedRun) -> Said:
    made, draws = run.made, run.draws
    if run.cut not in ("", "max_time"):  # the caller knows that there are fewer draws
        return None
    # for the consequences
    enough = run.remedies.enough if _few_tail_draws(run) or _few_effective_draws(run) else 0
    if run.precision is not None and run.precision[1] > run.precision[0]:
        wanted, reached = run.precision
        if not math.isfinite(reached):  # a coordinate never moved, which has a warning of its own
            return None
        needed = math.ceil(made * (reached / wanted) ** 2)
        cost = draws_cost(run.spent, made, max(needed, enough))
        return (
            f"The run ended with errors of up to {reached:.2g} standard deviations, and "
            f"precision={wanted:g} needs about {needed:,} draws per chain",
            f"raise what limits the run, draws, max_time or max_evaluations{cost}",
        )
    if draws is None or (made >= draws and not run.cut):
        return None
    enough = max(draws, enough)
    others = f"or make more with {extension(enough - made)}"
    if run.cut:
        return (
            f"max_time was reached after {made} of {draws} draws per chain",
            f"raise max_time, {others}",
        )
    return (
        f"Only {made} of {draws} draws per chain were made before the run ended",
        f"raise max_evaluations{draws_cost(run.spent, made, enough)}, {others}",
    )


# The values of the log-density

_CUT = (
    "the posterior is cut off there; repair the function or bound the parameters. "
    'idata.attrs["rejected"] has some of'
)


def _not_a_logarithm(run: FinishedRun) -> Said:
    if run.density_range is None:
        return None
    low, high = run.density_range
    return (
        f"All values of the function are between {low:.3g} and {high:.3g}, as those of a density",
        "if it returns a density or a likelihood, return its logarithm",
    )


def _failed_calls(run: FinishedRun) -> Said:
    rejected = run.rejected
    if not rejected.n_failed:
        return None
    why = "; ".join(filter(None, [rejected.reasons, rejected.common]))
    return (
        f"{rejected.n_failed} of {rejected.n_evaluations} calls of log_density failed and were "
        f"taken as -inf ({why})",
        f"{_CUT} these points",
    )


def _nonfinite_values(run: FinishedRun) -> Said:
    rejected, n = run.rejected, run.rejected.n_evaluations
    near = (
        f", and {rejected.near:.0%} of those near the draws"
        if rejected.near > MANY_NONFINITE
        else ""
    )
    if not rejected.n_nonfinite or not (near or rejected.n_nonfinite > MANY_NONFINITE * n):
        return None
    common = f"; {rejected.common}" if rejected.common else ""
    return (
        f"The log-density was NaN or +inf at {rejected.n_nonfinite} of {n} evaluations{near}, and "
        f"taken as -inf{common}",
        f'{_CUT} these points, and nonfinite="raise" ends the run at the first',
    )


def _unused_history(run: FinishedRun) -> Said:
    if min(report.get("n_history", 1) for report in run.reports) > 0:
        return None
    return (
        "The history was not used, as at its highest points log_density differs from it by more "
        "than a nat",
        "give values of the same function, without the Jacobians that kmc adds",
    )


def _against_prior(run: FinishedRun) -> Said:
    if not run.against_prior:
        return None
    return (
        f"The draws of {_listed(run.against_prior)} lie where the prior is nearly zero, and end "
        "where it is zero in double precision, so that data and prior contradict each other",
        "give a wider prior, and check units and data",
    )


def _both_ends(run: FinishedRun) -> Said:
    if not run.ends:
        return None
    name, low, high, declared = run.ends[0]
    half = 0.5 * (high - low)
    if declared:
        remedy = f"declare it as kmc.Circular({low:.6g}, {high:.6g})"
    else:
        remedy = f"move the interval by half its length, to ({low - half:.6g}, {high - half:.6g})"
    return (
        f"The draws of {_listed([each.name for each in run.ends])} lie at both ends of the "
        "interval and hardly any in between",
        f"if this is an angle or a phase, its boundary cuts the posterior in two; {remedy} (here "
        f"for {name})",
    )


def _unvisited_mode(run: FinishedRun) -> Said:
    reports = [report for report in run.reports if report.get("modes_left")]
    if run.sampler != "kernel-hmc" or not reports:
        return None
    *position, value = max(reports[-1]["modes_left"], key=lambda mode: mode[-1])
    place = ", ".join(f"{x:.3g}" for x in position[:_SHOWN]) + (
        ", ..." if len(position) > _SHOWN else ""
    )
    share = reports[-1].get("mass_left")
    mass = f" with {share:.0%} of the mass by the surrogate" if share else ""
    return (
        f"The log-density is {value:.1f} near ({place}), where no chain has been",
        f"possibly another mode{mass}; start chains there, or allow several times as many "
        f"evaluations",
    )


def _loud_noise(run: FinishedRun) -> Said:
    sd = run.noise_sd
    if not run.facts.get("noisy") or not sd > LOUD:
        return None
    times = int(np.ceil(np.expm1(sd**2) / np.expm1(1.0)))
    return (
        f"The noise of log_density has a sd of about {sd:.1f} nats, so few proposals can be "
        f"accepted",
        f"average about {times} times as many simulations in each estimate, for a sd near 1",
    )


# The surrogate


def _no_surrogate(run: FinishedRun) -> Said:
    if run.sampler != "score-hmc" or "surrogate_acceptance_rate" in run.facts:
        return None
    why = run.facts.get("refit_error", "warm-up was too short for a fit")
    return (
        f"There was no surrogate ({why}), so all draws came from a random walk",
        "raise warmup or max_evaluations, or use another surrogate",
    )


def _failed_fits(run: FinishedRun) -> Said:
    facts = run.facts
    if run.sampler != "score-hmc" or not facts.get("n_failed_refits"):
        return None
    return (
        f"Of the {facts['surrogate']}, {facts['n_failed_refits']} fits failed, and the last good "
        f"one stayed in use ({facts['refit_error']})",
        "regularize it more, or use another one",
    )


def _wall(run: FinishedRun) -> Said:
    facts = run.facts
    if (
        not run.learned
        or "surrogate_wall" not in facts
        or not run.found["acceptance"] < FEWEST_ACCEPTED_CHAINS
    ):
        return None
    return (
        f"The density is zero at {facts['surrogate_wall_share']:.0%} of the evaluations near the "
        f"bulk, the allowed "
        f"region seems to end at {facts['surrogate_wall']}, and proposals are lost behind it",
        "give the parameters supports without the wall (kmc.Positive, LowerBound, UpperBound, "
        "Interval, Simplex, Ordered), or make the first coordinate the distance from it",
    )


def _curved_ridge(run: FinishedRun) -> Said:
    if not run.learned or run.found["tail_ess"] > THOROUGH_TAIL_ESS:
        return None
    accepted, missed = run.found["tail_acceptance"], run.facts["surrogate_trend_sd"]
    curved = missed > CURVED_SD and run.facts["surrogate_metric_spread"] > CURVED_SPREAD
    least = min(
        FEWEST_ACCEPTED_FROM_CURVED_TAILS, LEAST_SHARE_IN_CURVED_TAILS * run.found["acceptance"]
    )
    if not (curved and accepted < least):
        return None
    return (
        f"Too few evaluations for such a curved ridge (a quadratic misses it by {missed:.1f} "
        f"nats, and only {accepted:.0%} of the proposals from a tail were accepted), so that "
        "tails may be cut short",
        f"{run.remedies.several}, or reparametrize",
    )


def _funnel_neck(run: FinishedRun) -> Said:
    if (
        not run.learned
        or run.found["tail_ess"] > THOROUGH_TAIL_ESS
        or run.facts.get("surrogate_driver") is None
    ):
        return None
    accepted = run.found["tail_acceptance"]
    if not accepted < LEAST_SHARE_FROM_NECKS * run.found["acceptance"]:
        return None
    return (
        f"A parameter sets the scale of others (a funnel), and only {accepted:.0%} of the "
        "proposals from a tail were accepted, so that the funnel's neck may be cut short",
        "reparametrize with the non-centered form, which samples standard normal variables and "
        "multiplies them by the scale",
    )


def _poor_surrogate(run: FinishedRun) -> Said:
    if run.sampler == "score-hmc":
        misfit = max(report.get("surrogate_misfit_sd", 0.0) for report in run.reports)
        if not misfit > LARGEST_MISFIT:
            return None
        return (
            f"The estimate misses the log-density by {misfit:.1f} nats (sd at the states that it "
            "was fitted to), so paths may hardly reach parts of the posterior, such as its tails",
            f"{run.remedies.more}, or use kernel-hmc",
        )
    if run.sampler != "kernel-hmc":
        return None
    # without the part of the noise
    error = math.sqrt(max(run.facts["surrogate_loo_sd"] ** 2 - run.noise_sd**2, 0.0))
    if not error > LARGEST_LOO:
        return None
    return (
        f"The surrogate misses the log-density by {error:.1f} nats (sd of its predictions), so "
        "expect slow mixing in places",
        f"{run.remedies.more}, or reparametrize",
    )


def _surrogate_disagrees(run: FinishedRun) -> Said:
    if not run.contradiction:
        return None
    return (
        f"The draws and the surrogate disagree, as {run.contradiction}",
        f"{run.remedies.more}, or reparametrize",
    )


# The chains


def _constant_coordinate(run: FinishedRun) -> Said:
    if run.found["rhat"] != np.inf:
        return None
    return (
        "A coordinate never moved, in all chains or in a part of one, and the draws are useless",
        "start at points of kmc.find_start, or reparametrize",
    )


def _burn_in(run: FinishedRun) -> Said:
    n = run.found["burn_in"]
    if not n > 0:
        return None
    return (
        f"A chain begins with {n} draws far below the log-densities of the others, so it had not "
        f"reached the posterior",
        f"leave out as many draws of each chain, as with idata.sel(draw=slice({n}, None)), or "
        f"{run.remedies.more}",
    )


def _low_acceptance(run: FinishedRun) -> Said:
    rate = run.found["acceptance"]
    if rate < FEWEST_ACCEPTED * attainable_acceptance(run.noise_sd):
        return (
            f"Only {rate:.1%} of the proposals were accepted",
            f"{run.remedies.more}, start at points of kmc.find_start, or reparametrize",
        )
    if run.learned and rate < FEWEST_ACCEPTED_CHAINS:
        return (
            f"Only {rate:.0%} of the proposals were accepted, while a good surrogate has 80 %",
            f"{run.remedies.more}, or reparametrize",
        )
    return None


def _stuck_chain(run: FinishedRun) -> Said:
    longest, stay = run.found["longest_stay"], run.found["stay"]
    # noise lowers acceptance as misfit does: only chains stuck at too high an estimate
    if run.facts.get("noisy"):
        if not longest > max(LONG_NOISY_STAY * run.made, LEAST_NOISY_STAY):
            return None
        return (
            f"A chain stayed {longest:.0f} draws in one state, whose estimate was far too high",
            "average more simulations in each estimate, or allow more evaluations",
        )
    if not (stay > LONGEST_STAY and longest > LEAST_STAY * run.made):
        return None
    return (
        f"A chain stayed in one state {stay:.0f} times as long as its acceptance explains, so "
        "proposals hardly reach some regions",
        f"{run.remedies.more}, or reparametrize",
    )


def _runs_disagree(run: FinishedRun) -> Said:
    if not run.found["disagreement"] < LEAST_P:
        return None
    return (
        f"The independent runs disagree on a mean or a tail "
        f"({_p_value(run.found['disagreement'])}), and what one run "
        "missed, all may have missed",
        f"{run.remedies.several}, or reparametrize",
    )


def _chains_disagree(run: FinishedRun) -> Said:
    if not run.found["rhat"] > LARGEST_RHAT + RHAT_OF_SHORT / run.made:
        return None
    return (
        f"The chains disagree (R-hat {run.found['rhat']:.2f}) and have not converged",
        f"{run.remedies.more}, start at points of kmc.find_start, or reparametrize",
    )


def _drift(run: FinishedRun) -> Said:
    if not run.found["drift"] < LEAST_P:
        return None
    return (
        f"The draws still change from one fifth of the run to the next "
        f"({_p_value(run.found['drift'])})",
        f"{run.remedies.more}, so that warm-up is longer, or start at points of kmc.find_start",
    )


def _poor_tails(run: FinishedRun) -> Said:
    accepted, overall = run.found["tail_acceptance"], run.found["acceptance"]
    if run.found["tail_ess"] > THOROUGH_TAIL_ESS:
        return None
    if run.learned and accepted < FEWEST_ACCEPTED_FROM_TAILS:
        return (
            f"Only {accepted:.0%} of the proposals from a tail were accepted, which may be cut "
            f"short",
            f"{run.remedies.more}, or reparametrize",
        )
    # Local and screened proposals are accepted from a tail as often as elsewhere, unless it is
    # curved or unknown.
    if run.sampler != "kernel-hmc" and accepted < LEAST_SHARE_FROM_TAILS * overall:
        return (
            f"Only {accepted:.0%} of the proposals from a tail were accepted, and {overall:.0%} "
            "of all, so that it may be cut short",
            f"{run.remedies.more}, or use kernel-hmc",
        )
    return None


def _few_tail_draws(run: FinishedRun) -> Said:
    ess, (spread, error) = run.found["tail_ess"], run.error_of_spread
    if ess < LEAST_TAIL_ESS:
        found = (
            f"The 5 % and 95 % quantiles rest on {ess:.0f} effective draws in the worst coordinate"
        )
    elif error > LARGEST_WIDTH_ERROR:
        found = f"The {spread} has a standard error of {error:.0%} in the worst coordinate"
    else:
        return None
    return found, run.remedies.draws


def _few_effective_draws(run: FinishedRun) -> Said:
    ess = run.found["bulk_ess"]
    if not ess < LEAST_BULK_ESS:
        return None
    return (
        f"The means rest on {ess:.0f} effective draws in the worst coordinate",
        run.remedies.draws,
    )


def _p_value(log10: float) -> str:
    return f"p = {10.0**log10:.0e}" if log10 > -10.0 else "p < 1e-10"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")


_SHORT = ("few-tail-draws", "few-effective-draws")
_MIXING = ("stuck-chain", "chains-disagree", "drift", "poor-tails", *_SHORT)
_SLOW = ("low-acceptance", *_MIXING)

WARNINGS = (
    RunWarning(
        "interrupted",
        "Ctrl-C ended the run",
        _interrupted,
        "Ctrl-C ended the run; the draws so far are in the result. If the run has a store, the "
        "same call with "
        "`resume=True` continues it. See {doc}`stores`.",
        without_draws=True,
    ),
    RunWarning(
        "no-draws",
        "the run ended within warm-up",
        _no_draws,
        "The budget or the time was spent within warm-up, so there is no draw. Raise "
        "`max_evaluations` or "
        "`max_time`, or lower `warmup`. See {doc}`expensive`. Until then `kmc.expectations`, "
        "`kmc.evidence` and "
        "`kmc.resample` answer from the surrogate of the evaluations, with its own errors (pass "
        "`model=` if the "
        "parameters have names).",
        without_draws=True,
    ),
    RunWarning(
        "few-draws",
        "fewer draws were made than asked for",
        _few_draws,
        "Warm-up and the draws share the budget, and it was used up before `draws` were made. The "
        "draws that "
        "exist are valid. Raise `max_evaluations` or `max_time`, ask for fewer `draws`, or pass "
        "`draws=None` for "
        "as many as the budget allows. Or let the same chains make the missing ones: "
        "`kmc.extend(idata, "
        "draws=..., target=log_density)`. See {doc}`stores`.",
        explains=_SHORT,
    ),
    RunWarning(
        "not-a-logarithm",
        "all values look like those of a density, not of its logarithm",
        _not_a_logarithm,
        "All values of the function were between 0 and 1, or positive and close to 0 at many "
        "points, and none was negative. This is what a density or a likelihood looks like, and "
        "the function has to return its logarithm: otherwise the target is nearly flat, and the "
        "draws are wrong. Return `np.log(...)` of it or, better, compute with logarithms "
        "(`scipy.stats.norm.logpdf`), as densities underflow. A log-density that is meant to be "
        "nearly flat in a box is the only other case.",
        without_draws=True,
    ),
    RunWarning(
        "failed-calls",
        "calls of the log-density failed and were rejected",
        _failed_calls,
        'With `kmc.Model(..., on_error="reject")`, points where the function raises an exception, '
        "exceeds the "
        "time limit or ends its process are treated as if their density were zero. If the "
        "posterior extends to "
        "there, the draws are cut off. The warning says how often and why, and names the "
        "parameter that sets "
        "these points apart from the others, if there is one; "
        '`json.loads(idata.attrs["rejected"])` has some of '
        "them, the nearest to the draws first. Repair the function, give the parameter a support, "
        "or pass "
        '`on_error="retry"` if the same call can succeed.',
        without_draws=True,
    ),
    RunWarning(
        "nonfinite-values",
        "many values were NaN or +inf and were rejected",
        _nonfinite_values,
        "Points where the function returns NaN or +inf are treated as if their density were zero. "
        "If they are "
        "many, or some are near the draws, the posterior may extend to where the function fails: "
        "then the draws "
        "are cut off there. The warning names the parameter that such points have in common, and "
        '`json.loads(idata.attrs["rejected"])` has some of them. Repair the function or give the '
        "parameter a "
        'support. `kmc.Model(..., nonfinite="raise")` ends the run at the first such point, with '
        "an error that "
        "has the parameters.",
        without_draws=True,
    ),
    RunWarning(
        "unused-history",
        "the given history is of another function and was not used",
        _unused_history,
        "The values in `history=` differ from the log-density by more than a nat in the median "
        "where kmc evaluated it again. They were ignored; the draws are right. Pass values of the "
        "same function, and for named parameters values without Jacobians.",
    ),
    RunWarning(
        "against-prior",
        "the draws lie where a declared prior is nearly zero",
        _against_prior,
        "The likelihood draws a parameter more than about 27 standard deviations away from its "
        "prior: the data, their units or the prior are not what they should be. Beyond 38 "
        "standard deviations, where the prior is zero in double precision, there are no draws. "
        "Give a wider prior, or correct the data.",
    ),
    RunWarning(
        "both-ends",
        "draws lie at both ends of an interval: perhaps an angle",
        _both_ends,
        "Draws lie at both ends of an interval, but hardly between. If the parameter is an angle, "
        "the two ends "
        "are the same place: declare it as `kmc.Circular(low, high)` or `kmc.Angle()`.",
    ),
    RunWarning(
        "unvisited-mode",
        "evaluations show a mode where no chain has been",
        _unvisited_mode,
        "Some evaluations are far from all draws, and either as high as the highest of them or in "
        "a mode that has "
        'more than 5 % of the mass by the surrogate (`attrs["mass_left"]`): a wide mode has much '
        "mass although "
        'its log-density is low. `attrs["modes_left"]` has the points: start chains there, with '
        "`initial=`. "
        "`kmc.expectations` and `kmc.evidence` of the run repeat the warning, as no number made "
        "of such draws is "
        "right. See {doc}`shapes`.",
        of_draws=True,
    ),
    RunWarning(
        "loud-noise",
        "the noise of the log-density is too large",
        _loud_noise,
        "For a `noisy=True` model, the estimates of the log-density vary so much that few "
        "proposals are accepted. Use more simulations in each estimate: with a standard deviation "
        "of 1 a draw is worth a fifth of an independent one, with 1.7 a fortieth.",
        explains=_SLOW,
    ),
    RunWarning(
        "no-surrogate",
        "the given estimator was never fitted",
        _no_surrogate,
        "The estimator in `kmc.ScoreHMC(estimator)` was not fitted, because it raised an error or "
        "because warm-up was too short, so the chains moved by a random walk. Use more "
        "evaluations, a longer `warmup`, or another estimator.",
        explains=_SLOW,
        silences=("failed-fits",),
    ),
    RunWarning(
        "failed-fits",
        "some fits of the given estimator failed",
        _failed_fits,
        "The estimator in `kmc.ScoreHMC(estimator)` raised an error in some fits; older fits were "
        "kept. Give it more regularization, or take another estimator.",
        explains=_SLOW,
    ),
    RunWarning(
        "wall",
        "proposals are lost behind a wall of zero density",
        _wall,
        "Many proposals were lost because the log-density is -inf behind a border that the "
        "parameters do not "
        "declare. The warning says where the border is. Declare supports (`kmc.Positive`, "
        "`kmc.Interval`, "
        "`kmc.Simplex`, ...). See {doc}`parameters`.",
        explains=_SLOW,
    ),
    RunWarning(
        "curved-ridge",
        "too few evaluations for so curved a ridge: tails may be cut short",
        _curved_ridge,
        "The posterior is a strongly bent ridge, and the evaluations do not reach all of it: "
        "tails may be cut short. Several times as many evaluations are needed, or a "
        "parametrization in which the ridge is straight.",
        explains=("poor-surrogate", "surrogate-disagrees", *_SLOW),
        silences=("funnel-neck", "poor-tails"),
    ),
    RunWarning(
        "funnel-neck",
        "proposals hardly reach the neck of a funnel",
        _funnel_neck,
        "One parameter is the log-scale of others (a hierarchical model), and the chains hardly "
        "reach the narrow end. Write the model in the non-centered form: `theta = mean + scale * "
        "z` with a standard normal `z`.",
        explains=("poor-surrogate", "surrogate-disagrees", *_SLOW),
        silences=("poor-tails",),
    ),
    RunWarning(
        "poor-surrogate",
        "the surrogate misses the log-density by more than a nat, or a given estimator by half a "
        "nat",
        _poor_surrogate,
        "The last evaluations were predicted with an error of more than a nat. The draws are "
        "exact nevertheless, but there are few effective ones. More evaluations or another "
        "parametrization help: logs of scales, differences instead of nearly equal numbers. With "
        "`kmc.ScoreHMC`, the estimate differs by more than half a nat from the log-density at the "
        "states that it was fitted to, most often in a tail, which its paths then hardly reach: "
        "standard deviations may be too small.",
        explains=("surrogate-disagrees", *_SLOW),
    ),
    RunWarning(
        "constant-coordinate",
        "a coordinate never moved, in all chains or in part of one",
        _constant_coordinate,
        "A coordinate has the same value in all draws of a chain, or in a long part of it. Does "
        "the log-density use this parameter? Is its scale very different from the others'? "
        "Otherwise: better start points.",
        explains=("low-acceptance", "stuck-chain"),
        silences=("burn-in", "runs-disagree", "chains-disagree", "drift", *_SHORT),
    ),
    RunWarning(
        "burn-in",
        "the first draws of a chain are far below the log-densities of the others",
        _burn_in,
        "A chain had not reached the posterior when warm-up ended: its first draws have "
        "log-densities that hardly any draw of the posterior has. A few of them change means and "
        "standard deviations a lot. Leave them out, as with `idata.sel(draw=slice(50, None))`, or "
        "use more evaluations.",
        of_draws=True,
        explains=("drift",),
    ),
    RunWarning(
        "low-acceptance",
        "few proposals were accepted",
        _low_acceptance,
        "Few proposals were accepted, so the surrogate, or the random walk's scale, does not fit "
        "the target. More "
        "evaluations, better start points, or another parametrization help. If the log-density "
        "has bumps, which "
        "no smooth surrogate can follow, tighten the tolerances of an ODE solver, or use one with "
        "fixed steps. "
        "See {doc}`ode`.",
        explains=("surrogate-disagrees", *_MIXING),
    ),
    RunWarning(
        "stuck-chain",
        "a chain stayed in one state for much longer than its acceptance explains",
        _stuck_chain,
        "A chain stayed in one state for much longer than its acceptance rate explains: the "
        "state's density is much higher than the surrogate believes, and leaving it takes long. "
        "The stretch is counted correctly only in a much longer run. More evaluations help; for "
        "noisy targets, more simulations in each estimate.",
        of_draws=True,
        explains=("chains-disagree", "drift", *_SHORT),
    ),
    RunWarning(
        "runs-disagree",
        "independent runs differ in a mean or a tail",
        _runs_disagree,
        "With `independent_runs=2` the runs learn nothing from each other, and their means or "
        "tails differ by more than chance. Trust neither; use several times as many evaluations.",
        of_draws=True,
        explains=("chains-disagree", "surrogate-disagrees", "drift", *_SHORT),
    ),
    RunWarning(
        "chains-disagree",
        "R-hat is too large",
        _chains_disagree,
        "R-hat compares the chains with each other. A large value means that they have not mixed: "
        "often several modes, or starts from which warm-up was too short. Plot "
        "`kmc.plot_pairs(idata)`, and look for islands. More evaluations and start points that "
        "cover the posterior help. `kmc.diagnostics.slow_modes` says in which direction the "
        "chains differ.",
        of_draws=True,
        explains=("surrogate-disagrees", "drift", *_SHORT),
    ),
    RunWarning(
        "surrogate-disagrees",
        "the surrogate has mass where the few draws have none",
        _surrogate_disagrees,
        "The surrogate of a run of fewer than 400 draws has a tail or a mode where the draws are "
        "missing or too few, or, more rarely, is too high there itself. Use more evaluations, and "
        "compare with a second run.",
        of_draws=True,
    ),
    RunWarning(
        "drift",
        "the draws still change along the run",
        _drift,
        "The first and the last part of the chains differ: the run began far from the posterior's "
        "bulk, or moves slowly. More evaluations make warm-up longer. Better starts, from "
        "`kmc.find_start`, help too.",
        of_draws=True,
        explains=_SHORT,
    ),
    RunWarning(
        "poor-tails",
        "few proposals from a tail were accepted: it may be cut short",
        _poor_tails,
        "From one tail hardly any proposal was accepted, so that the draws there are few or "
        "missing. Use more evaluations, and compare the quantiles with a second run.",
        explains=_SHORT,
    ),
    RunWarning(
        "few-tail-draws",
        "too few effective draws for the 5 % and 95 % quantiles, or for the standard deviations",
        _few_tail_draws,
        "Tails rest on too few effective draws: for the 5 % and 95 % quantiles fewer than 100, or "
        "so few that their distance, or the standard deviation, has a standard error over an "
        "eighth, as with heavy tails. Draw more, with `kmc.extend(idata, draws=..., "
        "target=log_density)`, or let `kmc.expectations` correct the draws by the surrogate.",
        silences=("few-effective-draws",),
    ),
    RunWarning(
        "few-effective-draws",
        "too few effective draws for the means",
        _few_effective_draws,
        "The means, and with several modes their weights, rest on too few effective draws. Draw "
        "more, with `kmc.extend(idata, draws=..., target=log_density)`, or report standard errors "
        "beside them.",
    ),
)
"""All warnings, causes before what they explain."""

CODES: dict[str, str] = {warning.code: warning.meaning for warning in WARNINGS}
"""Meaning of each code."""

OF_DRAWS = tuple(warning.code for warning in WARNINGS if warning.of_draws)
"""Those that say that the draws are not of the posterior, so that no number from them is right."""
