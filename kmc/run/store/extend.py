"""``kmc.extend``: add draws to a finished run."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Never

from kmc.checks import as_count, as_flag, as_seconds
from kmc.run import arguments
from kmc.run.arguments import Request
from kmc.run.executors import as_executor
from kmc.run.meter import Progress
from kmc.run.prepare import refuse_unknown
from kmc.run.run import Run
from kmc.run.sample import drive
from kmc.run.store.commit import read_commit
from kmc.run.store.files import StoreError
from kmc.run.store.open import (
    as_path,
    check_finished,
    check_settings,
    reopen,
    settings,
    stored_given,
    stored_model,
    stored_sampler,
    stored_seed,
)
from kmc.targets.model import Model


def extend(
    path: str | os.PathLike[str],
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
    path : str or path-like
        The path given to ``kmc.sample(store=...)``.
    draws : int, optional
        Further draws per chain.
    max_evaluations : int, optional
        Further true evaluations.
    target : callable or Model, optional
        The log-density. By default the pickled one in the store is used, if it could be pickled; that needs
        ``trust=True``.
    executor, progress, callback, max_time
        As in :func:`kmc.sample`.
    trust : bool
        Whether pickles in the store may be loaded: the log-density, if ``target`` is not given, and an estimator of
        your own in ``ScoreHMC``. Loading a pickle can run any code; nothing else in a store can.
    **unknown : Never
        Not accepted. Names of other samplers' arguments, such as ``tune`` or ``nwalkers``, raise an error that gives
        the name used here.

    Returns
    -------
    arviz.InferenceData or xarray.DataTree
        All draws, including the earlier ones; counts of evaluations are totals, too.

    Raises
    ------
    StoreError
        A ValueError: the run is not finished, the store lacks something that is needed, or has it as a pickle and
        ``trust`` is False.
    TypeError, ValueError, EvaluationError
        As from :func:`kmc.sample`.

    Notes
    -----
    If the call is interrupted, ``kmc.sample(..., resume=True)`` with the arguments of the run continues to the new
    number of draws or evaluations.

    Examples
    --------
    >>> import tempfile
    >>> import kmc
    >>> path, settings = tempfile.mkdtemp() + "/run.zarr", {"sampler": "random-walk", "progress": False}
    >>> idata = kmc.sample(lambda x: -0.5 * x @ x, dim=2, draws=50, seed=1, store=path, **settings)
    >>> kmc.extend(path, draws=30, target=lambda x: -0.5 * x @ x, progress=False).posterior.sizes["draw"]
    80
    """
    __tracebackhide__ = True
    refuse_unknown(extend, unknown)
    folder = as_path("path", path)
    further, budget = as_count("draws", draws, 1), as_count("max_evaluations", max_evaluations, 1)
    if further is None and budget is None:
        raise ValueError("draws=None and max_evaluations=None: give at least one of them")
    arguments.as_callback(callback)
    seconds = as_seconds("max_time", max_time)
    trust = as_flag("trust", trust)
    header, commit = read_commit(folder)
    check_finished(folder, commit)
    request, where = _request(folder, header, target, trust), as_executor(executor)
    recorder = reopen(folder, trust, further, budget)
    run = Run(request, where, seconds, recorder, header["save_surrogate"])
    return drive(run, progress, callback, header["save_warmup"])


def _request(folder: Path, header: dict[str, Any], target: Any, trust: bool) -> Request:
    """Return the settings of the store's run, as a Request."""
    asked = header["settings"]
    stored = stored_model(folder, header, trust) if target is None else target
    if stored is None:
        raise StoreError(f"path={str(folder)!r} holds no target that can be loaded here: pass target=...")
    model = arguments.as_model(stored, None if isinstance(stored, Model) else asked["dim"])
    sampler = stored_sampler(folder, header, trust)
    if sampler is None:
        raise StoreError(f"path={str(folder)!r} holds no sampler that can be loaded here, so it cannot be extended")
    try:
        initial = None if asked["initial"] is None else model.start_points(asked["initial"], 1)
        sampler = arguments.as_sampler(sampler)
    except (TypeError, ValueError) as error:
        raise StoreError(f"path={str(folder)!r} holds records that no run makes: {error}") from error
    seed = stored_seed(folder)
    assert seed is not None
    counts = {name: asked[name] for name in ("chains", "independent_runs", "draws", "warmup", "max_evaluations")}
    given = stored_given(folder)
    request = Request(model=model, sampler=sampler, seed=seed, initial=initial, history=given, **counts)
    check_settings(folder, asked, settings(request))
    return request
