r"""Quality of a run's draws, compared with the truth.

Everything is computed per coordinate and reported for the worst one. ``ess(y)`` is ArviZ's
effective sample size of the mean of y over the chains, from this run's draws alone. A standard
error is that of a run with this effective size on the true distribution (so that a run that misses
the tails does not get small errors for it):

- mean: :math:`\mathrm{sd} / \sqrt{\mathrm{ess}(x)}`;
- sd: :math:`\mathrm{sd} \sqrt{(\kappa - 1) / 4\,\mathrm{ess}((x - \mu)^2)}`, with the true mean
  :math:`\mu` and kurtosis :math:`\kappa`; deviations are from the true mean;
- quantile at p: the fraction of draws below the true quantile is compared with p, in units of
  :math:`\sqrt{p (1 - p) / \mathrm{ess}(1[x \le q_p])}`;
- 5-95 % width: the slopes of the true quantile function convert the errors of the two fractions to
  errors of the two quantiles; they are added as if independent.

A run is called wrong if a mean is off by more than .1 true sd, or a 5-95 % width is outside
.93-1.07 of the true one, and by more than three standard errors.
"""

from __future__ import annotations

import math

import arviz as az
import numpy as np
from targets import TAILS, Truth

WIDTH_TOLERANCE = 0.07
BIAS_TOLERANCE = 0.1


def quality(draws: np.ndarray, truth: Truth) -> dict[str, float]:
    """Quality measures of the draws (chains, n, d).

    Returns
    -------
    dict
        ``ess`` and ``tail_ess``: the smallest bulk and tail ESS; ``rhat``: the largest;
        ``mean_error``, ``sd_error``, ``q05_error``, ``q95_error``: the largest, in standard errors;
        ``bias``: the largest error of a mean, in true sds; ``width_min`` and ``width_max``: 5-95 %
        widths over the true ones; ``width_excess``: the largest amount by which a width is further
        from 1 than .07 and three of its standard errors, negative if none is.
    """
    flat = draws.reshape(-1, draws.shape[-1])
    square = (draws - truth.mean) ** 2
    mean_deviation = np.abs(flat.mean(0) - truth.mean) / truth.sd
    mean_ess = _per_coordinate(draws, az.ess, method="mean")
    spread = np.sqrt((truth.kurtosis - 1) / 4 / _per_coordinate(square, az.ess, method="mean"))
    sd_deviation = np.abs(np.sqrt(square.mean((0, 1))) / truth.sd - 1)
    low_share, high_share = (_share_below(draws, q, p) for q, p in zip(truth.quantiles, TAILS))
    low, high = np.quantile(flat, TAILS, axis=0)
    true_width = truth.quantiles[1] - truth.quantiles[0]
    width = (high - low) / true_width
    width_error = (
        np.hypot(low_share[1] * truth.slopes[0], high_share[1] * truth.slopes[1]) / true_width
    )
    return {
        "ess": bulk_ess(draws),
        "tail_ess": _per_coordinate(draws, az.ess, method="tail", prob=(0.05, 0.95)).min(),
        "rhat": _per_coordinate(draws, az.rhat).max(),
        "mean_error": (mean_deviation * np.sqrt(mean_ess)).max(),
        "sd_error": (sd_deviation / spread).max(),
        "q05_error": (np.abs(low_share[0]) / low_share[1]).max(),
        "q95_error": (np.abs(high_share[0]) / high_share[1]).max(),
        "bias": mean_deviation.max(),
        "sd_ratio_error": sd_deviation.max(),
        "q05_shift": (np.abs(low - truth.quantiles[0]) / truth.sd).max(),
        "q95_shift": (np.abs(high - truth.quantiles[1]) / truth.sd).max(),
        "width_min": width.min(),
        "width_max": width.max(),
        "bias_excess": (mean_deviation - BIAS_TOLERANCE - 3 / np.sqrt(mean_ess)).max(),
        "width_excess": (np.abs(width - 1) - WIDTH_TOLERANCE - 3 * width_error).max(),
    }


