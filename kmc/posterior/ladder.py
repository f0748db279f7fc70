"""The evidence from a run of parallel tempering: all temperatures together.

The state at the inverse temperature β has the density π exp(β l) / Z_β, with the prior π and l =
log p - log π. The ratios of all Z_β are estimated from the l of all states by MBAR (Shirts and
Chodera 2008, Journal of Chemical Physics 129, which is Bennett's estimator for two densities): f_k
= -log Z_k solves

    Σ_n p_k(n) = N_k,    p_k(n) = N_k exp(f_k + β_k l_n) / Σ_j N_j exp(f_j + β_j l_n).

The evidence is Z_1 / Z_0, and Z_0 = 1 for a normalized prior. Z_0 is known from states at β = 0, if
there are any, and otherwise by weights 1 / Σ_j N_j exp(f_j + β_j l_n). The error is that of the
linearized estimate, a mean over sweeps (the "sandwich" of estimating equations), from the
autocorrelated series of each chain's ladder.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, optimize
from scipy.special import logsumexp

from kmc.convergence import squared_error

EXCESS = "tempered_log_density"
"""The statistic of a draw with the l of its ladder."""

# effective number of states with which an unsampled prior is reached; set by hand
_FEWEST_EFFECTIVE = 100.0
_LEAST_SWAPS = 0.02  # smallest rate of swaps between neighbors; set by hand


class LadderEstimate(NamedTuple):
    """log Z_1 / Z_0, its standard error, and what speaks against it."""

    log_evidence: float
    se: float
    doubts: str
    path: np.ndarray  # (3, steps): inverse temperatures from 0 to 1, and log Z_β / Z_0 there, twice


def is_tempered(idata: Any) -> bool:
    """Return whether a result is one of parallel tempering."""
    return idata.attrs.get("sampler") == "tempered"


def ladder_estimates(idata: Any, name: str) -> list[LadderEstimate]:
    """Estimate log Z_1 / Z_0 for each independent run of a result.

    Raises
    ------
    ValueError
        The ladder does not lead to the prior, or the result lacks a statistic or some of its
        chains.
    """
    stats = idata["sample_stats"]
    if EXCESS not in stats:
        raise ValueError(
            f"{name} has no {EXCESS} in its sample_stats: expected a result of kmc.Tempered; "
            f"sample again"
        )
    kinds, ladders, rates = (
        _of_runs(idata, fact) for fact in ("tempered", "temperatures", "swap_rates")
    )
    if "density" in kinds:
        raise ValueError(
            f"{name} is of a model whose prior is not known apart, so that its ladder does not "
            "lead to a density of known mass: declare priors, or pass log_likelihood= and "
            "log_prior= to kmc.Model; or use sampler='kernel-hmc'"
        )
    levels = stats[EXCESS].values
    if len(levels) != idata.attrs["chains"]:
        raise ValueError(
            f"{name} has {len(levels)} chains, and its run has chains={idata.attrs['chains']}: the "
            "temperatures are those of one run; pass each run by itself, with all of its chains"
        )
    parts = np.split(levels, len(ladders))
    return [
        _of_ladder(excess, np.array(temperatures), swaps)
        for excess, temperatures, swaps in zip(parts, ladders, rates, strict=True)
    ]


def _of_runs(idata: Any, fact: str) -> list[Any]:
    """Return a list with a fact of each independent run."""
    value = idata.attrs[fact]
    several = int(idata.attrs["independent_runs"]) > 1
    value = json.loads(value) if several or fact != "tempered" else value
    return value if several else [value]


def _of_ladder(
    excess: np.ndarray, temperatures: np.ndarray, swaps: list[float | None]
) -> LadderEstimate:
    betas = 1.0 / temperatures
    masses, se, effective = mbar(excess, betas)
    doubts = []
    if betas[-1] > 0 and effective < _FEWEST_EFFECTIVE:
        doubts.append(
            f"the highest temperature, {temperatures[-1]:.3g}, is far from the prior, which "
            f"{effective:.0f} effective "
            "states reach: sample with more temperatures, or with math.inf as the last one"
        )
    for cold, hot, rate in zip(temperatures, temperatures[1:], swaps, strict=False):
        if rate is not None and rate < _LEAST_SWAPS:
            doubts.append(
                f"temperatures {cold:.3g} and {hot:.3g} hardly overlap: sample with more "
                f"temperatures"
            )
    if betas[-1] > 0:
        betas, masses = np.append(betas, 0.0), np.append(masses, 0.0)
    path = np.stack([betas, masses, masses])[:, ::-1]
    return LadderEstimate(float(masses[0]), se, "; ".join(doubts), path)


def mbar(excess: np.ndarray, betas: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Estimate log Z_β / Z_0 at all temperatures by MBAR.

    Parameters
    ----------
    excess : ndarray, shape (chains, sweeps, temperatures)
        l of the state at each temperature; -inf at β = 0 only.
    betas : ndarray, shape (temperatures,)
        Decreasing from 1.

    Returns
    -------
    log_ratios : ndarray, shape (temperatures,)
    se : float
        Standard error of the first one, log Z_1 / Z_0.
    effective : float
        Effective number of states by which Z_0 is known.
    """
    chains, sweeps, size = excess.shape
    count, levels = chains * sweeps, excess.ravel()
    center = float(np.median(excess[..., 0]))  # of l, which is then of order one
    exponents = _times(betas, levels - center)  # (n, k)
    free = _free_energies(exponents, count, start=-_first_guess(excess - center, betas))
    log_mixture = np.log(count) + logsumexp(exponents + free, axis=1)
    shares = count * np.exp(exponents + free - log_mixture[:, None])  # p_k(n)

    weights = [exponents[:, 0] - log_mixture, -log_mixture]  # of the target, and of the prior
    logs = [float(logsumexp(weight)) for weight in weights]
    target, prior = (np.exp(weight - log) for weight, log in zip(weights, logs, strict=True))

    per_sweep = (chains, sweeps, size)
    slope = (prior - target) @ shares  # of the estimate in f
    # δf = -A⁺ Σ ψ, with A = Σ_n (diag p - p pᵀ) and ψ = Σ over a sweep's states of p, minus 1
    curvature = np.diag(shares.sum(axis=0)) - shares.T @ shares
    psi = shares.reshape(*per_sweep, size).sum(axis=2) - 1.0
    series = count * (target - prior).reshape(per_sweep).sum(axis=2)
    series = series - count * psi @ (linalg.pinvh(curvature) @ slope)
    se = float(np.sqrt(squared_error(series[..., None])[0]))
    return betas * center - free - logs[1], se, float(1.0 / np.sum(prior**2))


