"""Step-by-step use of a sampler, which asks the user's own loop for log-densities at points."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, overload

import numpy as np

from kmc.arrays import as_array
from kmc.checks import as_count, as_flag, as_number, check_some
from kmc.samplers.base import NamedMoves, Request, Sampler, SamplerSetup, SamplerState, Step, Traits
from kmc.seeds import Seed, as_seed
from kmc.threads import single_threaded


class AskTell:
    """A run of a sampler without kmc's run layer.

    It is made by ``kmc.KernelHMC().start(initial=...)`` or another sampler. The evaluations are
    made elsewhere: by an instrument, a queue, a spreadsheet. The draws are those of
    :func:`kmc.sample` with the same sampler, start points, seed and limits. The state can be
    pickled between any two calls, and continued in another process.

    Parameters
    ----------
    sampler : options
        Such as ``kmc.KernelHMC()``.
    initial : array_like, shape (k, d), k >= chains
        Start points, over-dispersed if possible: the first points to be evaluated.
    draws : int, optional
        Draws per chain, after warm-up. At least one of ``draws`` and ``max_evaluations`` is needed.
    warmup : int, optional
        Sweeps of warm-up; by default the sampler decides.
    chains : int
        Number of chains.
    max_evaluations : int, optional
        Budget of evaluations, start points and warm-up included; never exceeded.
    seed : int, SeedSequence or Generator, optional
        The same seed gives the same draws.
    noisy : bool
        Whether the log-densities are those of unbiased, noisy estimates of the density.

    Attributes
    ----------
    n_evaluations : int
        Values told so far.

    Raises
    ------
    TypeError, ValueError
        An invalid argument.

    Examples
    --------
    >>> import numpy as np
    >>> import kmc
    >>> start = np.random.default_rng(0).normal(0, 2, (4, 2))
    >>> state = kmc.AdaptiveMetropolis().start(initial=start, draws=100, seed=1)
    >>> while not state.done:
    ...     points = state.ask()
    ...     state.tell([-0.5 * x @ x for x in points])
    >>> state.positions.shape
    (4, 100, 2)
    """

    def __init__(
        self,
        sampler: Sampler,
        *,
        initial: Any,
        draws: int | None = None,
        warmup: int | None = None,
        chains: int = 4,
        max_evaluations: int | None = None,
        seed: Seed = None,
        noisy: bool = False,
    ):
        if isinstance(sampler, type) or not isinstance(sampler, Sampler):
            raise TypeError(f"sampler={sampler!r}: expected options such as kmc.KernelHMC()")
        self._asked = _start_points(initial, as_number("chains", chains, 1))
        self._request = Request(
            sampler=sampler,
            initial=self._asked,
            draws=draws,
            warmup=warmup,
            chains=chains,
            max_evaluations=as_count("max_evaluations", max_evaluations, len(self._asked)),
            seed=as_seed(seed).spawn(2)[1],  # as in kmc.sample
        )
        check_some(draws=draws, max_evaluations=max_evaluations)
        self._noisy = as_flag("noisy", noisy)
        self.n_evaluations = 0
        self._state: SamplerState | None = None
        self._has_prior = False
        self._steps: list[Step] = []

    def ask(self) -> np.ndarray:
        """Return the points (k, d), k >= 1, whose log-densities are needed next.

        They are the same until :meth:`tell` is called.

        Raises
        ------
        RuntimeError
            The run is done.
        """
        if self.done:
            raise RuntimeError(
                "ask: the run is done, as state.done says; no more points are needed"
            )
        return self._asked.copy()

    def tell(self, values: Any, log_prior: Any = None) -> None:
        """Take the log-densities (k,) of the points last asked for, in order; -inf for density 0.

        Parameters
        ----------
        values : array_like, shape (k,)
        log_prior : array_like, shape (k,), optional
            The part of each that :class:`kmc.Tempered` does not temper, from the first call on or
            never.

        Raises
        ------
        ValueError
            The wrong number of values, NaN or +inf, or -inf at all start points. The state is
            unchanged.
        TypeError
            The sampler takes no ``log_prior``, or not any more.
        RuntimeError
            The run is done.
        """
        if self.done:
            raise RuntimeError(
                "tell: the run is done, as state.done says; these values are not needed"
            )
        known = self._checked(values)
        prior = self._checked_prior(log_prior, known)
        with single_threaded():  # as in kmc.sample
            if self._state is None:
                self._state = self._started(known, prior)
            else:
                self._advance(known, prior)
            self.n_evaluations += len(known)
            self._asked = self._state.propose()
            # no chain moved: no evaluation is needed
            while not (len(self._asked) or self._has_all_draws):
                self._advance(np.empty(0), None if prior is None else np.empty(0))
                self._asked = self._state.propose()

    @property
    def done(self) -> bool:
        """Whether all draws are made, or the next points would exceed the budget."""
        budget = self._request.max_evaluations
        return self._has_all_draws or (
            budget is not None and self.n_evaluations + len(self._asked) > budget
        )

    @property
    def warming_up(self) -> bool:
        """Whether the steps do not count as draws yet."""
        return self._state is None or self._state.warming_up

    @property
    def positions(self) -> np.ndarray:
        """The draws so far, shape (chains, n, d)."""
        if not self._steps:
            return np.empty((self._request.chains, 0, self._asked.shape[1]))
        return np.stack([step.position for step in self._steps], axis=1)

    @property
    def log_density(self) -> np.ndarray:
        """Their log-densities, shape (chains, n)."""
        if not self._steps:
            return np.empty((self._request.chains, 0))
        return np.stack([step.log_density for step in self._steps], axis=1)

    def end_warmup(self) -> None:
        """End warm-up soon."""
        if self._state is not None and self._state.warming_up:
            self._state.end_warmup()

    def report(self) -> dict[str, Any]:
        """Return the sampler's facts; they are empty before the first values are told."""
        return {} if self._state is None else self._state.report()

    @property
    def _has_all_draws(self) -> bool:
        draws = self._request.draws
        return draws is not None and len(self._steps) >= draws

    def _checked(self, values: Any) -> np.ndarray:
        known = as_array("values", values)
        if known.shape != (len(self._asked),):
            raise ValueError(
                f"values has shape {known.shape}: expected the log-densities of the "
                f"{len(self._asked)} points last asked for, shape ({len(self._asked)},)"
            )
        wrong = np.isnan(known) | (known == np.inf)
        if np.any(wrong):
            i = int(np.flatnonzero(wrong)[0])
            raise ValueError(
                f"values[{i}]={known[i]} at the point {self._asked[i].tolist()}: expected a finite "
                "log-density, or -inf where the density is zero"
            )
        if self._state is None and not np.any(np.isfinite(known)):
            raise ValueError(
                "values: the log-density is -inf at every start point; start where the density is "
                "positive"
            )
        return known

    def _checked_prior(self, log_prior: Any, values: np.ndarray) -> np.ndarray | None:
        if self._state is None:
            self._has_prior = log_prior is not None
            sampler = self._request.sampler
            if self._has_prior and not traits_of(sampler).log_prior:
                raise TypeError(
                    f"log_prior: the sampler {sampler!r} takes none; only kmc.Tempered(...) does"
                )
        if self._has_prior != (log_prior is not None):
            raise TypeError(
                f"log_prior={log_prior!r}: expected it in every call or in none, as in the first "
                f"one"
            )
        if log_prior is None:
            return None
        prior = as_array("log_prior", log_prior)
        if prior.shape != values.shape or not np.all(np.isfinite(prior[np.isfinite(values)])):
            raise ValueError(
                f"log_prior={prior.tolist()}: expected shape {values.shape}, and finite numbers "
                f"where values are finite"
            )
        return prior

    def _started(self, values: np.ndarray, prior: np.ndarray | None) -> SamplerState:
        request = self._request
        return request.sampler.start(
            SamplerSetup(
                dim=self._asked.shape[1],
                chains=request.chains,
                initial=self._asked,
                initial_log_density=values,
                draws=request.draws,
                warmup=request.warmup,
                max_evaluations=request.max_evaluations,
                seed=request.seed,
                noisy=self._noisy,
                initial_log_prior=prior,
            )
        )

    def _advance(self, values: np.ndarray, prior: np.ndarray | None) -> None:
        assert self._state is not None
        state: Any = self._state
        step: Step | None = (
            state.advance(values) if prior is None else state.advance(values, log_prior=prior)
        )
        if step is not None and not step.warmup:
            self._steps.append(step)


