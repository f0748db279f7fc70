"""``kmc.sample`` and ``kmc.iterate``: run a sampler on a target within a budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any, Never, Self

import numpy as np

from kmc.checks import as_flag, check_some
from kmc.errors import shorten, warn
from kmc.interrupts import ignored
from kmc.model.convert import as_model
from kmc.model.model import Model
from kmc.run.arguments import RunRequest, as_callback, as_history, as_sampler, refuse_unknown
from kmc.run.budget import short_budget
from kmc.run.display import Line, make_display
from kmc.run.executors import as_executor
from kmc.run.progress import Progress
from kmc.run.run import Run
from kmc.run.store.open import as_store, opened, stored_given, stored_seed
from kmc.samplers.base import Sampler
from kmc.seeds import Seed, as_seed


def sample(
    target: Callable[[np.ndarray], float] | Model,
    dim: int | None = None,
    initial: Any = None,
    sampler: str | Sampler = "kernel-hmc",
    draws: int | None = 1000,
    warmup: int | None = None,
    chains: int = 4,
    max_evaluations: int | None = None,
    seed: Seed = None,
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
    precision: float | None = None,
    **unknown: Never,
) -> Any:
    """Draw from a density that can only be evaluated.

    Parameters
    ----------
    target : callable, Model, pymc.Model or bridgestan.StanModel
        The log-density, up to a constant: a function of one array of shape (d,) that returns a
        float. -inf is a legal value: the density is zero there. Parameters with names and supports
        need a :class:`kmc.Model`. Models of PyMC and BridgeStan are converted by
        :func:`kmc.from_pymc` and :func:`kmc.from_stan`.
    dim : int, optional
        Number of parameters d, for a bare callable.
    initial : array_like, shape (k, d), k >= chains, or mapping or list of mappings, optional
        Start points, over-dispersed if possible. For a model with named parameters they are
        unconstrained vectors, or given by name: arrays (k, ...), or a mapping for each point. A
        result of ``scipy.optimize.least_squares`` or lmfit stands for draws from its Gaussian, with
        its covariance. By default the model's own start points are used, or else random ones:
        uniform on [-2, 2]^d (of the unconstrained parameters), or as PyMC draws them, and redrawn
        where the density is zero.
    sampler : str or options, default "kernel-hmc"
        "kernel-hmc", "adaptive-metropolis", "adaptive-langevin", "delayed-acceptance", "kameleon",
        "random-walk", "score-hmc" (with ``kmc.scores.NystromKEF()``), "tempered", or options such
        as ``kmc.KernelHMC(...)``.
    draws : int or None
        Draws per chain. None: as many as ``max_evaluations`` or ``max_time`` allows. With neither,
        the length of warm-up is planned from the number of draws, and the display and
        :class:`kmc.Progress` show at the start how many evaluations the run will take at most.
    warmup : int, optional
        Sweeps of warm-up; by default the sampler decides. For "kernel-hmc", which learns in
        batches, at most ``warmup * chains`` evaluations for learning.
    chains : int
        Number of chains in the result. The chains of one independent run learn from one pooled
        history in warm-up.
    max_evaluations : int, optional
        Budget of true evaluations, start and warm-up included; never exceeded.
    seed : int, SeedSequence or Generator, optional
        The same seed gives the same draws in the same environment: type of processor, BLAS library,
        versions of kmc, NumPy, SciPy and Numba. The display, the executor and interruptions make no
        difference. In another environment, rounding errors lead to other draws of the same
        distribution.
    progress : bool
        Show a display: a live panel in a terminal, a live line in a notebook, and otherwise a line
        every ten seconds on standard error.
    callback : callable, optional
        Called with a :class:`kmc.Progress` at the start, after every sweep and at the end; a true
        return value stops the run, and the draws so far are returned. :func:`kmc.iterate` gives the
        same records to a loop of your own.
    save_warmup : bool
        Keep the groups ``warmup_posterior`` and ``warmup_sample_stats``.
    independent_runs : int
        Number of independent runs that the chains are divided among, in order: with ``chains=4,
        independent_runs=2`` the chains 0 and 1 learn from each other and are independent of 2 and
        3. Each run has its own start points and seeds, and an equal part of ``max_evaluations`` for
        its warm-up; afterwards all of them draw in step. A warning tells if they differ by more
        than chance.
    executor : None, int, or an object, optional
        Where the log-density is evaluated. None: in this process, one point after the other. An
        int: in that many processes, see :class:`kmc.ProcessExecutor`. A
        ``dask.distributed.Client``: on its workers, see :class:`kmc.DaskExecutor`. Anything else
        with a method ``map(function, iterable)``: a ``concurrent.futures`` executor, a
        ``multiprocessing.Pool``, an MPI pool, see :class:`kmc.MapExecutor`. Or an object with a
        method ``open(model)``, see :class:`kmc.run.executors.Executor`. The same seed gives the
        same draws, whatever the executor and its number of workers. The rows of a vectorized model
        are divided among them, so its values must not depend on which rows are evaluated together.
    store : path, optional
        A Zarr store that is written while sampling: evaluations, draws and the sampler's state.
        Or a backend of your own: an object whose ``recorder(request)`` returns a
        :class:`kmc.run.store.base.RunRecorder`.
    resume : bool
        Resume the run in ``store``, with the same arguments. The draws are bit for bit those of an
        uninterrupted run, and nothing in the store is evaluated again. Larger ``draws`` and
        ``max_evaluations`` extend it, also if it is finished; its warm-up and its first draws stay
        as they were. If there is no store yet, a new one is created, so that a script can be run
        again unchanged. Seed and history can be left out. Two stored points are evaluated again,
        which is not counted: a StoreError tells if the function or its data have changed, except
        for noisy models.
    max_time : float, optional
        Limit in seconds, from the first evaluation of this call. The run then stops after the
        current sweep, as if a callback had stopped it: the draws so far are returned, and the
        attribute "stopped_by" is "max_time". Warm-up ends after half of the time at the latest.
        With ``draws=None`` and no ``max_evaluations``, the run makes as many draws as the time
        allows. A stopped run in a ``store`` is continued by ``resume=True``, with the whole
        ``max_time`` again. Where the clock stops a run is not reproducible.
    trust : bool
        Whether a snapshot in the store may be used that was not written by this user on this
        machine. Without it the run is repeated from the store's evaluations, which gives the same
        draws and takes the sampler's own time.
    history : tuple (x, values), record, path, or result, optional
        Existing evaluations of the same log-density: the trace of an optimizer, an emcee chain, an
        older run. The surrogate of "kernel-hmc" learns from them, and warm-up ends sooner. They are
        not counted and never appear among the draws, see the notes. ``x`` holds n points in any
        form that `initial` takes; ``values`` (n,) are the values of `target` there: for named
        parameters, kmc adds the Jacobians. :func:`kmc.record` makes one of an optimizer's calls, or
        of those of a simulator. The path of a store stands for all evaluations in it, a result of
        :func:`kmc.sample` for its draws. Of a model with a simulator, the outputs count, whatever
        data and priors the earlier run had: the simulations for one data set teach the surrogate of
        the next.
    save_surrogate : bool
        Keep what :func:`kmc.expectations` and :func:`kmc.evidence` need: the group ``proposals``,
        with every point proposed in the main phase (unconstrained, ``x``), its log-density ``lp``
        and the surrogate's, ``surrogate``; and the group ``surrogate``, with the frozen surrogate
        as text. They take 8 (d + 2) + 2 bytes per draw, and about 11 (d + 1) bytes for each value
        that an independent run's surrogate is fitted to, or for each of 400 landmarks if these are
        more than 2,000. They are missing with other samplers, which freeze no surrogate. And the
        group ``final_state``, from which :func:`kmc.extend` continues: about 11 (d + 1) bytes for
        each evaluation.
    precision : float, optional
        End as soon as the Monte Carlo standard errors of all parameters' means and standard
        deviations are at most this fraction of their standard deviations: 0.05 needs about 400
        effective draws. They are computed from the draws whenever there are a tenth more of them.
        ``draws``, ``max_evaluations`` and ``max_time`` end the run in any case, with a warning if
        the errors are larger then.
    **unknown : Never
        Not accepted. Names of other samplers' arguments, such as ``tune`` or ``nwalkers``, raise an
        error that gives the name used here.

    Returns
    -------
    arviz.InferenceData or xarray.DataTree
        InferenceData with ArviZ < 1, DataTree with ArviZ >= 1. Group ``posterior`` holds ``x``
        (chain, draw, x_dim_0), or the named parameters of a model; their unconstrained vectors are
        ``x`` in ``unconstrained_posterior``. ``sample_stats`` holds statistics of each draw (``lp``
        is the log-density of the unconstrained vector, and ``constrained_lp`` that of the
        parameters, without the log-Jacobian; :func:`kmc.best` reads it), ``blobs`` and
        ``log_likelihood`` hold further outputs of the log-density. The attributes describe the run
        and its cost: "warnings" is a JSON list of sentences, empty if there are none, and
        "warning_codes" a list of their codes (:mod:`kmc.run.run_warnings`). "not_checked" is a JSON
        list of sentences about what the run could not check, such as further modes. With several
        independent runs, the sampler's own attributes ("n_refits", "surrogate_loo_sd", ...) are
        JSON lists with an entry for each run. "seed" and "seed_spawn_key" are the entropy and the
        spawn key of the SeedSequence that reproduces the draws.

    Raises
    ------
    TypeError, ValueError
        An invalid argument; the message names it, its value and what was expected.
    OSError
        The store cannot be written to: the disk is full, the folder read-only. The error names the
        file. Everything committed before is readable, and the draws so far are in the attribute
        ``idata``.
    RuntimeError
        Another process is writing to the store.
    FileExistsError, StoreError
        ``store`` exists already; or the run in it cannot be resumed: it is a different run, or
        damaged. StoreError is a ValueError.
    EvaluationError
        The log-density raised an exception or returned an invalid value. Its attribute ``idata``
        holds the draws so far; an exception raised by the callback gets the same attribute. After
        Ctrl-C the draws so far are returned, with a warning.

    Notes
    -----
    The points of one sweep are evaluated in parallel, at most one per chain (in warm-up more), so
    use as many chains as workers. After the freeze, chains do not wait for each other. The
    log-density is sent to each worker once, by cloudpickle, so that lambdas and closures work; each
    call then sends only the parameters. An exception on a worker is raised here as a
    :class:`kmc.EvaluationError`, with the worker's traceback as a note; the other points of that
    sweep have then been evaluated, and are counted.

    A log-density may return ``(value, blobs)``, where ``blobs`` is a dict of further numbers or
    arrays. They are kept with the states of the chains and become variables of the group ``blobs``,
    with the dimensions ``(chain, draw, *shape)``; those of warm-up are in ``warmup_blobs``. The
    log-likelihood of each observation, an array named "log_likelihood" or a dict of arrays with a
    name for each data set, goes to the group ``log_likelihood``, where ``arviz.loo`` looks for it.
    Names and shapes must be the same at each call; where the density is zero, they can be left out.
    Until the end of warm-up all blobs are in memory, afterwards only those of the draws.

    The values of a `history` only train the surrogate. Each state of a chain has a value that this
    run evaluated, so the draws are right whatever the history contains; a wrong history only makes
    the run slow. If start points are missing (neither `initial` nor a model's own), random points
    from the highest of the history are evaluated again and used. If log_density differs there from
    the history by more than a nat in the median, and is not noisy, the history is ignored, with a
    warning. The attribute "n_history" is the number of points used. More than 20,000 distinct
    points are thinned to at most that many. Independent runs share the history: what it misses,
    they may all miss.

    A killed process loses at most the work since the last commit to its store: commits are a
    quarter of a second apart, or a hundred times the duration of one commit. :func:`kmc.load` reads
    a store at any time. :func:`kmc.extend` adds draws to a run, with or without a store. A store is
    plain data: arrays, numbers and strings, from which a run continues with the model that you
    pass. In addition it holds pickles for :func:`kmc.extend` with ``trust=True``: the model, if it
    can be pickled, and objects in the sampler's options that are not from kmc. Such a store can be
    read by its owner alone.

    The kernel-HMC sampler learns a surrogate of the log-density, runs Hamiltonian dynamics on it
    and accepts each proposal by one true evaluation: see :class:`kmc.KernelHMC`.

    Examples
    --------
    >>> import numpy as np
    >>> import kmc
    >>> idata = kmc.sample(lambda x: -0.5 * np.sum(x**2), dim=2, draws=50, seed=1, progress=False)
    >>> idata.posterior["x"].shape
    (4, 50, 2)
    """
    __tracebackhide__ = True
    refuse_unknown(sample, unknown)
    as_callback(callback)
    progress = as_flag("progress", progress)
    run = iterate(
        target=target,
        dim=dim,
        initial=initial,
        sampler=sampler,
        draws=draws,
        warmup=warmup,
        chains=chains,
        max_evaluations=max_evaluations,
        seed=seed,
        save_warmup=save_warmup,
        independent_runs=independent_runs,
        executor=executor,
        store=store,
        resume=resume,
        max_time=max_time,
        trust=trust,
        history=history,
        save_surrogate=save_surrogate,
        precision=precision,
    )
    return drive(run._run, progress, callback, run._save_warmup)


def drive(
    run: Run, progress: bool, callback: Callable[[Progress], Any] | None, save_warmup: bool
) -> Any:
    """Run to the end, with a display.

    The last three parameters, the result and the errors are those of `sample`.
    """
    __tracebackhide__ = True
    with ExitStack() as until_returned:
        with make_display(progress) as display, closing(run.sweeps()) as records:
            run.compilation.tell = display.compiling
            try:
                for record in records:
                    display.update(record)
                    if callback is not None and _wants_to_stop(callback, record):
                        run.stopped_by = "callback"
            except KeyboardInterrupt:
                until_returned.enter_context(ignored())  # pressed again, it would lose the draws
                run.interrupted = True
                display.close("interrupted")
            # most likely of the user's function or callback: attach the draws so far
            except Exception as error:
                error.idata, _ = run.result(save_warmup=True)  # type: ignore[attr-defined]
                shorten(error)
                raise
        result, said = run.result(save_warmup=save_warmup or run.interrupted)
        for sentence in said:
            warn(sentence)
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
        raise TypeError(
            f"callback returned {answer!r}: expected True to stop, or False or None to continue"
        ) from error


class RunIterator(Iterator[Progress]):
    """A run that makes one sweep per step of a loop; made by :func:`kmc.iterate`."""

    def __init__(self, run: Run, save_warmup: bool):
        self._run, self._save_warmup = run, save_warmup
        self._records = run.sweeps()
        self._last: Progress | None = None

    def __next__(self) -> Progress:
        __tracebackhide__ = True
        try:
            self._last = next(self._records)
            return self._last
        except StopIteration:
            raise
        except KeyboardInterrupt:
            self._run.interrupted = self._save_warmup = True
            raise
        except Exception as error:  # most likely of the user's function: attach the draws so far
            self._save_warmup = True
            error.idata, _ = self._run.result(save_warmup=True)  # type: ignore[attr-defined]
            shorten(error)
            raise

    def __repr__(self) -> str:
        return f"<kmc run: {'not started' if self._last is None else repr(Line(self._last))}>"

    def result(self) -> Any:
        """Return the draws so far as :func:`kmc.sample` does, and give its warnings.

        It may be called at any time. After an exception or Ctrl-C the groups of the warm-up are
        included.
        """
        result, said = self._run.result(self._save_warmup)
        for sentence in said:
            warn(sentence)
        return result

    def close(self) -> None:
        """End the run now; repeated calls are harmless."""
        self._records.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def iterate(
    target: Callable[[np.ndarray], float] | Model,
    dim: int | None = None,
    initial: Any = None,
    sampler: str | Sampler = "kernel-hmc",
    draws: int | None = 1000,
    warmup: int | None = None,
    chains: int = 4,
    max_evaluations: int | None = None,
    seed: Seed = None,
    save_warmup: bool = False,
    independent_runs: int = 1,
    executor: Any = None,
    store: Any = None,
    resume: bool = False,
    max_time: float | None = None,
    trust: bool = False,
    history: Any = None,
    save_surrogate: bool = True,
    precision: float | None = None,
    **unknown: Never,
) -> RunIterator:
    """Run :func:`kmc.sample` as an iterator of progress records.

    Nothing is evaluated before the first step of the loop. Each later step makes one sweep. The
    draws are those of :func:`kmc.sample` with the same arguments, and the loop ends where
    :func:`kmc.sample` would return.

    Parameters
    ----------
    target, dim, initial, sampler, draws, warmup, chains, max_evaluations, seed, save_warmup,
    independent_runs
        As in :func:`kmc.sample`.
    executor, store, resume, max_time, trust, history, save_surrogate, precision
        As in :func:`kmc.sample`; ``max_time`` includes the time spent in the loop's body.
    **unknown : Never
        Not accepted. Names of other samplers' arguments, such as ``tune`` or ``nwalkers``, raise an
        error that gives the name used here.

    Returns
    -------
    RunIterator
        An iterator of :class:`kmc.Progress`: one before the first evaluation, one after each sweep
        and one at the end. ``result()`` gives the draws so far, in the loop and after it. After
        ``break``, another loop continues the run; ``close()``, or leaving a ``with`` block, ends
        it.

    Raises
    ------
    TypeError, ValueError
        At once, for an invalid argument.
    EvaluationError
        In the loop, as in :func:`kmc.sample`: the draws so far are in its attribute ``idata``, and
        in ``result()``. After Ctrl-C they are in ``result()`` too, and the KeyboardInterrupt is
        passed on to the caller.

    Examples
    --------
    Draw until the worst parameter has an effective sample size of more than 200:

    >>> import numpy as np
    >>> import kmc
    >>> run = kmc.iterate(lambda x: -0.5 * np.sum(x**2), dim=2, draws=10_000, seed=1)
    >>> for progress in run:
    ...     if progress.ess > 200:
    ...         break
    >>> idata = run.result()
    >>> idata.posterior.sizes["draw"] < 1000
    True
    """
    __tracebackhide__ = True
    refuse_unknown(iterate, unknown)
    save_warmup = as_flag("save_warmup", save_warmup)
    model, options = as_model(target, dim), as_sampler(sampler)
    check_some(draws=draws, max_evaluations=max_evaluations, max_time=max_time)
    where = as_executor(executor)
    place = as_store(store, resume, trust)
    request = RunRequest(
        model=model,
        sampler=options,
        initial=model.initial if initial is None else initial,
        draws=draws,
        warmup=warmup,
        chains=chains,
        max_evaluations=max_evaluations,
        seed=as_seed(stored_seed(place) if seed is None else seed),
        independent_runs=independent_runs,
        history=stored_given(place) if history is None else as_history(history, model, options),
        max_time=max_time,
        precision=precision,
        save_surrogate=save_surrogate,
    )
    request, recorder = opened(request, place, save_warmup=save_warmup, trust=trust)
    run = Run(request, where, recorder)
    if sentence := short_budget(request):
        warn(sentence)
    return RunIterator(run, save_warmup)
