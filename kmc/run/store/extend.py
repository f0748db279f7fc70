"""``kmc.extend``: add draws to a finished run."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Never

from kmc.checks import as_amount, as_count, as_flag, check_some
from kmc.model.convert import as_model
from kmc.model.model import Model
from kmc.run import arguments
from kmc.run.arguments import RunRequest
from kmc.run.executors import as_executor
from kmc.run.final_state import Continued
from kmc.run.history import Given
from kmc.run.progress import Progress
from kmc.run.run import Run
from kmc.run.sample import drive
from kmc.run.store.commit import read_commit
from kmc.run.store.files import StoreError, as_path
from kmc.run.store.open import (
    check_finished,
    check_settings,
    reopen,
    seed_of,
    settings,
    stored_given,
    stored_model,
    stored_sampler,
)


def extend(
    result: Any,
    *,
    draws: int | None = None,
    max_evaluations: int | None = None,
    target: Callable[..., Any] | Model | None = None,
    executor: Any = None,
    progress: bool = True,
    callback: Callable[[Progress], Any] | None = None,
    max_time: float | None = None,
    trust: bool = False,
    **unknown: Never,
) -> Any:
    """Add draws to a finished run: the same chains continue, with what they learned in warm-up.

    Parameters
    ----------
    result : InferenceData, DataTree or path
        What :func:`kmc.sample` returned, also from a netCDF file; or the path given to
        ``kmc.sample(store=...)``.
    draws : int, optional
        Further draws per chain.
    max_evaluations : int, optional
        Further true evaluations.
    target : callable or Model, optional
        The log-density. By default the pickled one in the store is used, if it could be pickled;
        that needs ``trust=True``. A result has none.
    executor, progress, callback, max_time
        As in :func:`kmc.sample`.
    trust : bool
        Whether pickles in the store may be loaded: the log-density, if ``target`` is not given, and
        an estimator of your own in ``ScoreHMC``. Loading a pickle can run any code; nothing else in
        a store can. Of a result, whether it may be one that was not made by this user on this
        machine.
    **unknown : Never
        Not accepted. Names of other samplers' arguments, such as ``tune`` or ``nwalkers``, raise an
        error that gives the name used here.

    Returns
    -------
    arviz.InferenceData or xarray.DataTree
        All draws, including the earlier ones; counts of evaluations are totals, too. If ``result``
        is not a path, it is left unchanged, and the groups of the warm-up are missing.

    Raises
    ------
    StoreError
        A ValueError: the run is not finished, the store lacks something that is needed, or has it
        as a pickle and ``trust`` is False.
    ValueError
        The result is not one of this version of kmc with all of its draws, or has no final state,
        see the notes.
    TypeError, ValueError, EvaluationError
        As from :func:`kmc.sample`.

    Notes
    -----
    The group ``final_state`` of a result has what the chains continue from. It is missing if the
    run was interrupted or raised an error, with ``save_surrogate=False``, with a sampler or
    estimator of your own, and for a run with a store, which is continued by its path.

    If the call is interrupted, ``kmc.sample(..., resume=True)`` with the arguments of the run
    continues to the new number of draws or evaluations of a store.

    Examples
    --------
    >>> import kmc
    >>> idata = kmc.sample(
    ...     lambda x: -0.5 * x @ x, dim=2, draws=50, sampler="random-walk", seed=1, progress=False
    ... )
    >>> longer = kmc.extend(idata, draws=30, target=lambda x: -0.5 * x @ x, progress=False)
    >>> longer.posterior.sizes["draw"]
    80

    With a store:

    >>> import tempfile
    >>> import kmc
    >>> path = tempfile.mkdtemp() + "/run.zarr"
    >>> settings = {"sampler": "random-walk", "progress": False}
    >>> idata = kmc.sample(lambda x: -0.5 * x @ x, dim=2, draws=50, seed=1, store=path, **settings)
    >>> longer = kmc.extend(path, draws=30, target=lambda x: -0.5 * x @ x, progress=False)
    >>> longer.posterior.sizes["draw"]
    80
    """
    __tracebackhide__ = True
    arguments.refuse_unknown(extend, unknown)
    further, budget = as_count("draws", draws, 1), as_count("max_evaluations", max_evaluations, 1)
    check_some(draws=draws, max_evaluations=max_evaluations)
    arguments.as_callback(callback)
    max_time, trust = as_amount("max_time", max_time, "seconds"), as_flag("trust", trust)
    where = as_executor(executor)
    if not isinstance(result, (str, os.PathLike)):
        request, continued = _of_result(result, further, budget, target, max_time, trust)
        return drive(Run(request, where, continued), progress, callback, save_warmup=False)
    folder = as_path("result", result)
    header, commit = read_commit(folder)
    check_finished(folder, commit)
    request = _of_store(folder, header, target, max_time, trust)
    run = Run(request, where, reopen(folder, trust, further, budget))
    return drive(run, progress, callback, header["save_warmup"])


def _of_result(
    result: Any,
    draws: int | None,
    max_evaluations: int | None,
    target: Any,
    max_time: float | None,
    trust: bool,
) -> tuple[RunRequest, Continued]:
    """Return the request of the run that made a result, and a recorder that continues it."""
    if not hasattr(result, "attrs") or not hasattr(result, "groups"):
        raise TypeError(
            f"result={type(result).__name__}: expected what kmc.sample returned, or the path of "
            f"its store"
        )
    if target is None:
        raise ValueError("target=None: a result does not hold the log-density, pass it")
    groups = (
        set(result.groups())
        if callable(result.groups)
        else {path.strip("/") for path in result.groups}
    )
    recorder = Continued(result, groups, draws, max_evaluations, trust)
    asked = recorder.settings
    model = as_model(target, None if isinstance(target, Model) else asked["dim"])
    request = _of_settings(asked, model, recorder.sampler, None, max_time)
    now = {name: value for name, value in settings(request).items() if name != "history"}
    check_settings("result", asked, now)
    return request, recorder


def _of_store(
    folder: Path, header: dict[str, Any], target: Any, max_time: float | None, trust: bool
) -> RunRequest:
    """Return the request of the run in a store."""
    asked = header["settings"]
    stored = stored_model(folder, header, trust) if target is None else target
    if stored is None:
        raise StoreError(
            f"result={str(folder)!r} holds no target that can be loaded here: pass target=..."
        )
    model = as_model(stored, None if isinstance(stored, Model) else asked["dim"])
    sampler = stored_sampler(folder, header, trust)
    if sampler is None:
        raise StoreError(
            f"result={str(folder)!r} holds no sampler that can be loaded here, so it cannot be "
            f"extended"
        )
    try:
        request = _of_settings(
            asked, model, sampler, stored_given(folder), max_time, header["save_surrogate"]
        )
    except (TypeError, ValueError) as error:
        raise StoreError(
            f"result={str(folder)!r} holds records that no run makes: {error}"
        ) from error
    check_settings(f"store={str(folder)!r}", asked, settings(request))
    return request


def _of_settings(
    asked: dict[str, Any],
    model: Model,
    sampler: Any,
    history: Given | None,
    max_time: float | None,
    save_surrogate: bool = True,
) -> RunRequest:
    """Return the request that had these settings."""
    return RunRequest(
        model=model,
        sampler=arguments.as_sampler(sampler),
        initial=asked["initial"],
        draws=asked["draws"],
        warmup=asked["warmup"],
        chains=asked["chains"],
        max_evaluations=asked["max_evaluations"],
        seed=seed_of(asked),
        independent_runs=asked["independent_runs"],
        history=history,
        max_time=max_time,
        save_surrogate=save_surrogate,
    )
