"""From the user's arguments to a run: every argument of :func:`kmc.sample` is checked here."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

from kmc.checks import as_amount, as_count, as_flag, as_number
from kmc.run import arguments
from kmc.run.arguments import Request
from kmc.run.executors import as_executor
from kmc.run.run import Run
from kmc.run.store.open import as_store, open_recorder, planned_limits, stored_given, stored_seed

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
    *,
    target: Any,
    dim: Any,
    initial: Any,
    sampler: Any,
    draws: Any,
    warmup: Any,
    chains: Any,
    max_evaluations: Any,
    seed: Any,
    independent_runs: Any = 1,
    executor: Any = None,
    store: Any = None,
    resume: Any = False,
    save_warmup: bool = False,
    max_time: Any = None,
    trust: Any = False,
    history: Any = None,
    save_surrogate: Any = True,
    precision: Any = None,
) -> Run:
    """Make a run that has not begun; parameters and errors are those of :func:`kmc.sample`.

    Its store, if it has one, is created or opened here, and locked.
    """
    __tracebackhide__ = True
    where = as_executor(executor)
    model = arguments.as_model(target, dim)
    options = arguments.as_sampler(sampler)
    chains = as_number("chains", chains, 1)
    independent_runs = arguments.as_independent_runs(independent_runs, chains)
    draws = as_count("draws", draws, 1)
    warmup = as_count("warmup", warmup, 0)
    max_evaluations = as_count("max_evaluations", max_evaluations, 1)
    max_time = as_amount("max_time", max_time, "seconds")
    precision = as_amount("precision", precision, "standard deviations")
    if draws is None and max_evaluations is None and max_time is None:
        raise ValueError("draws=None, max_evaluations=None and max_time=None: give at least one of them")
    own = callable(getattr(store, "recorder", None))  # a backend from outside the package
    path = None if own else as_store(store, resume)
    trust = as_flag("trust", trust)
    if trust and not resume:
        raise ValueError(
            "trust=True and resume=False: only a run that is resumed has anything to trust; leave trust out"
        )
    seed_sequence = arguments.as_seed(stored_seed(path) if seed is None else seed)
    initial = arguments.as_initial(initial, chains, model)
    given = stored_given(path) if history is None else arguments.as_history(history, model, options)
    least = 2 * (chains if initial is None else len(initial))
    if max_evaluations is not None and max_evaluations < least:
        raise ValueError(
            f"max_evaluations={max_evaluations!r}: too few to evaluate the start and move every chain once, for which "
            f"{least} are needed"
        )
    limits = draws, max_evaluations
    draws, max_evaluations = planned_limits(path, limits)
    request = Request(
        model, options, chains, independent_runs, draws, warmup, max_evaluations, seed_sequence, initial, given
    )
    save_surrogate = as_flag("save_surrogate", save_surrogate)
    recorder = store.recorder(request) if own else None
    if path is not None:
        recorder = open_recorder(request, path, save_warmup, save_surrogate, trust, limits)
    return Run(request, where, max_time, recorder, save_surrogate, precision)


def prepare_from(given: Mapping[str, Any]) -> Run:
    """Make a run from the ``locals()`` of a function that has all of :func:`prepare`'s arguments."""
    __tracebackhide__ = True
    return prepare(**{name: given[name] for name in _NAMES})


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


_NAMES = tuple(signature(prepare).parameters)
