"""Estimate the cost of a run before it begins."""

from __future__ import annotations

from kmc.run.remedies import evaluations_needed
from kmc.run.request import Request
from kmc.surrogates import values_needed


def planned_evaluations(request: Request) -> int | None:
    """Evaluations of the whole run: at most, or approximately if no budget bounds them; None if unknown."""
    longest = getattr(request.sampler, "longest_warmup", None)
    if request.max_evaluations is not None or request.draws is None or longest is None:
        return request.max_evaluations
    chains = request.chains // request.independent_runs
    starts = request.chains if request.initial is None else len(request.initial)
    warmup = longest(request.model.dim, chains, request.draws, request.warmup)
    return int(starts + request.independent_runs * warmup + request.draws * request.chains)


def short_budget(request: Request) -> str | None:
    """A warning for a ``max_evaluations`` that ends warm-up before a surrogate can be fitted, or None.

    None also if a history is given, which supplies the values, or if the user has set the length of warm-up.
    """
    if request.max_evaluations is None or not getattr(request.sampler, "takes_history", False):
        return None
    dim, share = request.model.dim, request.max_evaluations // request.independent_runs
    if request.warmup is not None or request.history is not None or share >= 2 * values_needed(dim):
        return None
    each = "" if request.independent_runs == 1 else f", divided among {request.independent_runs} independent runs,"
    return (
        f"max_evaluations={request.max_evaluations}{each} is few for {dim} parameters: a surrogate needs "
        f"{values_needed(dim):,} values, and warm-up has half of the evaluations. Give it at least "
        f"{request.independent_runs * evaluations_needed(dim):,}."
    )
