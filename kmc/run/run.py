"""A run: one or more independent runs that move in step, from the first evaluation to the result."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import numpy as np

from kmc.convergence import ENOUGH_DRAWS
from kmc.errors import EvaluationError
from kmc.model.evaluate import Evaluation, Evaluator, stream_of
from kmc.model.priors import JointPrior
from kmc.model.returned import failed_value
from kmc.model.simulation import OUTPUTS
from kmc.run.ahead import Ahead, Limits, Made
from kmc.run.arguments import RunRequest
from kmc.run.budget import Spent, TimeLimit, is_look, largest_error, planned_evaluations
from kmc.run.evaluation_summary import Highest, Rejected, ValueRange
from kmc.run.executors import Executor
from kmc.run.executors.base import Measured
from kmc.run.final_state import GROUP, as_group
from kmc.run.history import EVALUATIONS
from kmc.run.independent_run import IndependentRun
from kmc.run.problems import by_code, problems_of
from kmc.run.progress import Compilation, Meter, Progress
from kmc.run.results import as_evaluations, data_of, to_arviz
from kmc.run.run_statistics import (
    Ascent,
    AtBothEnds,
    FinishedRun,
    at_both_ends,
    contradiction,
    overflowed,
    run_statistics,
)
from kmc.run.run_warnings import WARNINGS
from kmc.run.store.base import NullRecorder, RunRecorder
from kmc.run.trace import BlobStore, Trace, joined
from kmc.samplers.ask_tell import traits_of
from kmc.samplers.base import Step
from kmc.samplers.walkers import Passed
from kmc.surrogate.density import Density

_LEAST_NOISE, _ROUNDING = 0.01, 1e-6  # nats, and of the value: smaller differences at one point are no noise
_PROBES = 100  # evaluations that a look at values without bound may cost, at the end of warm-up


class Run:
    """Everything that one call of :func:`kmc.sample` does.

    Independent runs that finish warm-up wait for the others; from then on all have the same number of draws at any
    time. Each plans its warm-up with its part of the evaluations; together they draw until all evaluations are used.

    Sweeps are made together, all chains waiting for the slowest evaluation, until the sampler's chains no longer depend
    on each other; from then on by chains that move on their own (:mod:`kmc.run.ahead`), if the executor returns values
    one by one. What follows from a sweep is the same.

    Parameters
    ----------
    request : RunRequest
    executor : Executor
        Where the log-density is evaluated.
    recorder : RunRecorder, optional
        Writes the run to a store; by default nothing is written.

    Attributes
    ----------
    draws, max_evaluations : int or None
        Where the run ends: as requested, unless it is extended.
    limit : TimeLimit
        Time limit of this call.
    compilation : Compilation
        Measures numba's compilation.
    stopped_by : str or None
        Set to end the run after the current sweep: "callback" by the caller, or "max_time" here.
    warmup_cut : int or None
        Evaluations after which warm-up was told to end because its part of the time was over.
    interrupted : bool
        Set by the caller that catches Ctrl-C.
    ended : bool
        Whether all draws were made or the budget was spent.
    """

    def __init__(
        self,
        request: RunRequest,
        executor: Executor,
        recorder: RunRecorder | None = None,
    ):
        self.request, self.executor = request, executor
        self.recorder: RunRecorder = NullRecorder() if recorder is None else recorder
        self.draws, self.max_evaluations = self.recorder.attach(self)
        self.blobs = BlobStore(request.model)
        self.evaluate = Evaluator(request.model, keep=self._keep)
        self.limit = TimeLimit(request.max_time)
        self.compilation = Compilation()
        self.warmup_cut: int | None = None
        self._precise = False
        seeds = [request.seed] if request.independent_runs == 1 else request.seed.spawn(request.independent_runs)
        budgets = shares(request.max_evaluations, request.independent_runs)
        self.independent_runs = [IndependentRun(request, *own, self.blobs) for own in zip(budgets, seeds, strict=True)]
        self.interrupted = self.ended = False
        self.stopped_by: str | None = None
        self._n_warmup = 0
        self._ahead: Ahead | None = None
        self._burn_in = 0  # sweeps without draws that chains on their own still have to make
        self._ascent = Ascent(request.model)
        self._highest, self._range = Highest(request.model), ValueRange(request.model)
        self._rejected = Rejected(request.model)
        self.meter = Meter(request.draws, request.max_evaluations)
        self._planned = planned_evaluations(request)

    def sweeps(self) -> Generator[Progress, None, None]:
        """Sweep until the draws are made, the budget is used or `stopped_by` is set.

        A record comes before the first sweep, after each one, and at the end. Open resources are released when the
        generator ends or is closed.
        """
        __tracebackhide__ = True
        with self.compilation, self.recorder, self.executor.open(self.request.model) as self.evaluate.mapper:
            try:
                yield from self._sweeps()
            except (EvaluationError, ValueError, ArithmeticError) as error:
                if not isinstance(error, EvaluationError):
                    self._check_ascent()  # if values increase without bound, some arithmetic overflows in the end
                elif overflowed(error):
                    self._check_ascent(error.position)
                raise
            finally:
                if (stream := stream_of(self.evaluate.mapper)) is not None:
                    stream.abandon()

    def _sweeps(self) -> Generator[Progress, None, None]:
        __tracebackhide__ = True
        yield self._progress("start")
        self.limit.start()
        if not (self.stopped_by or self.recorder.restore()):
            self._start()
        self._look()
        while not (self.stopped_by or self._has_all_draws()):
            self._ahead = self._ahead or self._let_go()
            looking = [one.warming_up for one in self._moving()]
            sweeps = self._in_step() if self._ahead is None else self._on_their_own(self._ahead)
            if sweeps is None:
                break
            was_warming_up = self._note(sweeps, looking)
            if was_warming_up and not self.warming_up():
                self._check_ascent()
            self._limit_warmup()
            self._look()
            self.recorder.swept()
            if self.recorder.replaying:  # its records were yielded before the interruption
                continue
            if self.limit.over and not self._has_all_draws():
                self.stopped_by = "max_time"
            yield self._progress("warmup" if self.warming_up() else "sampling")
        self.ended = self.stopped_by is None
        yield self._progress("done")

    def _moving(self) -> list[IndependentRun]:
        return [one for one in self.independent_runs if one.warming_up] or self.independent_runs

    def _in_step(self) -> list[Step | None] | None:
        """Make one sweep of the chains that move; None if the evaluations do not suffice."""
        __tracebackhide__ = True
        moving = self._moving()
        points = [one.propose() for one in moving]
        if not self._affords(sum(map(len, points))):
            return None
        values = self._values(np.vstack(points))  # with the user's own number of threads
        ends = np.cumsum([len(rows) for rows in points])[:-1]
        return [one.advance(part) for one, part in zip(moving, np.split(values, ends), strict=True)]

    def _let_go(self) -> Ahead | None:
        """Let the chains move on their own, if sampler, executor and recorder allow it."""
        stream = stream_of(self.evaluate.mapper)
        if stream is None or self.request.model.vectorized or self.recorder.remembers:
            return None
        if len(self.independent_runs) > 1 and self.warming_up():
            return None
        lanes = [one.lanes() for one in self.independent_runs]
        ready = [part for part in lanes if part is not None]
        if len(ready) < len(lanes):
            return None
        self._burn_in = max(part.burn_in for part in ready)
        chains = [lane for part in ready for lane in part.chains]
        return Ahead(chains, stream, self._limits, self.request.model, self.recorder.recall_ahead)

    def _limits(self) -> Limits:
        sweeps = () if self.draws is None else (self._burn_in + self.draws - self.n_draws(),)
        return Limits(sweeps, self._left, reserve=_PROBES if self.warming_up() else 0)

    def _on_their_own(self, ahead: Ahead) -> list[Step | None] | None:
        """Take the next sweep that all chains have made on their own; None if the evaluations do not suffice."""
        __tracebackhide__ = True
        made = ahead.sweep()
        if made is None:
            return None
        evaluated = [one for one in made if one.point is not None]
        self.evaluate.n_retried += sum(one.repeated for one in evaluated) * (self.request.model.on_error == "retry")
        points = np.array([one.point for one in evaluated]).reshape(-1, self.request.model.dim)
        self.recorder.recall(points)  # nothing is left to recall, but the recorder learns when its values were needed
        values = self.evaluate.take(points, [one.outcome for one in evaluated if one.outcome is not None])
        self._ascent.note(points, values)
        self._burn_in = max(self._burn_in - 1, 0)
        chains = self.request.chains // self.request.independent_runs
        return [one.join(_passed(made[i * chains : (i + 1) * chains])) for i, one in enumerate(self.independent_runs)]

    def evaluated_ahead(self) -> list[tuple[int, np.ndarray, Evaluation]]:
        """Return the chain, point and result of each evaluation that is in no whole sweep yet."""
        return [] if self._ahead is None else self._ahead.evaluated()

    def result(self, save_warmup: bool) -> tuple[Any, list[str]]:
        """Return the draws so far, as ArviZ holds them, and what to show of their warnings: one message for each cause.

        If the run has ended, the recorder gets the result, too.
        """
        trace = joined([one.trace for one in self.independent_runs])
        warmup_trace = joined([one.warmup_trace for one in self.independent_runs])
        whole = len(trace) and (self.ended or self.stopped_by is not None)  # otherwise a check would be in the way
        reports = [one.checked() if whole else one.report() for one in self.independent_runs]
        cut = "interrupted" if self.interrupted else "" if self.ended else self.stopped_by or "stopped"
        found = self._statistics(trace) if len(trace) else {}
        model, sampler, precision = self.request.model, self.request.sampler, self.request.precision
        spent = Spent(
            self.evaluate.n_evaluations,
            self.n_evaluations_warmup,
            model.dim,
            sampler.name in ("kernel-hmc", "score-hmc"),
        )
        densities = [one.density() for one in self.independent_runs if self.request.save_surrogate and len(trace)]
        further = self._further()
        finished = FinishedRun(
            sampler=sampler.name,
            found=found,
            reports=reports,
            made=len(trace),
            draws=len(trace) if self._precise else self.draws,
            precision=None if precision is None or not len(trace) else (precision, self._error(trace)),
            cut=cut,
            rejected=self._rejected.summary(self._flat(trace), self.evaluate.n_evaluations),
            density_range=(self._range.low, self._range.high) if self._range.is_of_a_density else None,
            spent=spent,
            ends=self._at_both_ends(trace),
            contradiction=self._contradiction(densities),
            against_prior=self._against_prior(trace),
            has_evaluations=EVALUATIONS in further,
        )
        problems = problems_of(finished, WARNINGS)
        said = by_code(problems)
        attrs = {
            **self.facts(),
            **_together(reports),
            **self._rejected.facts(self._flat(trace)),
            "warnings": list(said.values()),
            "warning_codes": list(said),
            "not_checked": finished.not_checked(),
        }
        warmup = warmup_trace if save_warmup else None
        result = to_arviz(self.request.model, trace, warmup, attrs, data_of(self.request), densities, further)
        if self.ended:
            try:
                self.recorder.finish(result)
            except OSError as error:  # a full disk must not lose the draws in memory
                error.idata = result  # type: ignore[attr-defined]
                raise
        return result, [problem.message for problem in problems]

    def _further(self) -> dict[str, Any]:
        """Return further groups: the final state, and the evaluations if there are too few draws to answer from."""
        learned_from = [one.evaluated() for one in self.independent_runs]
        few = self.n_draws() * self.request.chains < ENOUGH_DRAWS
        if not (self.request.save_surrogate and few) or any(each is None for each in learned_from):
            return self._final()
        proposed = [each for one in self.independent_runs if (each := one.trace.proposals)]
        found = [
            *learned_from,
            *((each["x"].reshape(-1, self.request.model.dim), each["lp"].ravel()) for each in proposed),
        ]
        x, values = map(np.concatenate, zip(*found, strict=True))
        outputs = [own for one in self.independent_runs if (own := one.learned_outputs()) is not None]
        known = {}
        if len(outputs) == len(self.independent_runs):
            learned = np.vstack(outputs)
            known = {OUTPUTS: np.pad(learned, ((0, len(x) - len(learned)), (0, 0)), constant_values=np.nan)}
        # A chain that did not move has proposed its state; proposals of a continued result may not be known.
        _, first = np.unique(x, axis=0, return_index=True)
        rows = np.sort(first[~np.isnan(values[first]) & np.isfinite(x[first]).all(axis=1)])
        return {
            **self._final(),
            **as_evaluations(x[rows], values[rows], {name: each[rows] for name, each in known.items()}),
        }

    def _final(self) -> dict[str, Any]:
        """Return the group with the final state, from which `kmc.extend` continues.

        Empty if there is no such state, and for a run with a store, which has it there.
        """
        whole = self.ended or self.stopped_by is not None  # otherwise something was raised in the middle of a sweep
        if not (whole and self.request.save_surrogate and self.n_draws() and isinstance(self.recorder, NullRecorder)):
            return {}
        group = as_group(self)
        return {} if group is None else {GROUP: group}

    def _contradiction(self, densities: Sequence[Density | None]) -> str:
        """Return how draws and surrogates of a complete run with exact values differ; empty if they do not."""
        if not self.ended or self.request.model.noisy or all(density is None for density in densities):
            return ""
        try:
            return contradiction([one.trace for one in self.independent_runs], densities, self.request.seed)
        except (ValueError, ArithmeticError, KeyboardInterrupt):  # the draws are made: a check must not lose them
            return ""

    def facts(self) -> dict[str, Any]:
        """Return a description of the run and its cost so far."""
        return {
            "sampler": self.request.sampler.name,
            "moves": traits_of(self.request.sampler).moves,
            "settings": self.request.sampler,
            "seed": self.request.seed.entropy,
            "seed_spawn_key": list(self.request.seed.spawn_key),
            "chains": self.request.chains,
            "independent_runs": self.request.independent_runs,
            "n_evaluations": self.evaluate.n_evaluations,
            "n_evaluations_warmup": self.n_evaluations_warmup,
            "n_evaluations_ahead": 0 if self._ahead is None else self._ahead.n_evaluations,
            "n_retried": self.evaluate.n_retried,
            "without_prior": self.request.model.without_prior or None,
            "sampling_time": self.meter.elapsed,
            "tuning_steps": min(one.tuning_steps for one in self.independent_runs),
            "interrupted": self.interrupted,
            "stopped_by": self.stopped_by,
            **self._highest.facts(),
            **self._rejected.facts(np.empty((0, self.request.model.dim))),
            **self._usage(),
            **_together([one.report() for one in self.independent_runs]),
        }

    def _usage(self) -> dict[str, Any]:
        """Return how the executor's workers spent their time, if it tells."""
        mapper = self.evaluate.mapper
        return mapper.usage.facts() if isinstance(mapper, Measured) else {}

    def state(self) -> dict[str, Any]:
        """Return all that determines the continuation, between two sweeps, except draws and blobs."""
        return {
            "independent_runs": [one.state() for one in self.independent_runs],
            "n_evaluations": self.evaluate.n_evaluations,
            "n_retried": self.evaluate.n_retried,
            "rejected": self._rejected.state(),
            "n_warmup": self._n_warmup,
            "meter": self.meter,
            "highest": (self._highest.point, self._highest.values),
            "range": self._range.state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a state; traces and blobs are not in it."""
        for one, mine in zip(self.independent_runs, state["independent_runs"], strict=True):
            one.restore(mine)
        self.evaluate.n_evaluations, self._n_warmup = state["n_evaluations"], state["n_warmup"]
        self.evaluate.n_retried = state["n_retried"]
        self._rejected.restore(state["rejected"])
        self.meter = state["meter"]
        self._highest.point, self._highest.values = state["highest"]
        self._range.restore(state["range"])

    @property
    def n_evaluations_warmup(self) -> int:
        """Evaluations of the start and of all sweeps up to the last one of any warm-up."""
        return self.evaluate.n_evaluations if self.warming_up() else self._n_warmup

    def _start(self) -> None:
        """Evaluate the start points and start every independent run."""
        __tracebackhide__ = True
        initial = self.request.initial
        try:
            if initial is None:
                starts = []
                for one in self.independent_runs:  # a comprehension would add a frame to a user's traceback
                    starts.append(one.random_start(self._values))
            else:
                starts = dealt(initial, self._values(initial), len(self.independent_runs))
            self._check_noise(*(np.concatenate(parts) for parts in zip(*starts, strict=True)))
            for one, (points, values) in zip(self.independent_runs, starts, strict=True):
                one.start(points, values)
        except ValueError as error:
            if reasons := self._rejected.summary(np.empty((0, self.request.model.dim)), 0).reasons:
                raise ValueError(f"{error}; the log-density was taken as -inf where it failed: {reasons}") from error
            raise
        self._n_warmup = self.evaluate.n_evaluations

    def _check_noise(self, points: np.ndarray, values: np.ndarray) -> None:
        """Evaluate the best start point (of k, d) again; EvaluationError if the value is another one.

        It changes no draws, and the run ends at the same budget.
        """
        __tracebackhide__ = True
        if self.request.model.noisy or not np.any(np.isfinite(values)) or not self._affords(1 + 2 * len(points)):
            return
        best = int(np.argmax(np.where(np.isfinite(values), values, -np.inf)))
        again = self._values(points[best][None])[0]
        if np.isfinite(again) and abs(again - values[best]) > _LEAST_NOISE + _ROUNDING * abs(values[best]):
            raise failed_value(
                self.request.model,
                points[best],
                f"log_density returned {values[best]:.8g} and then {again:.8g}, log-Jacobian included",
                "if it is the log of an unbiased estimate of the density, pass kmc.Model(..., noisy=True); otherwise "
                "let it return the same value again, for instance by a fixed seed",
            )

    def _values(self, points: np.ndarray) -> np.ndarray:
        """Return the log-densities of the points (k, d): from the store if present, otherwise evaluated."""
        __tracebackhide__ = True
        known = self.recorder.recall(points)
        if known is None:
            values = self.evaluate(points)
        else:
            self.evaluate.n_evaluations += len(points)
            self.blobs.keep(points, known)
            self._note_values(points, known)
            values = self.evaluate.values(known)
        self._ascent.note(points, values)
        return values

    def _check_ascent(self, overflow: np.ndarray | None = None) -> None:
        """EvaluationError if the log-density increases without bound; costs a few evaluations if that is suspected.

        ``overflow`` is a place (d,) where the function overflowed.
        """
        most = int(min(self._left, _PROBES))
        try:
            if overflow is not None:
                self._ascent.approach(overflow, self._probe, most)
            self._ascent.check(self._probe, most - self._ascent.n_probes)
        finally:
            self.evaluate.n_evaluations += self._ascent.n_probes
            self._ascent.n_probes = 0

    def _probe(self, points: np.ndarray) -> list[float]:
        """Return what the function returns at points (k, d), not recorded; inf if it overflows."""
        found = Evaluator(self.request.model, self.evaluate.mapper).evaluations(points)
        return [np.inf if one.failure.startswith("OverflowError") else one.value for one in found]

    def _keep(self, points: np.ndarray, evaluations: Sequence[Evaluation]) -> None:
        self.blobs.keep(points, evaluations)
        self._note_values(points, evaluations)
        self.recorder.keep(points, evaluations)

    def _note_values(self, points: np.ndarray, evaluations: Sequence[Evaluation]) -> None:
        self._highest.note(points, evaluations)
        self._range.note(points, evaluations)
        self._rejected.note(points, evaluations)

    def _statistics(self, trace: Trace) -> dict[str, float]:
        stats = trace.stats
        return run_statistics(
            trace.positions,
            trace.log_density,
            stats["acceptance_rate"],
            accepted=stats["accepted"],
            independent_runs=len(self.independent_runs),
        )

    def _flat(self, trace: Trace) -> np.ndarray:
        return trace.positions.reshape(-1, self.request.model.dim)

    def _against_prior(self, trace: Trace) -> list[str]:
        """Return the names of the parameters whose draws contradict their prior."""
        model = self.request.model
        if not isinstance(model.prior, JointPrior) or not len(trace):
            return []
        return model.prior.contradicted(model.constrain(trace.positions.reshape(-1, model.dim)))

    def _at_both_ends(self, trace: Trace) -> list[AtBothEnds]:
        model = self.request.model
        if not model.intervals:
            return []
        positions = trace.positions
        values = model.within_intervals(positions.reshape(-1, model.dim))
        chains, draws, _ = positions.shape
        shown = {name: np.reshape(values[name], (chains, draws, *values[name].shape[1:])) for name in model.intervals}
        return at_both_ends(model.intervals, shown, declared=model.parameters is not None)

    def warming_up(self) -> bool:
        """Return whether the run is still in warm-up."""
        return any(one.warming_up for one in self.independent_runs)

    def n_draws(self) -> int:
        """Return the number of draws of every chain so far."""
        return min(len(one.trace) for one in self.independent_runs)

    def _has_all_draws(self) -> bool:
        return self._precise or (self.draws is not None and self.n_draws() >= self.draws)

    def _look(self) -> None:
        """Find out whether the draws are precise enough, now and then."""
        precision = self.request.precision
        if precision is not None and not self.warming_up() and is_look(self.n_draws()):
            self._precise = self._error(joined([one.trace for one in self.independent_runs])) <= precision

    def _error(self, trace: Trace) -> float:
        """Return the largest error of a parameter's mean or standard deviation, in standard deviations."""
        chains, n, dim = trace.positions.shape
        parameters = self.request.model.constrain(trace.positions.reshape(-1, dim)).values()
        return largest_error(np.concatenate([np.reshape(values, (chains, n, -1)) for values in parameters], axis=2))

    def _limit_warmup(self) -> None:
        """End warm-up when its part of the time is over; a replayed run ends it where it did before."""
        if self.warmup_cut is None and self.limit.warmup_over and self.warming_up() and not self.recorder.replaying:
            self.warmup_cut = self.evaluate.n_evaluations
        if self.warmup_cut is not None and self.evaluate.n_evaluations >= self.warmup_cut:
            for one in self.independent_runs:
                one.end_warmup()

    @property
    def _left(self) -> float:
        """Evaluations that the budget still allows; inf without one."""
        return np.inf if self.max_evaluations is None else self.max_evaluations - self.evaluate.n_evaluations

    def _affords(self, n_points: int) -> bool:
        return n_points <= self._left

    def _note(self, sweeps: Sequence[Step | None], looking: Sequence[bool]) -> bool:
        """Update display and result with the sweeps just made; whether they were of warm-up.

        A sweep without a step belongs to warm-up if its sampler was warming up (``looking``) before it.
        """
        warmup = any(before if step is None else step.warmup for step, before in zip(sweeps, looking, strict=True))
        if warmup:
            self._n_warmup = self.evaluate.n_evaluations
        elif len(made := [step for step in sweeps if step is not None]) == len(sweeps):
            self.blobs.forget_but(made)
        self.meter.note(sweeps)
        return warmup

    def _progress(self, phase: str) -> Progress:
        n, compiled = self.evaluate.n_evaluations, self.compilation.seconds
        planned = self._planned if self.max_evaluations is None else self.max_evaluations
        return self.meter.record(phase, self.independent_runs, n, compiled, self.limit.left, planned)


def shares(total: int | None, parts: int) -> list[int | None]:
    """Split a whole number into parts that differ by at most one; None for each part of None.

    Examples
    --------
    >>> shares(11, 3)
    [4, 4, 3]
    """
    return [None if total is None else (total + parts - 1 - i) // parts for i in range(parts)]


def dealt(points: np.ndarray, values: np.ndarray, hands: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Start points (k, d) and their values (k,), dealt out in turn, those of positive density first.

    Raises
    ------
    ValueError
        Too few points have positive density for each part to get one.
    """
    positive = np.isfinite(values)
    if 0 < positive.sum() < hands:
        raise ValueError(
            f"initial has {positive.sum()} start point(s) at which the density is positive: expected at least {hands}, "
            "one for each of the independent runs"
        )
    order = np.argsort(~positive, kind="stable")
    rows = [np.sort(order[i::hands]) for i in range(hands)]
    return [(points[mine], values[mine]) for mine in rows]


def _passed(made: Sequence[Made]) -> list[Passed]:
    return [one.passed for one in made if one.passed is not None]


def _together(reports):
    """Return the facts of a single independent run; for several, a list of each fact, in their order."""
    if len(reports) == 1:
        return reports[0]
    return {name: [report.get(name) for report in reports] for name in dict.fromkeys(k for r in reports for k in r)}
