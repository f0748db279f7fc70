"""Make a run from the user's arguments: every argument of :func:`kmc.sample` is checked here."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from typing import Any

from kmc.run import arguments
from kmc.run.executors import as_executor
from kmc.run.request import Request
from kmc.run.run import Run
from kmc.run.store.open import as_store, open_recorder, stored_given, stored_seed


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
) -> Run:
    """A run that has not begun; parameters and errors are those of :func:`kmc.sample`."""
    __tracebackhide__ = True
    where = as_executor(executor)
    model = arguments.as_model(target, dim)
    options = arguments.as_sampler(sampler)
    chains = arguments.as_number("chains", chains, 1)
    independent_runs = arguments.as_independent_runs(independent_runs, chains)
    draws = arguments.as_count("draws", draws, 1)
    warmup = arguments.as_count("warmup", warmup, 0)
    max_evaluations = arguments.as_count("max_evaluations", max_evaluations, 1)
    max_time = arguments.as_seconds("max_time", max_time)
    if draws is None and max_evaluations is None and max_time is None:
        raise ValueError("draws=None, max_evaluations=None and max_time=None: give at least one of them")
    own = callable(getattr(store, "recorder", None))  # a backend from outside the package
    path = None if own else as_store(store, resume)
    trust = arguments.as_flag("trust", trust)
    seed_sequence = arguments.as_seed(stored_seed(path) if seed is None else seed)
    initial = arguments.as_initial(initial, chains, model)
    given = stored_given(path) if history is None else arguments.as_history(history, model, options)
    if max_evaluations is not None and max_evaluations < 2 * (chains if initial is None else len(initial)):
        raise ValueError(
            f"max_evaluations={max_evaluations!r}: too few to evaluate the start and move every chain once"
        )
    request = Request(
        model, options, chains, independent_runs, draws, warmup, max_evaluations, seed_sequence, initial, given
    )
    save_surrogate = arguments.as_flag("save_surrogate", save_surrogate)
    recorder = store.recorder(request) if own else None
    if path is not None:
        recorder = open_recorder(request, path, save_warmup, save_surrogate, trust)
    return Run(request, where, max_time, recorder, save_surrogate)


_NAMES = tuple(signature(prepare).parameters)


def prepare_from(given: Mapping[str, Any]) -> Run:
    """A run from the ``locals()`` of a function that has all of :func:`prepare`'s arguments."""
    __tracebackhide__ = True
    return prepare(**{name: given[name] for name in _NAMES})
