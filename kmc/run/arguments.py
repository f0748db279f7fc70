"""Checked arguments of a run: every error names the argument, its value and what was expected."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kmc.checks import as_amount, as_flag, as_number
from kmc.kernel_hmc.sampler import KernelHMC
from kmc.model.model import Model
from kmc.run.history import Given, as_given
from kmc.samplers.adaptive_langevin import AdaptiveLangevin
from kmc.samplers.adaptive_metropolis import AdaptiveMetropolis
from kmc.samplers.ask_tell import traits_of
from kmc.samplers.base import Request, Sampler
from kmc.samplers.delayed_acceptance import DelayedAcceptance
from kmc.samplers.kameleon import Kameleon
from kmc.samplers.parallel_tempering import Tempered
from kmc.samplers.random_walk import RandomWalkMetropolis
from kmc.samplers.score_hmc import ScoreHMC


def _score_hmc() -> ScoreHMC:
    """Return the published sampler with its Nyström estimator."""
    from kmc.scores import NystromKEF  # only here: the other samplers need no estimator

    return ScoreHMC(NystromKEF())


SAMPLERS: dict[str, Callable[[], Sampler]] = {
    sampler.name: sampler
    for sampler in (
        KernelHMC,
        AdaptiveMetropolis,
        AdaptiveLangevin,
        DelayedAcceptance,
        Kameleon,
        RandomWalkMetropolis,
        Tempered,
    )
} | {ScoreHMC.name: _score_hmc}
"""By the name that :func:`kmc.sample` takes: functions that return the options."""


_DENSITY = (
    "a log-density with further arguments: close over them, kmc.sample(lambda x: f(x, *args), ...)"
)
_BOUNDS = 'a model with supports: kmc.Model(f, parameters={"a": kmc.Interval(0, 1), ...})'
_OF_MODEL = "an argument of kmc.Model(f, ...), which is passed as target"

# Names in PyMC, emcee, Stan, dynesty, zeus, PINTS and SciPy, and what to use instead.
_HERE = {
    "target": (
        "log_prob_fn",
        "logp",
        "log_prob",
        "logl",
        "loglikelihood",
        "log_density",
        "log_pdf",
        "model",
        "fun",
    ),
    "dim": ("ndim", "n_dim", "n_dims", "n_params", "dimension"),
    "initial": (
        "init",
        "inits",
        "initvals",
        "initial_points",
        "initial_state",
        "p0",
        "x0",
        "start",
        "live_points",
    ),
    "sampler": ("step", "nuts_sampler", "moves", "method", "algorithm", "kernel"),
    "draws": (
        "n_draws",
        "nsteps",
        "n_steps",
        "niter",
        "iterations",
        "iter_sampling",
        "num_samples",
        "n_samples",
    ),
    "warmup": (
        "tune",
        "burn",
        "burnin",
        "burn_in",
        "nburn",
        "iter_warmup",
        "num_warmup",
        "n_warmup",
        "adapt",
    ),
    "chains": ("nwalkers", "n_walkers", "walkers", "n_chains", "num_chains"),
    "max_evaluations": ("maxcall", "max_calls", "maxfev", "max_ncalls", "n_evaluations", "budget"),
    "seed": ("random_seed", "random_state", "rstate", "rng", "rng_key"),
    "progress": ("progressbar", "progress_bar", "verbose", "show_progress", "print_progress"),
    "save_warmup": ("discard_tuned_samples", "keep_warmup"),
    "executor": (
        "cores",
        "pool",
        "n_jobs",
        "threads",
        "processes",
        "parallel",
        "parallel_chains",
        "workers",
        "client",
    ),
    "store": ("trace", "backend", "filename", "file", "path", "output", "output_dir"),
    "max_time": ("timeout", "time_limit", "max_seconds"),
}

_ELSEWHERE = {
    **dict.fromkeys(("args", "kwargs", "logl_args", "logl_kwargs"), _DENSITY),
    **dict.fromkeys(("bounds", "lower", "upper"), _BOUNDS),
    "prior_transform": (
        "kmc.Model(log_likelihood=..., prior_transform=..., dim=...), which is passed as target"
    ),
    **dict.fromkeys(
        ("vectorize", "vectorized"),
        "kmc.Model(f, dim=..., vectorized=True), which is passed as target",
    ),
    **dict.fromkeys(
        ("parameters", "dims", "coords", "noisy", "on_error", "nonfinite", "prior"), _OF_MODEL
    ),
    **dict.fromkeys(
        ("parameter_names", "names", "var_names"),
        _OF_MODEL + ": parameters={name: kmc.Real(), ...}",
    ),
    **dict.fromkeys(("thin", "thin_by"), "idata.sel(draw=slice(None, None, 10)), after the run"),
}

_NEEDLESS = {
    "target_accept": "the sampler tunes its acceptance automatically",
    "return_inferencedata": "the result is always an InferenceData or DataTree",
}


def as_sampler(sampler: Any) -> Sampler:
    """Return the options of a sampler, from its name or the options themselves."""
    if isinstance(sampler, str):
        if sampler not in SAMPLERS:
            close = difflib.get_close_matches(sampler, SAMPLERS, 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise ValueError(
                f"sampler={sampler!r}: expected one of {', '.join(map(repr, SAMPLERS))}, or "
                f"options such as kmc.KernelHMC(){hint}"
            )
        return SAMPLERS[sampler]()
    if isinstance(sampler, type) or not isinstance(sampler, Sampler):
        raise TypeError(f"sampler={sampler!r}: expected a name or options such as kmc.KernelHMC()")
    return sampler


def _as_independent_runs(independent_runs: Any, chains: int) -> int:
    """Check that the number of independent runs divides the number of chains, and return it."""
    independent_runs = as_number("independent_runs", independent_runs, 1)
    if chains % independent_runs:
        raise ValueError(
            f"independent_runs={independent_runs!r} does not divide chains={chains!r}: expected "
            "the same number of chains in each, such as "
            f"chains={independent_runs * max(round(chains / independent_runs), 2)!r}"
        )
    return independent_runs


def as_history(history: Any, model: Model, sampler: Sampler) -> Given | None:
    """Return existing evaluations, for a sampler that learns from them."""
    if history is not None and not traits_of(sampler).history:
        raise ValueError(
            f"history is given, and sampler={sampler.name!r} does not use it: leave it out, or "
            f"use 'kernel-hmc'"
        )
    return as_given(history, model)


def as_callback(callback: Any) -> Any:
    """Check that a callback is callable or None, and return it."""
    if callback is not None and not callable(callback):
        raise TypeError(f"callback={callback!r}: expected a callable or None")
    return callback


@dataclass(frozen=True, kw_only=True)
class RunRequest(Request):
    """A request that the run layer fulfills: it evaluates a model.

    Attributes
    ----------
    model : Model
    independent_runs : int
        It divides ``chains``.
    history : Given or None
        Existing evaluations.
    max_time : float or None
        Seconds for this call.
    precision : float or None
        The run ends when no standard error of a mean or a standard deviation is larger, in standard
        deviations.
    save_surrogate : bool
        Whether results include the frozen surrogate and the proposals.
    """

    model: Model
    independent_runs: int = 1
    history: Given | None = None
    max_time: float | None = None
    precision: float | None = None
    save_surrogate: bool = True

    def __post_init__(self) -> None:
        __tracebackhide__ = True
        super().__post_init__()
        object.__setattr__(
            self, "independent_runs", _as_independent_runs(self.independent_runs, self.chains)
        )
        object.__setattr__(self, "max_time", as_amount("max_time", self.max_time, "seconds"))
        object.__setattr__(
            self, "precision", as_amount("precision", self.precision, "standard deviations")
        )
        object.__setattr__(self, "save_surrogate", as_flag("save_surrogate", self.save_surrogate))
        if self.initial is not None:
            object.__setattr__(self, "initial", self.model.start_points(self.initial, self.chains))
        least = 2 * (self.chains if self.initial is None else len(self.initial))
        if self.max_evaluations is not None and self.max_evaluations < least:
            raise ValueError(
                f"max_evaluations={self.max_evaluations!r}: too few to evaluate the start and move "
                f"every chain once, for which {least} are needed"
            )


def refuse_unknown(function: Callable[..., Any], unknown: Mapping[str, Any]) -> None:
    """Raise an error if there are unknown arguments.

    Raises
    ------
    TypeError
        With the name of the first of them in kmc, or the argument that it resembles.

    Examples
    --------
    >>> import kmc
    >>> kmc.sample(lambda x: -x @ x, dim=2, tune=500)
    Traceback (most recent call last):
        ...
    TypeError: kmc.sample() has no argument 'tune': use warmup=
    """
    __tracebackhide__ = True
    if not unknown:
        return
    name = next(iter(unknown))
    known = [
        p.name
        for p in inspect.signature(function).parameters.values()
        if p.kind is not p.VAR_KEYWORD
    ]
    raise TypeError(f"kmc.{function.__name__}() has no argument {name!r}: {_advice(name, known)}")


def _advice(name: str, known: list[str]) -> str:
    for ours, theirs in _HERE.items():
        if name in theirs and ours in known:
            return f"use {ours}="
    if name in _ELSEWHERE:
        return f"use {_ELSEWHERE[name]}"
    if name in _NEEDLESS:
        return f"leave it out, {_NEEDLESS[name]}"
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]}=?" if close else f"expected one of {', '.join(known)}"