class Startable(ABC):
    """Options of a sampler that can be started by kmc's run layer or by the user."""

    @property
    def _traits(self) -> Traits:
        return Traits()

    def _longest_warmup(self, dim: int, chains: int, draws: int, warmup: int | None) -> int:
        """Return the evaluations of warm-up, if nothing limits them: one per chain and sweep.

        By default there are as many sweeps as draws.
        """
        return chains * (draws if warmup is None else warmup)

    @overload
    def start(self, setup: SamplerSetup) -> SamplerState: ...

    @overload
    def start(
        self,
        *,
        initial: Any,
        draws: int | None = None,
        warmup: int | None = None,
        chains: int = 4,
        max_evaluations: int | None = None,
        seed: Seed = None,
        noisy: bool = False,
    ) -> AskTell: ...

    def start(self, setup: SamplerSetup | None = None, **arguments: Any) -> Any:
        """Begin a run that asks for points and is told log-densities; see :class:`kmc.AskTell`.

        Parameters
        ----------
        setup : SamplerSetup, optional
            Passed by :func:`kmc.sample`; the result is then a
            :class:`kmc.samplers.base.SamplerState`.
        **arguments
            Those of :class:`kmc.AskTell`.

        Returns
        -------
        AskTell
        """
        if setup is None:
            return AskTell(self, **arguments)  # type: ignore[arg-type]
        return self._start(setup)

    @abstractmethod
    def _start(self, setup: SamplerSetup) -> SamplerState:
        """Return the state of a run with this setup."""


def traits_of(sampler: Sampler) -> Traits:
    """Return what a sampler can use; one from outside the package may have names of moves."""
    if isinstance(sampler, Startable):
        return sampler._traits
    return Traits(moves=sampler.moves if isinstance(sampler, NamedMoves) else None)


def _start_points(initial: Any, chains: int) -> np.ndarray:
    expected = f"expected start points of shape (k, d) with k >= chains={chains}, all finite"
    points = as_array("initial", initial).copy()
    if points.ndim != 2 or points.shape[1] == 0 or len(points) < chains:
        raise ValueError(f"initial has shape {points.shape}: {expected}")
    if not np.all(np.isfinite(points)):
        raise ValueError(f"initial={np.array2string(points, threshold=20)}: {expected}")
    return points
