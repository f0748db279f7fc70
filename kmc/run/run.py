"""A run: one or more independent runs in step, from the first evaluation to the result."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import partial
from typing import Any

import numpy as np

from kmc.errors import EvaluationError
from kmc.model.evaluate import Evaluation, Evaluator, check_noise, probed, stream_of
from kmc.run.ahead import Ahead, Limits
from kmc.run.arguments import RunRequest
from kmc.run.ascent import Ascent, overflowed
from kmc.run.budget import TimeLimit, error_of, is_look, planned_evaluations
from kmc.run.evaluation_summary import EvaluationSummary
from kmc.run.executors import Executor
from kmc.run.independent_run import IndependentRun, dealt, shares
from kmc.run.outcome import facts_of, outcome
from kmc.run.progress import Compilation, Meter, Progress
from kmc.run.store.base import NullRecorder, RunRecorder
from kmc.run.trace import BlobStore, joined
from kmc.samplers.base import Step

_PROBES = 100  # evaluations that a look at values without bound may cost, at the end of warm-up


class Run:
    """Everything that one call of :func:`kmc.sample` does.

    Independent runs that finish warm-up wait for the others; from then on all have the same number
    of draws at any time. Each plans its warm-up with its part of the evaluations; together they
    draw until all evaluations are used.

    Sweeps are made together, all chains waiting for the slowest evaluation, until the sampler's
    chains no longer depend on each other; from then on by chains that move on their own
    (:mod:`kmc.run.ahead`), if the executor returns values one by one. What follows from a sweep is
    the same.

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
    summary : EvaluationSummary
        All evaluations, in brief.
    ahead : Ahead or None
        Chains that move on their own.
    precise : bool
        Whether the run ends because the draws are as precise as requested.
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
        self.precise = False
        seeds = (
            [request.seed]
            if request.independent_runs == 1
            else request.seed.spawn(request.independent_runs)
        )
        budgets = shares(request.max_evaluations, request.independent_runs)
        self.independent_runs = [
            IndependentRun(request, *own, self.blobs) for own in zip(budgets, seeds, strict=True)
        ]
        self.interrupted = self.ended = False
        self.stopped_by: str | None = None
        self._n_warmup = 0
        self.ahead: Ahead | None = None
        self._burn_in = 0  # sweeps without draws that chains on their own still have to make
        self._ascent = Ascent(request.model)
        self.summary = EvaluationSummary(request.model)
        self.meter = Meter(request.draws, request.max_evaluations)
        self._planned = planned_evaluations(request)

    def sweeps(self) -> Generator[Progress, None, None]:
        """Sweep until the draws are made, the budget is used or `stopped_by` is set.

        A record comes before the first sweep, after each one, and at the end. Open resources are
        released when the generator ends or is closed.
        """
        __tracebackhide__ = True
        with (
            self.compilation,
            self.recorder,
            self.executor.open(self.request.model) as self.evaluate.mapper,
        ):
            try:
                yield from self._sweeps()
            except (EvaluationError, ValueError, ArithmeticError) as error:
                if not isinstance(error, EvaluationError):
                    # if values increase without bound, some arithmetic overflows in the end
                    self._check_ascent()
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
            self.ahead = self.ahead or self._let_go()
            looking = [one.warming_up for one in self._moving()]
            sweeps = self._in_step() if self.ahead is None else self._on_their_own(self.ahead)
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
        if sum(map(len, points)) > self._left:
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

        def limits() -> Limits:
            sweeps = () if self.draws is None else (self._burn_in + self.draws - self.n_draws(),)
            return Limits(sweeps, self._left, reserve=_PROBES if self.warming_up() else 0)

        return Ahead(chains, stream, limits, self.request.model, self.recorder.recall_ahead)

    def _on_their_own(self, ahead: Ahead) -> list[Step | None] | None:
        """Take the next sweep that all chains have made on their own.

        Return None if the evaluations do not suffice.
        """
        __tracebackhide__ = True
        made = ahead.sweep()
        if made is None:
            return None
        evaluated = [one for one in made if one.point is not None]
        self.evaluate.n_retried += sum(one.repeated for one in evaluated) * (
            self.request.model.on_error == "retry"
        )
        points = np.array([one.point for one in evaluated]).reshape(-1, self.request.model.dim)
        # nothing is left to recall, but the recorder learns when its values were needed
        self.recorder.recall(points)
        values = self.evaluate.take(
            points, [one.outcome for one in evaluated if one.outcome is not None]
        )
        self._ascent.note(points, values)
        self._burn_in = max(self._burn_in - 1, 0)
        chains = self.request.chains // self.request.independent_runs
        parts = [made[first : first + chains] for first in range(0, len(made), chains)]
        return [
            one.join([sweep.passed for sweep in part if sweep.passed is not None])
            for one, part in zip(self.independent_runs, parts, strict=True)
        ]

    def evaluated_ahead(self) -> list[tuple[int, np.ndarray, Evaluation]]:
        """Return the chain, point and result of each evaluation that is in no whole sweep yet."""
        return [] if self.ahead is None else self.ahead.evaluated()

    def result(self, save_warmup: bool) -> tuple[Any, list[str]]:
        """Return the draws so far, as ArviZ holds them, and a message for each cause of warnings.

        If the run has ended, the recorder gets the result, too.
        """
        result, said = outcome(self, save_warmup)
        if self.ended:
            try:
                self.recorder.finish(result)
            except OSError as error:  # a full disk must not lose the draws in memory
                error.idata = result  # type: ignore[attr-defined]
                raise
        return result, said

    def facts(self) -> dict[str, Any]:
        """Return a description of the run and its cost so far."""
        return facts_of(self, [one.report() for one in self.independent_runs])

    def state(self) -> dict[str, Any]:
        """Return what determines the continuation, between two sweeps, except draws and blobs."""
        return {
            "independent_runs": [one.state() for one in self.independent_runs],
            "n_evaluations": self.evaluate.n_evaluations,
            "n_retried": self.evaluate.n_retried,
            "n_warmup": self._n_warmup,
            "meter": self.meter,
            "summary": self.summary.state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a state; traces and blobs are not in it."""
        for one, mine in zip(self.independent_runs, state["independent_runs"], strict=True):
            one.restore(mine)
        self.evaluate.n_evaluations, self._n_warmup = state["n_evaluations"], state["n_warmup"]
        self.evaluate.n_retried = state["n_retried"]
        self.meter = state["meter"]
        self.summary.restore(state["summary"])

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
                # a comprehension would add a frame to a user's traceback
                for one in self.independent_runs:
                    starts.append(one.random_start(self._values))
            else:
                starts = dealt(initial, self._values(initial), len(self.independent_runs))
            points, values = (np.concatenate(parts) for parts in zip(*starts, strict=True))
            if 1 + 2 * len(points) <= self._left:
                check_noise(self.request.model, points, values, self._values)
            for one, (points, values) in zip(self.independent_runs, starts, strict=True):
                one.start(points, values)
        except ValueError as error:
            if reasons := self.summary.rejected.summary(
                np.empty((0, self.request.model.dim)), 0
            ).reasons:
                raise ValueError(
                    f"{error}; the log-density was taken as -inf where it failed: {reasons}"
                ) from error
            raise
        self._n_warmup = self.evaluate.n_evaluations

    def _values(self, points: np.ndarray) -> np.ndarray:
        """Return the log-densities at points (k, d): from the store if there, or else evaluated."""
        __tracebackhide__ = True
        known = self.recorder.recall(points)
        if known is None:
            values = self.evaluate(points)
        else:
            self.evaluate.n_evaluations += len(points)
            self.blobs.keep(points, known)
            self.summary.note(points, known)
            values = self.evaluate.values(known)
        self._ascent.note(points, values)
        return values

    def _check_ascent(self, overflow: np.ndarray | None = None) -> None:
        """Raise an EvaluationError if the log-density is unbounded; this may cost some evaluations.

        ``overflow`` is a place (d,) where the function overflowed.
        """
        probe = partial(probed, self.request.model, self.evaluate.mapper)
        most = int(min(self._left, _PROBES))
        try:
            if overflow is not None:
                self._ascent.approach(overflow, probe, most)
            self._ascent.check(probe, most - self._ascent.n_probes)
        finally:
            self.evaluate.n_evaluations += self._ascent.n_probes
            self._ascent.n_probes = 0

    def _keep(self, points: np.ndarray, evaluations: Sequence[Evaluation]) -> None:
        self.blobs.keep(points, evaluations)
        self.summary.note(points, evaluations)
        self.recorder.keep(points, evaluations)

    def warming_up(self) -> bool:
        """Return whether the run is still in warm-up."""
        return any(one.warming_up for one in self.independent_runs)

    def n_draws(self) -> int:
        """Return the number of draws of every chain so far."""
        return min(len(one.trace) for one in self.independent_runs)

    def _has_all_draws(self) -> bool:
        return self.precise or (self.draws is not None and self.n_draws() >= self.draws)

    def _look(self) -> None:
        """Find out whether the draws are precise enough, now and then."""
        precision = self.request.precision
        if precision is not None and not self.warming_up() and is_look(self.n_draws()):
            trace = joined([one.trace for one in self.independent_runs])
            self.precise = error_of(self.request.model, trace) <= precision

    def _limit_warmup(self) -> None:
        """End warm-up when its part of the time is over; a replayed run ends it where it did."""
        if (
            self.warmup_cut is None
            and self.limit.warmup_over
            and self.warming_up()
            and not self.recorder.replaying
        ):
            self.warmup_cut = self.evaluate.n_evaluations
        if self.warmup_cut is not None and self.evaluate.n_evaluations >= self.warmup_cut:
            for one in self.independent_runs:
                one.end_warmup()

    @property
    def _left(self) -> float:
        """Evaluations that the budget still allows; inf without one."""
        return (
            np.inf
            if self.max_evaluations is None
            else self.max_evaluations - self.evaluate.n_evaluations
        )

    def _note(self, sweeps: Sequence[Step | None], looking: Sequence[bool]) -> bool:
        """Update display and result with the sweeps just made; whether they were of warm-up.

        A sweep without a step belongs to warm-up if its sampler was warming up (``looking``) before
        it.
        """
        warmup = any(
            before if step is None else step.warmup
            for step, before in zip(sweeps, looking, strict=True)
        )
        if warmup:
            self._n_warmup = self.evaluate.n_evaluations
        elif len(made := [step for step in sweeps if step is not None]) == len(sweeps):
            self.blobs.forget_but(made)
        self.meter.note(sweeps)
        return warmup

    def _progress(self, phase: str) -> Progress:
        n, compiled = self.evaluate.n_evaluations, self.compilation.seconds
        planned = self._planned if self.max_evaluations is None else self.max_evaluations
        return self.meter.record(
            phase, self.independent_runs, n, compiled, self.limit.left, planned
        )
