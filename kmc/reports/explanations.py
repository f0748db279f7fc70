"""What to do about a warning, by its code: the sections of ``docs/warnings.md``, for pages that are read elsewhere."""

from __future__ import annotations

HELP: dict[str, str] = {
    "interrupted": (
        "Ctrl-C ended the run; the draws so far are in the result. If the run has a store, the same call with "
        "`resume=True` continues it."
    ),
    "no-draws": (
        "The budget or the time was spent within warm-up, so there is no draw. Raise `max_evaluations` or "
        "`max_time`, or lower `warmup`. As a rule, plan several hundred evaluations for two parameters and "
        "several thousand for ten."
    ),
    "few-draws": (
        "Warm-up and the draws share the budget, and it was used up before `draws` were made. The draws that "
        "exist are valid. Raise `max_evaluations` or `max_time`, ask for fewer `draws`, or pass `draws=None` for "
        "as many as the budget allows."
    ),
    "nonfinite-values": (
        'With `nonfinite="reject"`, points where the function returns NaN or +inf are treated as if their density '
        "were zero. Many of them mean that the posterior may extend to where the function fails: then the draws "
        'are cut off there. Run once with `kmc.Model(..., nonfinite="raise")` to see such a point, and repair the '
        "function or give the parameter a support."
    ),
    "not-a-logarithm": (
        "All values of the function were between 0 and 1, or positive and close to 0 at many points, and none was "
        "negative. This is what a density or a likelihood looks like, and the function has to return its logarithm: "
        "otherwise the target is nearly flat, and the draws are wrong. Return `np.log(...)` of it or, better, compute "
        "with logarithms (`scipy.stats.norm.logpdf`), as densities underflow. A log-density that is meant to be nearly "
        "flat in a box is the only other case."
    ),
    "loud-noise": (
        "For a `noisy=True` model, the estimates of the log-density vary so much that few proposals are accepted. "
        "Use more simulations in each estimate: with a standard deviation of 1 a draw is worth a fifth of an "
        "independent one, with 1.7 a fortieth."
    ),
    "rough-values": (
        "At pairs of close points the log-density differs by more than any smooth function would: bumps from "
        "a solver's tolerance, from a table, or from values with few digits. The surrogate averages over "
        "them, and each bump costs acceptance: with a sd of .7 nats at most 62 % of the proposals are "
        "accepted, with 1.7 nats 23 %. The draws are those of the rough density, and right for it. Tighten "
        "the tolerances of an ODE solver, or use one with fixed steps. If the function draws random numbers, "
        "pass `kmc.Model(..., noisy=True)`. The attribute `roughness_sd` of the result has the estimate."
    ),
    "unused-history": (
        "The values in `history=` differ from the log-density by more than a nat in the median where kmc "
        "evaluated it again. They were ignored; the draws are right. Pass values of the same function, and for "
        "named parameters values without Jacobians."
    ),
    "against-prior": (
        "The likelihood draws a parameter more than about 27 standard deviations away from its prior: the "
        "data, their units or the prior are not what they should be. Beyond 38 standard deviations, where "
        "the prior is zero in double precision, there are no draws. Give a wider prior, or correct the data."
    ),
    "both-ends": (
        "Draws lie at both ends of an interval, but hardly between. If the parameter is an angle, the two ends "
        "are the same place: declare it as `kmc.Circular(low, high)` or `kmc.Angle()`."
    ),
    "wall": (
        "Many proposals were lost because the log-density is -inf behind a border that the parameters do not "
        "declare. The warning says where the border is. Declare supports (`kmc.Positive`, `kmc.Interval`, "
        "`kmc.Simplex`, ...)."
    ),
    "low-acceptance": (
        "Few proposals were accepted, so the surrogate, or the random walk's scale, does not fit the target. More "
        "evaluations, better start points, or parameters on comparable scales help."
    ),
    "constant-coordinate": (
        "A coordinate has the same value in all draws of a chain, or in a long part of it. Does the log-density "
        "use this parameter? Is its scale very different from the others'? Otherwise: better start points."
    ),
    "chains-disagree": (
        "R-hat compares the chains with each other. A large value means that they have not mixed: often several "
        "modes, or starts from which warm-up was too short. Plot `kmc.plot_pairs(idata)`, and look for islands. "
        "More evaluations and start points that cover the posterior help. `kmc.diagnostics.slow_modes` says in "
        "which direction the chains differ."
    ),
    "runs-disagree": (
        "With `independent_runs=2` the runs learn nothing from each other, and their means or tails differ by "
        "more than chance. Trust neither; use several times as many evaluations."
    ),
    "burn-in": (
        "A chain had not reached the posterior when warm-up ended: its first draws have log-densities that "
        "hardly any draw of the posterior has. A few of them change means and standard deviations a lot. "
        "Leave them out, as with `idata.sel(draw=slice(50, None))`, or use more evaluations."
    ),
    "drift": (
        "The first and the last part of the chains differ: the run began far from the posterior's bulk, or moves "
        "slowly. More evaluations make warm-up longer. Better starts, from `kmc.find_start`, help too."
    ),
    "few-tail-draws": (
        "The 5 % and 95 % quantiles rest on too few effective draws: fewer than 100, or so few that the distance of "
        "the quantiles has a standard error over an eighth, as with heavy tails. Draw more, or let `kmc.expectations` "
        "correct the quantiles of the surrogate."
    ),
    "few-effective-draws": (
        "The means, and with several modes their weights, rest on too few effective draws. Draw more, or report "
        "standard errors beside them."
    ),
    "stuck-chain": (
        "A chain stayed in one state for much longer than its acceptance rate explains: the state's density is "
        "much higher than the surrogate believes, and leaving it takes long. The stretch is counted correctly "
        "only in a much longer run. More evaluations help; for noisy targets, more simulations in each estimate."
    ),
    "no-surrogate": (
        "Too few evaluations fell into warm-up to fit a surrogate, so the chains moved without one. Use more "
        "evaluations, or a longer `warmup`. A first fit of many parameters may need 200 evaluations for ten, 600 for "
        "thirty and 2,200 for sixty."
    ),
    "failed-fits": (
        "The estimator in `kmc.ScoreHMC(estimator)` raised an error in some fits; older fits were kept. Give it "
        "more regularization, or take another estimator."
    ),
    "poor-surrogate": (
        "Left-out evaluations are missed by more than a nat. The draws are exact nevertheless, but there are few "
        "effective ones. More evaluations or another parametrization help: logs of scales, differences instead of "
        "nearly equal numbers."
    ),
    "surrogate-disagrees": (
        "The surrogate of a run of fewer than 400 draws has a tail or a mode where the draws are missing or too few, "
        "or, more rarely, is too high there itself. Use more evaluations, and compare with a second run."
    ),
    "curved-ridge": (
        "The posterior is a strongly bent ridge, and the evaluations do not reach all of it: tails may be cut "
        "short. Several times as many evaluations are needed, or a parametrization in which the ridge is "
        "straight."
    ),
    "funnel-neck": (
        "One parameter is the log-scale of others (a hierarchical model), and the chains hardly reach the narrow "
        "end. Write the model in the non-centered form: `theta = mean + scale * z` with a standard normal `z`."
    ),
    "poor-tails": (
        "From one tail hardly any proposal was accepted, so that the draws there are few or missing. Use more "
        "evaluations, and compare the quantiles with a second run."
    ),
    "unvisited-mode": (
        'The log-density was evaluated, and is high, where no chain has been. `attrs["modes_left"]` has '
        "the points: start chains there, with `initial=`."
    ),
    "mode-weights": (
        "A mode's share of the draws does not match its mass on the surrogate. Use more evaluations, and compare "
        "with a second run from other starts."
    ),
}
"""Markdown: names of code are between backticks."""
