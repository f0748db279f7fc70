"""What a finished run says about itself: one sentence each, with the remedy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kmc.run.trace import Trace
from kmc.surrogates.noise import attainable_acceptance, beyond_noise

LOUD = 1.7  # nats of noise: less than a quarter of the proposals can be accepted
LONG = 0.2  # of a chain in one state: with noise of sd 1, one run in several hundred


def verdict(
    sampler: str,
    trace: Trace,
    facts: Mapping[str, Any],
    draws: int | None,
    interrupted: bool,
    rhat: float = float("nan"),
) -> list[str]:
    """Sentences about what the user should know; empty when all is well.

    Parameters
    ----------
    sampler : str
        Its name.
    trace : Trace
        The draws after warm-up.
    facts : mapping
        The process's report.
    draws : int or None
        Draws per chain that were asked for.
    interrupted : bool
    rhat : float
        The worst over coordinates; NaN if unknown.
    """
    sentences = []
    if interrupted:
        sentences.append(f"The run was interrupted after {len(trace)} draws per chain; the results hold those.")
    elif not len(trace):
        sentences.append("The run ended within warm-up and has no draws: raise max_evaluations or lower warmup.")
    elif draws is not None and len(trace) < draws:
        sentences.append(
            f"Only {len(trace)} of {draws} draws per chain were made before the run ended: raise max_evaluations."
        )
    if len(trace):
        acceptance = float(np.mean(trace.stats["acceptance_rate"]))
        if acceptance < 0.1 * attainable_acceptance(facts.get("noise_sd") or 0.0):
            sentences.append(
                f"Only {acceptance:.1%} of the proposals were accepted: allow more evaluations, start nearer to the "
                "bulk, or reparametrise."
            )
        if rhat == np.inf:
            sentences.append(
                "A coordinate never moved, in all chains or in a part of one: the draws mean nothing; start nearer to "
                "the bulk, or reparametrise."
            )
        elif rhat > 1.05 + 5.0 / len(trace):  # independent draws stay below for any number of them
            sentences.append(
                f"The chains disagree (R-hat {rhat:.2f}): they have not converged; allow more evaluations, start "
                "nearer to the bulk, or reparametrise."
            )
        if facts.get("noisy"):
            sentences += _about_noise(trace, facts.get("noise_sd") or 0.0)
        if sampler == "kernel-hmc":
            sentences += _about_estimator(facts) if "surrogate" in facts else _about_surrogate(facts)
    return sentences


def _about_noise(trace, noise_sd):
    sentences = []
    if noise_sd > LOUD:
        times = int(np.ceil(np.expm1(noise_sd**2) / np.expm1(1.0)))
        sentences.append(
            f"The noise of log_density has a sd of about {noise_sd:.1f} nats, so that few proposals can be accepted: "
            f"average about {times} times as many simulations in each estimate, for a sd near 1."
        )
    longest = longest_stay(trace.stats["accepted"])
    if longest > max(LONG * len(trace), 50):
        sentences.append(
            f"A chain stayed {longest} draws in one state, whose estimate was lucky: average more simulations in each "
            "estimate, or allow more evaluations."
        )
    return sentences


def longest_stay(accepted: np.ndarray) -> int:
    """The largest number of draws in a row that a chain spent in one state; ``accepted`` is (chains, draws)."""
    longest = 0
    for moves in accepted:
        ends = np.flatnonzero(moves)
        longest = max(longest, int(np.max(np.diff(np.concatenate([[0], ends, [len(moves)]])))))
    return longest


def _about_surrogate(facts):
    error = facts.get("surrogate_loo_sd")
    if error is None:
        return [
            "Warm-up was too short for a surrogate, so that all draws came from differential evolution: raise warmup "
            "or max_evaluations."
        ]
    error = beyond_noise(error, facts.get("noise_sd") or 0.0)
    if error > 1.0:
        return [
            f"The surrogate misses the log-density by {error:.1f} nats (leave-one-out sd): expect slow mixing in "
            "places, and allow more evaluations or reparametrise."
        ]
    return []


def _about_estimator(facts):
    if "surrogate_acceptance_rate" not in facts:
        why = facts.get("refit_error", "warm-up was too short for a fit")
        return [
            f"There was no surrogate ({why}), so that all draws came from a random walk: raise warmup or "
            "max_evaluations, or use another surrogate."
        ]
    if facts["n_failed_refits"]:
        return [
            f"Of the {facts['surrogate']}, {facts['n_failed_refits']} fits failed, and the last good one stayed in use "
            f"({facts['refit_error']}): regularise it more, or use another one."
        ]
    return []