def bulk_ess(draws: np.ndarray) -> float:
    """The smallest bulk ESS over coordinates, of draws (chains, n, d)."""
    return _per_coordinate(draws, az.ess, method="bulk").min()


def wrong(row: dict) -> bool:
    """Whether a row is of a run that a scientist must not be given; a run with missing numbers is
    wrong.
    """
    excess = row["bias_excess"], row["width_excess"]
    return any(value == "" or math.isnan(value) or value > 0 for value in excess)


def _share_below(draws, quantile, p):
    """Error (d,) of the fraction of draws below the true quantile, and its standard error (d,)."""
    below = (draws <= quantile).astype(float)
    return below.mean((0, 1)) - p, np.sqrt(
        p * (1 - p) / _per_coordinate(below, az.ess, method="mean")
    )


def _per_coordinate(draws, statistic, **options):
    return np.array([float(statistic(draws[:, :, i], **options)) for i in range(draws.shape[-1])])


# Summaries of a cell's seeds, and requirements on them

TIMES_BEST_PEER = {  # at 6,000 evaluations; 3 on the others
    **dict.fromkeys(
        ("banana-2d", "banana-8d", "gaussian-10d", "gaussian-30d", "gaussian-50d", "ring"), 20
    ),
    **dict.fromkeys(("logistic", "student-t-5d", "log-gamma-5d", "eight-schools"), 10),
    **dict.fromkeys(("fitzhugh-nagumo", "demo", "bimodal-2d", "bimodal-5d"), 5),
}
MAY_FAIL_WARNED = ("funnel-5d-sd3",)
FALSE_ALARMS, OVERHEAD_MS, MEMORY_MB = 0.05, 2, 600


def summarize(group: list[dict]) -> dict:
    """One row for the seeds of a cell: medians of costs, the worst of errors."""
    column = {name: [row[name] for row in group] for name in group[0]}
    is_wrong, warned = [wrong(row) for row in group], [row["warnings"] > 0 for row in group]
    worst = min(range(len(group)), key=lambda i: column["ess_per_1000"][i])
    largest = (
        "rhat",
        "mean_error",
        "sd_error",
        "q05_error",
        "q95_error",
        "bias",
        "sd_ratio_error",
        "q05_shift",
    )
    return {
        **{name: group[0][name] for name in ("target", "method", "budget", "dim")},
        "seeds": len(group),
        "ess_per_1000": float(np.median(column["ess_per_1000"])),
        "worst_ess_per_1000": column["ess_per_1000"][worst],
        "worst_seed": column["seed"][worst],
        "tail_ess_per_1000": float(np.median(column["tail_ess_per_1000"])),
        **{name: max(column[name]) for name in (*largest, "q95_shift", "width_max", "memory_mb")},
        "width_min": min(column["width_min"]),
        "wrong_unwarned": sum(w and not said for w, said in zip(is_wrong, warned)),
        "wrong_warned": sum(w and said for w, said in zip(is_wrong, warned)),
        "right_warned": sum(said and not w for w, said in zip(is_wrong, warned)),
        "wrong_seeds": " ".join(str(seed) for seed, w in zip(column["seed"], is_wrong) if w),
        "seconds": float(np.median(column["seconds"])),
        "overhead_ms": float(np.median(column["overhead_ms"])),
        "most_evaluations": max(column["evaluations"]),
    }


def best_peer(found: dict, target: str, peers, right: bool = False) -> dict | None:
    """The summary of the peer with the largest median ESS; with ``right``, among those with no
    wrong seed.
    """
    there = [found[target, peer] for peer in peers if (target, peer) in found]
    if right:
        there = [s for s in there if not s["wrong_unwarned"] + s["wrong_warned"]]
    return max(there, key=lambda s: s["ess_per_1000"], default=None)


