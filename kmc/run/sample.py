"""``kmc.sample``: a target, a sampler and a budget become draws."""

from __future__ import annotations

import time
import warnings
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from kmc.errors import KmcWarning
from kmc.mcmc.base import Problem, Process, Sampler, Sweep
from kmc.run import arguments
from kmc.run.convergence import worst_rhat
from kmc.run.display import make_display
from kmc.run.records import Progress
from kmc.run.results import to_arviz
from kmc.run.trace import Trace
from kmc.run.verdict import verdict
from kmc.targets.evaluate import Evaluator
from kmc.targets.model import Model
from kmc.threads import single_threaded

_TRIES_PER_START = 100


def sample(
    target: Callable[[np.ndarray], float] | Model,
    dim: int | None = None,
    initial: Any = None,
    sampler: str | Sampler = "kernel-hmc",
    draws: int | None = 1000,
    warmup: int | None = None,
    chains: int = 4,
    max_evaluations: int | None = None,
    seed: Any = None,
    progress: bool = True,
    callback: Callable[[Progress], Any] | None = None,
    save_warmup: bool = False,
) -> Any:
    """Draw from a density that can only be evaluated.

    Parameters
    ----------
    target : callable or Model
        The log-density, up to a constant: a function of one array of shape (d,) that returns a float. -inf is a legal
        value, where the density is zero.
    dim : int, optional
        Number of parameters d, for a bare callable.
    initial : array_like, shape (k, d), k >= chains, optional
        Start points, over-dispersed if possible. By default they are uniform on [-2, 2]^d, redrawn where the density is
        zero.
    sampler : str or options, default "kernel-hmc"
        "kernel-hmc", "adaptive-metropolis", "random-walk", or options such as ``kmc.KernelHMC(...)``.
    draws : int or None
        Draws per chain; None: as many as ``max_evaluations`` allows.
    warmup : int, optional
        Sweeps of warm-up; by default the sampler decides.
    chains : int
        Chains, which learn from one pooled history in warm-up.
    max_evaluations : int, optional
        Budget of true evaluations, start and warm-up included; never exceeded.
    seed : int, SeedSequence or Generator, optional
        The same seed gives the same draws, whatever the display does.
    progress : bool
        Show a display on standard error.
    callback : callable, optional
        Called with a :class:`kmc.run.records.Progress` after every sweep; a true return value stops the run, and the
        draws so far are returned.
    save_warmup : bool
        Keep the groups ``warmup_posterior`` and ``warmup_sample_stats``.

    Returns
    -------
    arviz.InferenceData or xarray.DataTree
        The first with ArviZ < 1, the second with ArviZ >= 1. Group ``posterior`` holds ``x`` (chain, draw, x_dim_0),
        ``sample_stats`` what happened at each draw; the attributes say what was run and at what price, and "warnings"
        is a JSON list of sentences, empty when all is well.

    Raises
    ------
    TypeError, ValueError
        A bad argument; the message names it, its value and what was expected.
    EvaluationError
        The log-density raised an exception or returned something else than a log-density. Its attribute ``idata``
        holds the draws so far, as it does for an exception that the callback raises. After Ctrl-C the draws so far
        are returned, with a warning.

    Notes
    -----
    The kernel-HMC sampler learns a surrogate of the log-density, runs Hamiltonian dynamics on it and accepts each
    proposal by one true evaluation: see :class:`kmc.KernelHMC`.

    Examples
    --------
    >>> import numpy as np
    >>> import kmc
    >>> idata = kmc.sample(lambda x: -0.5 * np.sum(x**2), dim=2, draws=200, seed=1, progress=False)
    >>> idata.posterior["x"].shape
    (4, 200, 2)
    """
    model = arguments.as_model(target, dim)
    options = arguments.as_sampler(sampler)
    chains = arguments.as_number("chains", chains, 1)
    draws = arguments.as_count("draws", draws, 1)
    warmup = arguments.as_count("warmup", warmup, 0)
    max_evaluations = arguments.as_count("max_evaluations", max_evaluations, 1)
    if draws is None and max_evaluations is None:
        raise ValueError("draws=None and max_evaluations=None: give at least one of them")
    if callback is not None and not callable(callback):
        raise TypeError(f"callback={callback!r}: expected a callable or None")
    if initial is not None:
        initial = arguments.as_initial(initial, chains, model.dim)
    if max_evaluations is not None and max_evaluations < 2 * (chains if initial is None else len(initial)):
        raise ValueError(
            f"max_evaluations={max_evaluations!r}: too few to evaluate the start and move every chain once"
        )
    seed_sequence = arguments.as_seed(seed)
    run = _Run(model, options, chains, draws, warmup, max_evaluations, seed_sequence, callback)
    with make_display(progress) as display:
        run.show = display.update
        try:
            run.start(initial)
            run.loop()
        except KeyboardInterrupt:
            run.interrupted = True
        except Exception as error:  # of the user's function or callback, most likely: the draws so far go with it
            error.idata = run.result(save_warmup=True)  # type: ignore[attr-defined]
            raise
    result = run.result(save_warmup=save_warmup or run.interrupted)
    for sentence in run.warnings():
        warnings.warn(sentence, KmcWarning, stacklevel=2)
    return result


