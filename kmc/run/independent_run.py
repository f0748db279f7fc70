"""One of a run's independent runs: chains that learn from one pooled history, and their draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kmc.arrays import MOST
from kmc.errors import EvaluationError
from kmc.model.model import Model
from kmc.model.starts import TRIED, near, wide_batches
from kmc.run.arguments import RunRequest
from kmc.run.structure import added, structured
from kmc.run.trace import BlobStore, Trace, constrained, simulated_data
from kmc.run.unvisited import unvisited
from kmc.samplers.ask_tell import traits_of
from kmc.samplers.base import SamplerSetup, SamplerState, Step, SurrogateState
from kmc.samplers.walkers import Lanes, Passed, Separable
from kmc.seeds import Stream, substream
from kmc.surrogate.density import Density
from kmc.threads import single_threaded

Evaluate = Callable[[np.ndarray], np.ndarray]

_TRIES_PER_START = 100
_WIDE_TRIES = 400
# nats, in the median, between values in the history and values of the function
_LARGEST_DIFFERENCE = 1.0
# sd of the log of the factors between further start points and the first that was found
_SPREADS = (0.03, 0.3, 1.0)


class IndependentRun:
    """A sampler's state from start points to draws; the caller evaluates the log-density.

    Parameters
    ----------
    request : RunRequest
        The request of the whole run.
    max_evaluations : int or None
        For planning.
    seed : SeedSequence
    blobs : BlobStore
        Looks up the blobs of a sweep's states.

    Attributes
    ----------
    history : Given or None
        Existing evaluations to learn from.
    trace, warmup_trace : Trace
    warming_up : bool
    """

    def __init__(
        self,
        request: RunRequest,
        max_evaluations: int | None,
        seed: np.random.SeedSequence,
        blobs: BlobStore,
    ):
        self.request, self.chains, self.max_evaluations = (
            request,
            request.chains // request.independent_runs,
            max_evaluations,
        )
        self.history = request.history
        self._seed = seed
        self._start_seed, self._process_seed = seed.spawn(2)
        self._blobs = blobs
        self._traits = traits_of(request.sampler)
        self._structured = structured(request.model) if self._traits.outputs else None
        self._added = added(request.model) if self._traits.outputs else None
        self._process: SamplerState | None = None
        self._asked: np.ndarray | None = None  # the points of the current sweep
        data = simulated_data(request.model, seed)
        keeps = self._traits.proposals
        self.trace = Trace(self.chains, request.model.dim, blobs, proposals=keeps, predictive=data)
        self.warmup_trace = Trace(self.chains, request.model.dim, blobs)

    @property
    def warming_up(self) -> bool:
        """Whether draws do not count yet."""
        return self._process is None or self._process.warming_up

    @property
    def tuning_steps(self) -> int:
        """Sweeps of warm-up so far."""
        return self.warmup_trace.left_out + len(self.warmup_trace)

    def random_start(self, evaluate: Evaluate) -> tuple[np.ndarray, np.ndarray]:
        """Evaluate start points until one per chain has positive density.

        Return points (k, d) and their values (k,).

        Points of the history come first, if there is one. Then come the model's own start points,
        or else uniform ones on [-2, 2]^d, until a limit of evaluations is reached. If one of these
        points has positive density, all of them are returned, those of zero density included. If
        none has, points on all scales are searched, and those of positive density are returned.
        Either way, fewer points than chains may have positive density.

        Raises
        ------
        ValueError
            The density is zero at all points.
        """
        __tracebackhide__ = True
        model = self.request.model
        rng = np.random.default_rng(self._start_seed)
        allowed = _TRIES_PER_START * self.chains
        if self.max_evaluations is not None:
            allowed = min(allowed, self.max_evaluations // 2)
        points, values = self._start_in_history(rng, evaluate)
        while np.isfinite(values).sum() < self.chains and len(points) < allowed:
            size = min(self.chains, allowed - len(points))
            batch = model.initial_points(rng, size)
            if batch is None:
                batch = rng.uniform(-2.0, 2.0, (size, model.dim))
            points, values = np.vstack([points, batch]), np.concatenate([values, evaluate(batch)])
        if np.any(np.isfinite(values)):
            return points, values
        return self._wide_start(evaluate, rng, len(points))

    def _wide_start(
        self, evaluate: Evaluate, rng: np.random.Generator, tried: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return points (k, d) of positive density, searched on all scales, and their values (k,).

        An error of the function ends the search: far outside its usual domain a function may do
        anything.
        """
        __tracebackhide__ = True
        model = self.request.model
        allowed = _WIDE_TRIES
        if self.max_evaluations is not None:
            allowed = min(allowed, self.max_evaluations // 4)
        points, values, n, failure = np.empty((0, model.dim)), np.empty(0), 0, None
        batches = wide_batches(rng, 4, model.dim)
        while len(values) < self.chains and n < allowed:
            batch = next(batches)[: allowed - n]
            if len(values):
                batch = near(
                    rng, len(batch), points[np.argmax(values)], float(rng.choice(_SPREADS))
                )
            n += len(batch)
            try:
                found = evaluate(batch)
            except EvaluationError as error:
                if len(values):
                    raise
                failure = error
                break
            positive = np.isfinite(found)
            points, values = (
                np.vstack([points, batch[positive]]),
                np.concatenate([values, found[positive]]),
            )
        if not len(values):
            raise ValueError(_nowhere(model, tried, n, failure)) from failure
        return points, values

    def _start_in_history(self, rng, evaluate):
        """Evaluate points of the history again; if values differ now, the history is not used."""
        if self.history is None:
            return np.empty((0, self.request.model.dim)), np.empty(0)
        rows = self.history.starts(rng, self.chains)
        points = self.history.x[rows]
        values = evaluate(points)
        difference = np.abs(values - self.history.values[rows])
        if (
            not self.request.model.noisy
            and len(rows)
            and np.nanmedian(difference) > _LARGEST_DIFFERENCE
        ):
            self.history = None
        return points, values

    def start(self, points: np.ndarray, values: np.ndarray) -> None:
        """Start the sampler at points (k, d) with log-densities (k,).

        Raises
        ------
        ValueError
            The density is zero at all of them, or the numbers are so large that their squares
            overflow.
        """
        positive = np.isfinite(values)
        if not np.any(positive):
            raise ValueError(
                f"initial={np.array2string(points, threshold=20)}: the log-density is -inf at "
                f"every start point; "
                "pass start points at which the density is positive; kmc.find_start looks for some"
            )
        best = np.argmax(np.where(positive, values, -np.inf))
        if np.abs(points[positive]).max() > MOST or abs(values[best]) > MOST:
            raise ValueError(
                f"the log-density is {values[best]:g} at the best start point, "
                f"{points[best].tolist()}: numbers beyond {MOST:g} overflow when they are squared; "
                "rescale the parameters so that their standard deviations are near 1, and check "
                "the units of the log-density"
            )
        outputs = self._outputs(points, values)
        if self._structured is not None and not self._structured.holds(points, values, outputs):
            self._structured = outputs = None
        self._process = self.request.sampler.start(
            SamplerSetup(
                dim=self.request.model.dim,
                chains=self.chains,
                initial=points,
                initial_log_density=values,
                draws=self.request.draws,
                warmup=self.request.warmup,
                max_evaluations=self.max_evaluations,
                seed=self._process_seed,
                noisy=self.request.model.noisy,
                history=self.history,
                initial_log_prior=self._log_prior(points),
                structure=None if self._structured is None else self._structured.structure,
                initial_outputs=outputs,
                approximation=None if self._structured is None else self._structured.approximation,
                known=self._added,
            )
        )

    def propose(self) -> np.ndarray:
        """Return points (k, d) whose log-density the next sweep needs.

        They are the same until ``advance`` is called.
        """
        assert self._process is not None
        if self._asked is None:
            with single_threaded():
                self._asked = self._process.propose()
        return self._asked

    def advance(self, values: np.ndarray) -> Step | None:
        """Finish the sweep with these log-densities (k,), and store it."""
        assert self._process is not None and self._asked is not None
        process: Any = self._process
        further = {
            "log_prior": self._log_prior(self._asked),
            "outputs": self._outputs(self._asked, values),
        }
        with single_threaded():
            sweep: Step | None = process.advance(
                values, **{name: x for name, x in further.items() if x is not None}
            )
        self._asked = None
        if sweep is not None:
            self._append(sweep)
        return sweep

    def lanes(self) -> Lanes | None:
        """Return the chains, each on its own; None as long as the sampler couples them."""
        return self._process.lanes() if isinstance(self._process, Separable) else None

    def join(self, passed: Sequence[Passed]) -> Step:
        """Finish a sweep that the chains have made on their own, and store it."""
        process: Any = self._process
        self._asked = None
        with single_threaded():
            sweep = process.join(passed)
        self._append(sweep)
        return sweep

    def _append(self, sweep: Step) -> None:
        model = self.request.model
        if model.parameters is not None:
            sweep.stats["constrained_lp"] = constrained(model, sweep.position, sweep.log_density)
        (self.warmup_trace if sweep.warmup else self.trace).append(sweep)

    def _log_prior(self, points: np.ndarray) -> np.ndarray | None:
        """Return the log-prior at points (k, d).

        Return None if the sampler does not take it, or the model does not have it apart.
        """
        return self.request.model.log_prior_apart(points) if self._traits.log_prior else None

    def _outputs(self, points: np.ndarray, values: np.ndarray) -> np.ndarray | None:
        """Return the simulator's outputs at points (k, d) with these values.

        Return None if the sampler does not learn from them.
        """
        if self._structured is None or not self.warming_up:
            return None
        return self._structured.outputs(self._blobs.of(points, values))

    def end_warmup(self) -> None:
        """Ask the sampler to end warm-up soon."""
        if self._process is not None and self._process.warming_up:
            self._process.end_warmup()

    def report(self) -> dict[str, Any]:
        """Return the sampler's facts; empty before it started."""
        if self._process is None:
            return {}
        unused = {} if self.request.history is None else {"n_history": 0}
        return unused | self._process.report()

    def density(self) -> Density | None:
        """Return the frozen surrogate that proposals are drawn from, or None."""
        return self._process.density if isinstance(self._process, SurrogateState) else None

    def evaluated(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Return points (n, d) and values (n,) that a surrogate learns from; None without one."""
        return self._process.evaluated if isinstance(self._process, SurrogateState) else None

    def left_out(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Return points (n, d) and values (n,) that were not learned from, or None.

        They were evaluated before the draws.
        """
        return self._process.left_out if isinstance(self._process, SurrogateState) else None

    def learned_outputs(self) -> np.ndarray | None:
        """Return the simulator's outputs (n, k) at these points; None if not learned from."""
        return self._process.learned_outputs if isinstance(self._process, SurrogateState) else None

    def checked(self) -> dict[str, Any]:
        """Return the sampler's facts, and those about evaluated places where no draw is."""
        report, density, evaluated = self.report(), self.density(), self.evaluated()
        if density is None or evaluated is None or self.request.model.noisy:
            return report
        x, values = evaluated
        draws = self.trace.positions.reshape(-1, density.dim)
        rng = np.random.default_rng(substream(self._seed, Stream.UNVISITED))
        try:
            found = unvisited(density, x, values, draws, rng)
        # the draws are made: a check must not lose them
        except (ValueError, ArithmeticError, KeyboardInterrupt):
            return report
        if found:
            places = [[*place.x.tolist(), place.value] for place in found]
            report = report | {"modes_left": places, "mass_left": found[0].share}
        return report

    def state(self) -> dict[str, Any]:
        """Return all that determines the continuation, and the number of sweeps made."""
        n = {"n_draws": len(self.trace), "n_warmup": self.tuning_steps}
        return {"process": self._process, "asked": self._asked, **n}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a state; the traces have to be restored, too."""
        self._process, self._asked = state["process"], state["asked"]


def shares(total: int | None, parts: int) -> list[int | None]:
    """Split a whole number into parts that differ by at most one; None for each part of None.

    Examples
    --------
    >>> shares(11, 3)
    [4, 4, 3]
    """
    return [None if total is None else (total + parts - 1 - i) // parts for i in range(parts)]


def dealt(
    points: np.ndarray, values: np.ndarray, hands: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Deal out start points (k, d) and values (k,) in turn, those of positive density first.

    Raises
    ------
    ValueError
        Too few points have positive density for each part to get one.
    """
    positive = np.isfinite(values)
    if 0 < positive.sum() < hands:
        raise ValueError(
            f"initial has {positive.sum()} start point(s) at which the density is positive: "
            f"expected at least {hands}, one for each of the independent runs"
        )
    order = np.argsort(~positive, kind="stable")
    rows = [np.sort(order[i::hands]) for i in range(hands)]
    return [(points[mine], values[mine]) for mine in rows]


def _nowhere(model: Model, tried: int, wide: int, failure: EvaluationError | None) -> str:
    """Return the error message if no start point was found: what was tried, and what to do."""
    usual = (
        f"uniform on [-2, 2]^{model.dim}"
        if model.initial_points(np.random.default_rng(0), 1) is None
        else "random"
    )
    if model.named:
        usual += " (before parameters are constrained)" if usual != "random" else ""
        bounds = "check that log_density and the supports of the parameters agree"
    else:
        bounds = (
            'give bounded parameters their bounds, kmc.Model(f, parameters={"a": '
            "kmc.Interval(0, 10), ...})"
        )
    last = (
        f"; the last of them ended in an error ({failure.args[0]})" if failure is not None else ""
    )
    return (
        f"the log-density is -inf at each of {tried + wide} start points that were tried, {tried} "
        f"{usual} and {wide} {TRIED}{last}: {bounds}, or pass start points of positive density, "
        "initial=...; kmc.find_start searches between bounds that you give"
    )