def times(found: dict, target: str, peers, right: bool = False) -> float:
    """The default sampler's median ESS per evaluation over the best peer's; NaN if either is
    missing.
    """
    best = best_peer(found, target, peers, right)
    if best is None or (target, "kmc") not in found:
        return math.nan
    return found[target, "kmc"]["ess_per_1000"] / best["ess_per_1000"]


def bars(found: dict, budget: int, peers, noisy) -> list[str]:
    """Requirements on the default sampler at that budget, and whether they hold, one sentence each.

    `found` has the summaries of this budget by (target, method), `noisy` the names of the noisy
    targets.
    """
    ours = {target: s for (target, method), s in found.items() if method == "kmc"}
    plain = [target for target in ours if target not in noisy]
    ratio = {target: times(found, target, peers) for target in ours}
    lines = []

    def line(holds, text):
        lines.append(f"{'pass' if holds else 'FAIL'}  {text}")

    for target in plain:
        s, asked = ours[target], TIMES_BEST_PEER.get(target, 3) if budget < 20_000 else 1
        if not math.isnan(ratio[target]):
            among_right = times(found, target, peers, right=True)
            against = (
                "no peer is right"
                if math.isnan(among_right)
                else f"{among_right:.3g} times the best right one"
            )
            # the bar is relative to unbiased peers
            unbiased = math.inf if math.isnan(among_right) else among_right
            line(
                unbiased >= asked,
                f"{target}: {ratio[target]:.3g} times the best peer; {against} ({asked})",
            )
        may_be_warned = budget < 20_000 or target in MAY_FAIL_WARNED
        failed = s["wrong_unwarned"] + (0 if may_be_warned else s["wrong_warned"])
        which = f" ({s['wrong_seeds']})" if s["wrong_seeds"] else ""
        line(
            not failed,
            f"{target}: {s['wrong_unwarned']} of {s['seeds']} seeds wrong without a warning, "
            f"{s['wrong_warned']} with one{which}; means off by at most {s['bias']:.2g} sd, "
            f"widths {s['width_min']:.2f}–{s['width_max']:.2f}",
        )
    known = [ratio[target] for target in plain if not math.isnan(ratio[target])]
    if known and budget >= 20_000:
        many = sum(r >= 10 for r in known)
        line(
            many >= 0.75 * len(known),
            f"10 times the best peer on {many} of {len(known)} targets (three quarters)",
        )
    seen = [target for target in ours if target in noisy]
    if seen:
        good = [
            t
            for t in seen
            if ratio[t] >= 5 and not ours[t]["wrong_unwarned"] + ours[t]["wrong_warned"]
        ]
        line(
            len(good) >= 3,
            f"noisy: unbiased and 5 times the best baseline on {len(good)} of {len(seen)} (three)",
        )
    if plain:
        right = sum(s["seeds"] - s["wrong_unwarned"] - s["wrong_warned"] for s in ours.values())
        warned, hits = (
            sum(s[name] for s in ours.values()) for name in ("right_warned", "wrong_warned")
        )
        missed = sum(s["wrong_unwarned"] for s in ours.values())
        line(
            warned <= FALSE_ALARMS * right,
            f"{warned} of {right} right runs have a warning (at most 5 %)",
        )
        lines.append(f"      {hits} of {hits + missed} wrong runs have a warning")
        over = [s["target"] for s in found.values() if s["most_evaluations"] > budget]
        line(not over, f"no run exceeds its budget{': ' + ', '.join(over) if over else ''}")
    if plain and budget < 20_000:
        largest = max(plain, key=lambda target: ours[target]["memory_mb"])
        memory = ours[largest]["memory_mb"]
        line(memory < MEMORY_MB, f"at most {memory:.0f} MB, on {largest} (under {MEMORY_MB})")
        ten = [ours[target]["overhead_ms"] for target in plain if ours[target]["dim"] == 10]
        if ten:
            line(
                max(ten) < OVERHEAD_MS,
                f"{max(ten):.2f} ms an evaluation in ten dimensions (under {OVERHEAD_MS})",
            )
    return lines