class _Run:
    """One run: the process, the evaluator and the traces, from the first evaluation to the result."""

    def __init__(
        self,
        model: Model,
        sampler: Sampler,
        chains: int,
        draws: int | None,
        warmup: int | None,
        max_evaluations: int | None,
        seed: np.random.SeedSequence,
        callback: Callable[[Progress], Any] | None,
    ):
        self.sampler, self.chains, self.draws = sampler, chains, draws
        self.warmup, self.max_evaluations = warmup, max_evaluations
        self.seed, self.callback = seed, callback
        self.start_seed, self.process_seed = seed.spawn(2)
        self.evaluate = Evaluator(model)
        self.trace, self.warmup_trace = Trace(chains, model.dim), Trace(chains, model.dim)
        self.process: Process | None = None
        self.show: Callable[[Progress], None] = lambda record: None
        self.interrupted = self.stopped = False
        self.n_evaluations_warmup = 0
        self.n_divergences = 0
        self.recent_acceptance: deque[float] = deque(maxlen=100)
        self.clock = time.perf_counter()

    def start(self, initial: np.ndarray | None) -> None:
        """Evaluate the start points and start the process."""
        points, values = (initial, self.evaluate(initial)) if initial is not None else self._random_start()
        if not np.any(np.isfinite(values)):
            raise ValueError(
                f"initial={np.array2string(points, threshold=20)}: the log-density is -inf at every start point; "
                "pass start points at which the density is positive"
            )
        self.process = self.sampler.start(
            Problem(
                dim=self.evaluate.model.dim,
                chains=self.chains,
                initial=points,
                initial_log_density=values,
                draws=self.draws,
                warmup=self.warmup,
                max_evaluations=self.max_evaluations,
                seed=self.process_seed,
                noisy=self.evaluate.model.noisy,
            )
        )
        self.n_evaluations_warmup = self.evaluate.n_evaluations

    def loop(self) -> None:
        """Sweep until the draws are made, the budget is spent or the callback says stop."""
        process = self.process
        assert process is not None
        while not self.stopped and (self.draws is None or len(self.trace) < self.draws):
            with single_threaded():
                points = process.propose()
            if self.max_evaluations is not None and self.evaluate.n_evaluations + len(points) > self.max_evaluations:
                break
            values = self.evaluate(points)  # with whatever threads the user's function has
            with single_threaded():
                sweep = process.advance(values)
            if sweep is not None:
                self._keep(sweep)
            if sweep is None or sweep.warmup:
                self.n_evaluations_warmup = self.evaluate.n_evaluations
            self._tell("warmup" if process.warming_up else "sampling")
        self._tell("done")

    def result(self, save_warmup: bool) -> Any:
        """The draws so far, as ArviZ holds them."""
        attrs = {
            "sampler": self.sampler.name,
            "settings": self.sampler,
            "seed": self.seed.entropy,
            "chains": self.chains,
            "n_evaluations": self.evaluate.n_evaluations,
            "n_evaluations_warmup": self.n_evaluations_warmup,
            "sampling_time": time.perf_counter() - self.clock,
            "tuning_steps": len(self.warmup_trace),
            **(self.process.report() if self.process else {}),
            "warnings": self.warnings(),
        }
        return to_arviz(self.trace, self.warmup_trace if save_warmup else None, attrs)

    def warnings(self) -> list[str]:
        """Sentences about what the user should know."""
        facts = self.process.report() if self.process else {}
        rhat = worst_rhat(self.trace.positions)
        draws = None if self.stopped else self.draws  # a callback that stops the run knows that it did
        return verdict(self.sampler.name, self.trace, facts, draws, self.interrupted, rhat)

    def _random_start(self):
        """Uniform on [-2, 2]^d, redrawn where the density is zero."""
        rng = np.random.default_rng(self.start_seed)
        dim = self.evaluate.model.dim
        allowed = _TRIES_PER_START * self.chains
        if self.max_evaluations is not None:
            allowed = min(allowed, self.max_evaluations // 2)
        points, values = np.empty((0, dim)), np.empty(0)
        while np.isfinite(values).sum() < self.chains and len(points) < allowed:
            batch = rng.uniform(-2.0, 2.0, (min(self.chains, allowed - len(points)), dim))
            points, values = np.vstack([points, batch]), np.concatenate([values, self.evaluate(batch)])
        return points, values

    def _keep(self, sweep: Sweep) -> None:
        (self.warmup_trace if sweep.warmup else self.trace).append(sweep)
        self.recent_acceptance.append(float(np.mean(sweep.stats["acceptance_rate"])))
        if not sweep.warmup:
            self.n_divergences += int(np.sum(sweep.stats["diverging"]))

    def _tell(self, phase: str) -> None:
        assert self.process is not None
        record = Progress(
            phase=phase,
            draw=len(self.trace),
            draws=self.draws,
            n_evaluations=self.evaluate.n_evaluations,
            max_evaluations=self.max_evaluations,
            acceptance_rate=float(np.mean(self.recent_acceptance)) if self.recent_acceptance else float("nan"),
            n_divergences=self.n_divergences,
            n_refits=int(self.process.report().get("n_refits", 0)),
            elapsed=time.perf_counter() - self.clock,
        )
        self.show(record)
        if self.callback is not None and self.callback(record):
            self.stopped = True
