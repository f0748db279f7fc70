"""From a request to a run; and arguments of other packages, for which the errors give the name in kmc."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kmc.checks import check_some
from kmc.run.arguments import RunRequest
from kmc.run.executors import as_executor
from kmc.run.run import Run
from kmc.run.store.base import Store
from kmc.run.store.open import open_recorder, planned

_DENSITY = "a log-density with further arguments: close over them, kmc.sample(lambda x: f(x, *args), ...)"
_BOUNDS = 'a model with supports: kmc.Model(f, parameters={"a": kmc.Interval(0, 1), ...})'
_OF_MODEL = "an argument of kmc.Model(f, ...), which is passed as target"

# Names in PyMC, emcee, Stan, dynesty, zeus, PINTS and SciPy, and what to use instead.
_HERE = {
    "target": ("log_prob_fn", "logp", "log_prob", "logl", "loglikelihood", "log_density", "log_pdf", "model", "fun"),
    "dim": ("ndim", "n_dim", "n_dims", "n_params", "dimension"),
    "initial": ("init", "inits", "initvals", "initial_points", "initial_state", "p0", "x0", "start", "live_points"),
    "sampler": ("step", "nuts_sampler", "moves", "method", "algorithm", "kernel"),
    "draws": ("n_draws", "nsteps", "n_steps", "niter", "iterations", "iter_sampling", "num_samples", "n_samples"),
    "warmup": ("tune", "burn", "burnin", "burn_in", "nburn", "iter_warmup", "num_warmup", "n_warmup", "adapt"),
    "chains": ("nwalkers", "n_walkers", "walkers", "n_chains", "num_chains"),
    "max_evaluations": ("maxcall", "max_calls", "maxfev", "max_ncalls", "n_evaluations", "budget"),
    "seed": ("random_seed", "random_state", "rstate", "rng", "rng_key"),
    "progress": ("progressbar", "progress_bar", "verbose", "show_progress", "print_progress"),
    "save_warmup": ("discard_tuned_samples", "keep_warmup"),
    "executor": ("cores", "pool", "n_jobs", "threads", "processes", "parallel", "parallel_chains", "workers", "client"),
    "store": ("trace", "backend", "filename", "file", "path", "output", "output_dir"),
    "max_time": ("timeout", "time_limit", "max_seconds"),
}

_ELSEWHERE = {
    **dict.fromkeys(("args", "kwargs", "logl_args", "logl_kwargs"), _DENSITY),
    **dict.fromkeys(("bounds", "lower", "upper"), _BOUNDS),
    "prior_transform": "kmc.Model(log_likelihood=..., prior_transform=..., dim=...), which is passed as target",
    **dict.fromkeys(("vectorize", "vectorized"), "kmc.Model(f, dim=..., vectorized=True), which is passed as target"),
    **dict.fromkeys(("parameters", "dims", "coords", "noisy", "on_error", "nonfinite", "prior"), _OF_MODEL),
    **dict.fromkeys(("parameter_names", "names", "var_names"), _OF_MODEL + ": parameters={name: kmc.Real(), ...}"),
    **dict.fromkeys(("thin", "thin_by"), "idata.sel(draw=slice(None, None, 10)), after the run"),
}

_NEEDLESS = {
    "target_accept": "the sampler tunes its acceptance automatically",
    "return_inferencedata": "the result is always an InferenceData or DataTree",
}


def prepare(
    request: RunRequest, executor: Any, store: Path | Store | None, *, save_warmup: bool = False, trust: bool = False
) -> Run:
    """Make a run that has not begun.

    Its store, if it has one, is created or opened here, and locked.
    """
    __tracebackhide__ = True
    check_some(draws=request.draws, max_evaluations=request.max_evaluations, max_time=request.max_time)
    where = as_executor(executor)
    if not isinstance(store, Path):
        return Run(request, where, None if store is None else store.recorder(request))
    limits = request.draws, request.max_evaluations
    request = planned(request, store)
    return Run(request, where, open_recorder(request, store, save_warmup, trust, limits))


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
    known = [p.name for p in inspect.signature(function).parameters.values() if p.kind is not p.VAR_KEYWORD]
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