def _times(betas: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Return β l, and 0 for β = 0 whatever l."""
    return np.where(betas > 0, betas * np.where(betas > 0, levels[:, None], 0.0), 0.0)


def _first_guess(excess: np.ndarray, betas: np.ndarray) -> np.ndarray:
    """Return log Z_k by the trapezoidal rule of thermodynamic integration: d log Z / dβ = E_β l."""
    means = np.array([row[np.isfinite(row)].mean() for row in np.moveaxis(excess, 2, 0)])
    steps = -np.diff(betas) * 0.5 * (means[1:] + means[:-1])
    return -np.concatenate([[0.0], np.cumsum(steps)])


def _free_energies(exponents: np.ndarray, count: int, start: np.ndarray) -> np.ndarray:
    """Return f (k,) up to a constant, the first being 0: the minimum of a convex function."""

    def objective(rest: np.ndarray) -> tuple[float, np.ndarray]:
        free = np.concatenate([[0.0], rest])
        logs = exponents + free
        log_mixture = logsumexp(logs, axis=1)
        shares = np.exp(logs - log_mixture[:, None])
        return float(np.mean(log_mixture) - free.mean()), (shares.mean(axis=0) - 1.0 / len(free))[
            1:
        ]

    found = optimize.minimize(
        objective, (start - start[0])[1:], jac=True, method="BFGS", options={"gtol": 1e-8}
    )
    return np.concatenate([[0.0], found.x])
