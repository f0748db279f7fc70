"""``kmc.iterate``: the run of ``kmc.sample`` as an iterator, for loops of your own."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, Never, Self

import numpy as np

from kmc.checks import as_flag, check_some
from kmc.errors import KmcWarning, shorten
from kmc.model.model import Model
from kmc.run import arguments
from kmc.run.arguments import RunRequest
from kmc.run.budget import short_budget
from kmc.run.display import Line
from kmc.run.executors import as_executor
from kmc.run.progress import Progress
from kmc.run.run import Run
from kmc.run.store.open import as_store, opened, stored_given, stored_seed
from kmc.samplers.base import Sampler
from kmc.seeds import Seed, as_seed


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

        It may be called at any time. After an exception or Ctrl-C the groups of the warm-up are included.
        """
        result, said = self._run.result(self._save_warmup)
        for sentence in said:
            warnings.warn(sentence, KmcWarning, stacklevel=2)
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

    Nothing is evaluated before the first step of the loop. Each later step makes one sweep. The draws are those of
    :func:`kmc.sample` with the same arguments, and the loop ends where :func:`kmc.sample` would return.

    Parameters
    ----------
    target, dim, initial, sampler, draws, warmup, chains, max_evaluations, seed, save_warmup, independent_runs
        As in :func:`kmc.sample`.
    executor, store, resume, max_time, trust, history, save_surrogate, precision
        As in :func:`kmc.sample`; ``max_time`` includes the time spent in the loop's body.
    **unknown : Never
        Not accepted. Names of other samplers' arguments, such as ``tune`` or ``nwalkers``, raise an error that gives
        the name used here.

    Returns
    -------
    RunIterator
        An iterator of :class:`kmc.Progress`: one before the first evaluation, one after each sweep and one at the end.
        ``result()`` gives the draws so far, in the loop and after it. After ``break``, another loop continues the run;
        ``close()``, or leaving a ``with`` block, ends it.

    Raises
    ------
    TypeError, ValueError
        At once, for an invalid argument.
    EvaluationError
        In the loop, as in :func:`kmc.sample`: the draws so far are in its attribute ``idata``, and in ``result()``.
        After Ctrl-C they are in ``result()`` too, and the KeyboardInterrupt is passed on to the caller.

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
    arguments.refuse_unknown(iterate, unknown)
    save_warmup = as_flag("save_warmup", save_warmup)
    model, options = arguments.as_model(target, dim), arguments.as_sampler(sampler)
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
        history=stored_given(place) if history is None else arguments.as_history(history, model, options),
        max_time=max_time,
        precision=precision,
        save_surrogate=save_surrogate,
    )
    request, recorder = opened(request, place, save_warmup=save_warmup, trust=trust)
    run = Run(request, where, recorder)
    if sentence := short_budget(request):
        warnings.warn(sentence, KmcWarning, stacklevel=2)
    return RunIterator(run, save_warmup)
