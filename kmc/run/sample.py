"""``kmc.sample``: a target, a sampler and a budget become draws."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import closing
from typing import Any, Never

import numpy as np

from kmc.deprecation import old_argument
from kmc.errors import KmcWarning, shorten
from kmc.mcmc.base import Sampler
from kmc.run import arguments
from kmc.run.budget import short_budget
from kmc.run.display import make_display
from kmc.run.foreign import refuse_unknown
from kmc.run.prepare import prepare_from
from kmc.run.records import Progress
from kmc.run.run import Run
from kmc.targets.model import Model


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
    independent_runs: int = 1,
    executor: Any = None,
    store: Any = None,
    resume: bool = False,
    max_time: float | None = None,
    trust: bool = False,
    history: Any = None,
    save_surrogate: bool = True,
    **unknown: Never,
) -> Any:
    """Draw from a density that can only be evaluated.

    Parameters
    ----------
    target : callable, Model, pymc.Model or bridgestan.StanModel
        The log-density, up to a constant: a function of one array of shape (d,) that returns a float. -inf is a legal
        value, where the density is zero. Parameters with names and supports need a :class:`kmc.Model`. Models of PyMC
        and BridgeStan are taken as :func:`kmc.from_pymc` and :func:`kmc.from_stan` do.
    dim : int, optional
        Number of parameters d, for a bare callable.
    initial : array_like, shape (k, d), k >= chains, or mapping or list of mappings, optional
        Start points, over-dispersed if possible. Those of a model with named parameters are unconstrained, or given by
        name: arrays (k, ...), or a mapping for each point. By default they are the model's own, or else random: uniform
        on [-2, 2]^d (of the unconstrained parameters), or as PyMC does it, and redrawn where the density is zero.
    sampler : str or options, default "kernel-hmc"
        "kernel-hmc", "adaptive-metropolis", "random-walk", or options such as ``kmc.KernelHMC(...)``.
    draws : int or None
        Draws per chain; None: as many as ``max_evaluations`` or ``max_time`` allows. With neither, warm-up is planned
        by the number of draws and of parameters, and the display and :class:`kmc.Progress` say at the start how many
        evaluations the run will take at the most.
    warmup : int, optional
        Sweeps of warm-up; by default the sampler decides.
    chains : int
        Chains of the result. Those of one independent run learn from one pooled history in warm-up.
    max_evaluations : int, optional
        Budget of true evaluations, start and warm-up included; never exceeded.
    seed : int, SeedSequence or Generator, optional
        The same seed gives the same draws in the same environment: type of processor, BLAS library, versions of kmc,
        NumPy, SciPy and Numba. The display, the executor and an interruption do not matter; in another environment
        rounding errors lead to other draws of the same distribution.
    progress : bool
        Show a display: a live panel in a terminal, a live line in a notebook, and otherwise a line every ten seconds on
        standard error.
    callback : callable, optional
        Called with a :class:`kmc.Progress` at the start, after every sweep and at the end; a true return value stops
        the run, and the draws so far are returned. :func:`kmc.iterate` gives the same records to a loop of your own.
    save_warmup : bool
        Keep the groups ``warmup_posterior`` and ``warmup_sample_stats``.
    independent_runs : int
        Independent runs that the chains are divided among, in order: with ``chains=4, independent_runs=2`` the chains 0
        and 1 learn from each other and are independent of 2 and 3. Each has its own start points and seeds, and an
        equal part of ``max_evaluations`` for its warm-up; then they draw in step. There is a warning if they differ by
        more than chance.
    executor : None, int, or an object, optional
        Where the log-density is evaluated. None: here, one point after the other. An int: in that many processes, see
        :class:`kmc.ProcessExecutor`. A ``dask.distributed.Client``: on its workers, see :class:`kmc.DaskExecutor`.
        Anything else with a method ``map(function, iterable)``: a ``concurrent.futures`` executor, a
        ``multiprocessing.Pool``, an MPI pool; or an object with a method ``open(model)``, see
        :class:`kmc.run.executors.Executor`. The same seed gives the same draws, whatever the executor and the number
        of its workers. The rows of a vectorized model are divided among them: its values must not depend on which rows
        come together.
    store : path, optional
        A Zarr store that is written while sampling: evaluations, draws and the sampler's state. Needs the package zarr.
        Or a backend of your own: an object whose ``recorder(request)`` returns a
        :class:`kmc.run.recording.RunRecorder`.
    resume : bool
        Resume the run in ``store``, with the same arguments; draws are bit for bit those of a run that was not
        interrupted, and nothing that is in the store is evaluated again. If there is no store yet, a new one is
        created, so that a script can be run again unchanged. Seed and history can be left out.
    max_time : float, optional
        Limit in seconds, from the first evaluation of this call. The run then stops after the current sweep, as if a
        callback had stopped it: the draws so far are returned, and the attribute "stopped_by" is "max_time". Warm-up
        ends at half of the time at the latest. With ``draws=None`` and no
        ``max_evaluations`` there are as many draws as the time allows. A run in a ``store`` that was stopped is
        continued by ``resume=True``, and gets the whole ``max_time`` again. Where the clock stops a run differs from
        run to run.
    trust : bool
        Whether pickles in the store may be loaded. There are some only if ``sampler`` holds objects that are not from
        kmc, such as an estimator of your own in ``KernelHMC(surrogate=...)``. A pickle can run any code when it is
        loaded; nothing else in a store can.
    history : tuple (x, values), path, or result, optional
        Evaluations of the same log-density that were made before: the trace of an optimizer, an emcee chain, an older
        run. The surrogate of "kernel-hmc" learns from them, and warm-up ends sooner. They are not counted and never
        enter the draws, see the notes. ``x`` holds n points in any form that `initial` takes; ``values`` (n,) is what
        `target` returned there: where parameters have names, kmc adds the Jacobians. The path of a store stands for
        all evaluations in it, and a result of :func:`kmc.sample` for its draws.
    save_surrogate : bool
        Keep what :func:`kmc.expectations` and :func:`kmc.evidence` need: the group ``proposals``, with every point that
        the main phase proposed (unconstrained, ``x``), its log-density ``lp`` and the surrogate's, ``surrogate``, and
        the frozen surrogate itself, as arrays, in the group ``surrogate``. They take 8 (d + 2) + 2 bytes for each draw,
        and about 8 (d + 1) bytes for each of the 200 or 400 kernel sections of each independent run. There are none
        where no surrogate is frozen: with other samplers, vanishing adaptation, or a surrogate of your own.
    **unknown : Never
        Refused: names of other samplers' arguments, such as ``tune`` or ``nwalkers``, with the one that is meant here.

    Returns
    -------
    arviz.InferenceData or xarray.DataTree
        The first with ArviZ < 1, the second with ArviZ >= 1. Group ``posterior`` holds ``x`` (chain, draw, x_dim_0),
        or the parameters of a model with names, whose unconstrained vectors are ``x`` in ``unconstrained_posterior``;
        ``sample_stats`` holds what happened at each draw (``lp`` is the log-density of the unconstrained vector),
        ``blobs`` and ``log_likelihood`` what else the log-density returned. The
        attributes describe the run and its cost, and "warnings" is a JSON list of sentences, empty when all is
        well, and "warning_codes" one of their codes (:mod:`kmc.run.warning_codes`). Of several independent runs, what
        the sampler reports ("n_refits", "surrogate_loo_sd", ...) is a JSON list with an entry for each. "seed" and
        "seed_spawn_key" are the entropy and the spawn key of the SeedSequence that gives the same draws again.

    Raises
    ------
    TypeError, ValueError
        An invalid argument; the message names it, its value and what was expected.
    OSError
        The store cannot be written to: the disk is full, the folder read-only. The error names the file; what was
        committed before is readable, and the draws so far are in the attribute ``idata``.
    RuntimeError
        Another process is writing to the store.
    FileExistsError, StoreError
        ``store`` exists already; or the run in it cannot be resumed: it is another run, or damaged, or holds pickles
        and ``trust`` is False. StoreError is a ValueError.
    EvaluationError
        The log-density raised an exception or returned something that is not a log-density. Its attribute ``idata``
        holds the draws so far, as it does for an exception that the callback raises. After Ctrl-C the draws so far
        are returned, with a warning.

    Notes
    -----
    The points of one sweep are evaluated in parallel, at most one for each chain (in warm-up a few more): more workers
    than chains are of little use. The log-density goes to each worker once, by cloudpickle, so that a lambda or
    a closure will do; what changes from call to call are the parameters. An exception on a worker arrives as an
    :class:`kmc.EvaluationError` like one that was raised here, with the traceback there as a note; the other points of
    that sweep have then been evaluated, and count.

    A log-density may return ``(value, blobs)``, where ``blobs`` is a dict of numbers or arrays that it computed
    as well. They are kept with the states of the chains and become variables of the group ``blobs``, with the
    dimensions ``(chain, draw, *shape)``; those of warm-up are in ``warmup_blobs``. The log-likelihood of each
    observation, an array under the name "log_likelihood" or a dict of arrays with a name for each data set, goes to the
    group ``log_likelihood``, where ``arviz.loo`` looks for it. Names and shapes are the same at each call; where the
    density is zero, they can be left out. Until the end of warm-up all of them are in memory, afterwards those of the
    draws.

    The values of a `history` only train the surrogate: each state of a chain has a value that this run evaluated, so
    that the draws are right whatever the history contains; a wrong one only makes the run slow. Where
    start points are missing (neither `initial` nor a model's own), points of the history are evaluated again and used:
    random ones out of the highest. If log_density differs there from the history by more than a nat in the median, and
    is not noisy, the history is left alone, with a warning. "n_history" in the attributes is the number of points that
    were used. More than 20,000 distinct points are thinned to at most that many. Independent runs share the history:
    what it misses, they may all miss.

    A killed process loses at most the work since the last commit to its store: commits are a quarter of a
    second apart, or a hundred times as long as one takes. :func:`kmc.load` reads a store at any time, and
    :func:`kmc.extend` adds draws to a run that is finished. A store is plain data: arrays, numbers and strings, from
    which a run continues with the model that you pass. Besides, it holds pickles for ``trust=True``: the model, if
    it can be pickled, and objects in the sampler's options that kmc did not make.

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
    __tracebackhide__ = True
    independent_runs = old_argument(unknown, "replicas", "independent_runs", independent_runs)
    refuse_unknown(sample, unknown)
    arguments.as_callback(callback)
    progress = arguments.as_flag("progress", progress)
    save_warmup = arguments.as_flag("save_warmup", save_warmup)
    run = prepare_from(locals())
    if sentence := short_budget(run.request):
        warnings.warn(sentence, KmcWarning, stacklevel=2)
    return drive(run, progress, callback, save_warmup)


def drive(run: Run, progress: bool, callback: Callable[[Progress], Any] | None, save_warmup: bool) -> Any:
    """Take a run to its end, with a display; the last three parameters, what is returned and raised as in `sample`."""
    __tracebackhide__ = True
    with make_display(progress) as display, closing(run.sweeps()) as records:
        run.compilation.tell = display.compiling
        try:
            for record in records:
                display.update(record)
                if callback is not None and _wants_to_stop(callback, record):
                    run.stopped_by = "callback"
        except KeyboardInterrupt:
            run.interrupted = True
            display.close("interrupted")
        except Exception as error:  # of the user's function or callback, most likely: the draws so far go with it
            error.idata, _ = run.result(save_warmup=True)  # type: ignore[attr-defined]
            shorten(error)
            raise
    result, said = run.result(save_warmup=save_warmup or run.interrupted)
    for sentence in said:
        warnings.warn(sentence, KmcWarning, stacklevel=3)
    return result


def _wants_to_stop(callback: Callable[[Progress], Any], record: Progress) -> bool:
    __tracebackhide__ = True
    try:
        answer = callback(record)
    except Exception as error:
        error.add_note(f"raised by callback={callback!r}")
        raise
    try:
        return bool(answer)
    except Exception as error:  # an array has no truth value
        raise TypeError(f"callback returned {answer!r}: expected True to stop, or False or None to continue") from error
