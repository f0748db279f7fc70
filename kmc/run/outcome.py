"""The outcome of a run: what is measured of its draws, its problems, and the result for ArviZ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from kmc.run.ahead import Ahead
from kmc.run.budget import Spent, error_of
from kmc.run.evaluation_summary import EvaluationSummary
from kmc.run.executors.base import Measured
from kmc.run.final_state import GROUP, as_group
from kmc.run.problems import by_code, problems_of
from kmc.run.results import data_of, holds_evaluations, learned_evaluations, to_arviz
from kmc.run.run_statistics import (
    FinishedRun,
    against_prior,
    contradiction,
    drawn_at_both_ends,
    run_statistics,
)
from kmc.run.run_warnings import WARNINGS
from kmc.run.store.base import NullRecorder, RecordedRun, RunRecorder
from kmc.run.trace import Trace, joined
from kmc.samplers.ask_tell import traits_of
from kmc.surrogate.density import Density


class JudgedRun(RecordedRun, Protocol):
    """A run as its outcome needs it; attributes as in :class:`kmc.run.run.Run`."""

    recorder: RunRecorder
    summary: EvaluationSummary
    ahead: Ahead | None
    precise: bool
    ended: bool
    interrupted: bool
    stopped_by: str | None

    @property
    def n_evaluations_warmup(self) -> int:
        """Evaluations of the start and of warm-up."""


def outcome(run: JudgedRun, save_warmup: bool) -> tuple[Any, list[str]]:
    """Return the draws so far, as ArviZ holds them, and a message for each cause of problems."""
    request, parts = run.request, run.independent_runs
    model, made, values = request.model, run.n_draws(), run.summary.range
    trace, warmup = (
        joined([one.trace for one in parts]),
        joined([one.warmup_trace for one in parts]),
    )
    densities = [one.density() for one in parts if request.save_surrogate and made]
    # otherwise a check would be in the way
    complete = made and (run.ended or run.stopped_by is not None)
    reports = [one.checked() if complete else one.report() for one in parts]
    draws = trace.positions.reshape(-1, model.dim)
    evaluations = _evaluations(run)
    finished = FinishedRun(
        sampler=request.sampler.name,
        found=_statistics(trace, len(parts)) if made else {},
        reports=reports,
        made=made,
        draws=made if run.precise else run.draws,
        precision=None
        if request.precision is None or not made
        else (request.precision, error_of(model, trace)),
        cut="interrupted" if run.interrupted else "" if run.ended else run.stopped_by or "stopped",
        rejected=run.summary.rejected.summary(draws, run.evaluate.n_evaluations),
        density_range=(values.low, values.high) if values.is_of_a_density else None,
        spent=_spent(run),
        ends=drawn_at_both_ends(model, trace),
        contradiction=_contradiction(run, densities),
        against_prior=against_prior(model, draws),
        has_evaluations=bool(evaluations),
    )
    problems = problems_of(finished, WARNINGS)
    said = by_code(problems)
    attrs = {
        **facts_of(run, reports, draws),
        "warnings": list(said.values()),
        "warning_codes": list(said),
        "not_checked": finished.not_checked(),
    }
    further = {**_final(run), **evaluations}
    result = to_arviz(
        model, trace, warmup if save_warmup else None, attrs, data_of(request), densities, further
    )
    return result, [problem.message for problem in problems]


def facts_of(
    run: JudgedRun, reports: Sequence[Mapping[str, Any]], draws: np.ndarray | None = None
) -> dict[str, Any]:
    """Describe a run and its cost so far, with its samplers' reports, for the attributes.

    Of rejected points, those near the ``draws`` (n, d) come first.
    """
    request, evaluate, mapper = run.request, run.evaluate, run.evaluate.mapper
    return {
        "sampler": request.sampler.name,
        "moves": traits_of(request.sampler).moves,
        "settings": request.sampler,
        "seed": request.seed.entropy,
        "seed_spawn_key": list(request.seed.spawn_key),
        "chains": request.chains,
        "independent_runs": request.independent_runs,
        "n_evaluations": evaluate.n_evaluations,
        "n_evaluations_warmup": run.n_evaluations_warmup,
        "n_evaluations_ahead": 0 if run.ahead is None else run.ahead.n_evaluations,
        "n_retried": evaluate.n_retried,
        "without_prior": request.model.without_prior or None,
        "sampling_time": run.meter.elapsed,
        "tuning_steps": min(one.tuning_steps for one in run.independent_runs),
        "interrupted": run.interrupted,
        "stopped_by": run.stopped_by,
        **run.summary.highest.facts(),
        **run.summary.rejected.facts(np.empty((0, request.model.dim)) if draws is None else draws),
        **(mapper.usage.facts() if isinstance(mapper, Measured) else {}),
        **_together(reports),
    }


def _spent(run: JudgedRun) -> Spent:
    learns = run.request.sampler.name in ("kernel-hmc", "score-hmc")
    return Spent(
        run.evaluate.n_evaluations, run.n_evaluations_warmup, run.request.model.dim, learns
    )


def _statistics(trace: Trace, independent_runs: int) -> dict[str, float]:
    stats = trace.stats
    return run_statistics(
        trace.positions,
        trace.log_density,
        stats["acceptance_rate"],
        accepted=stats["accepted"],
        independent_runs=independent_runs,
    )


def _contradiction(run: JudgedRun, densities: Sequence[Density | None]) -> str:
    """Return how draws and surrogates of a complete run with exact values differ; empty if not."""
    if not run.ended or run.request.model.noisy or all(density is None for density in densities):
        return ""
    try:
        return contradiction(
            [one.trace for one in run.independent_runs], densities, run.request.seed
        )
    # the draws are made: a check must not lose them
    except (ValueError, ArithmeticError, KeyboardInterrupt):
        return ""


def _evaluations(run: JudgedRun) -> dict[str, Any]:
    """Return the group of all evaluations, if they may have to be learned from again."""
    parts = run.independent_runs
    few = holds_evaluations(run.n_draws() * run.request.chains, run.evaluate.n_evaluations)
    if not (run.request.save_surrogate and few):
        return {}
    learned_from = [own for one in parts if (own := one.evaluated()) is not None]
    if len(learned_from) < len(parts):  # the sampler fits no surrogate
        return {}
    left_out = [own for one in parts if (own := one.left_out()) is not None]
    outputs = [one.learned_outputs() for one in parts]
    proposals = [one.trace.proposals for one in parts]
    return learned_evaluations(learned_from, left_out, outputs, proposals, run.request.chains)


def _final(run: JudgedRun) -> dict[str, Any]:
    """Return the group with the final state, from which `kmc.extend` continues.

    Empty if there is no such state, and for a run with a store, which has it there.
    """
    # otherwise something was raised in the middle of a sweep
    whole = run.ended or run.stopped_by is not None
    if not (
        whole
        and run.request.save_surrogate
        and run.n_draws()
        and isinstance(run.recorder, NullRecorder)
    ):
        return {}
    group = as_group(run)
    return {} if group is None else {GROUP: group}


def _together(reports: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the facts of one independent run; for several, a list of each fact, in their order."""
    if len(reports) == 1:
        return reports[0]
    return {
        name: [report.get(name) for report in reports]
        for name in dict.fromkeys(k for r in reports for k in r)
    }
