"""A density learned while chains run: by the default surrogate from all evaluations, or by an estimator from states.

It is refitted at sweeps that are fixed in advance and ever rarer. What proposals make of it is corrected by the true
density, so that a wrong fit makes a sampler slow, never wrong.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kmc.samplers.adapting import Moved, Reservoir
from kmc.samplers.score_field import Affine, Field, GradientEstimator
from kmc.samplers.score_fitter import Fitter, History
from kmc.surrogate.coordinates.whitening import whiten_states
from kmc.surrogate.process import Process, Seen, fit_to_draws

_FIRST, _GROWTH = 30, 1.4  # sweep of the first fit, and the factor between successive ones; set by hand


class Learned(NamedTuple):
    """A fitted density."""

    field: Field  # its gradient, in the coordinates in which states are white
    surrogate: Process | None  # None: it is the field's estimator

    def log_density(self, x: np.ndarray) -> float:
        """Return the log-density at x (d,), up to a constant."""
        if self.surrogate is not None:
            return float(self.surrogate.log_density(x[None])[0])
        field: Any = self.field
        points = field.whitening(x[None]) if field.in_z else x[None]
        return float(field.estimator.log_density(points)[0])


class Online(NamedTuple):
    """Updates at sweep t > ``first`` with the probability t^-exponent."""

    first: int
    exponent: float


class DensityLearner:
    """Collects what chains evaluate and visit, and refits.

    Parameters
    ----------
    estimator : GradientEstimator or None
        Fitted to states, in coordinates in which they are white; None: the default surrogate.
    dim, max_states : int
        The largest number of states to which an estimator is fitted.
    noisy : bool
        Whether log-densities are those of noisy estimates.
    rng : Generator
    online : Online, optional
        Updates by ``partial_fit`` instead of refits, from some sweep on.

    Attributes
    ----------
    learned : Learned or None
        The last fit; None before the first.
    n_fits : int
    """

    def __init__(
        self,
        estimator: GradientEstimator | None,
        *,
        dim: int,
        max_states: int,
        noisy: bool,
        rng: np.random.Generator,
        online: Online | None = None,
    ):
        self._online = online
        self._waiting = History(dim)  # states since the last update
        self.learned: Learned | None = None
        self.n_fits = 0
        self._dim, self._noisy, self._rng = dim, noisy, rng
        self._fitter = None if estimator is None else Fitter(estimator, values=False, refit=True, rng=rng)
        self._evaluated = History(dim)
        self._states = Reservoir(dim + 1, max_states, rng)  # with their log-densities
        self._next = float(_FIRST)

    def learn(self, moved: Moved, sweep: int) -> bool:
        """Take what a sweep evaluated and visited, and return whether there is a new fit."""
        if self._fitter is None:
            made = moved.stats["n_evaluations"] > 0
            self._evaluated.extend(moved.proposed[made], moved.proposed_log_density[made])
        self._states.offer(np.column_stack([moved.position, moved.log_density]))
        if self._online is not None and sweep > self._online.first and self.learned is not None:
            return self._update(self._online, moved, sweep)
        if sweep < self._next:
            return False
        self._next = max(_GROWTH * self._next, sweep + 1.0)
        found = self._from_evaluations() if self._fitter is None else self._from_states(self._fitter)
        if found is None:
            return False
        self.learned, self.n_fits = found, self.n_fits + 1
        return True

    def facts(self) -> dict[str, Any]:
        """Return facts for the results' attributes."""
        facts: dict[str, Any] = {"n_refits": self.n_fits}
        if self._fitter is not None:
            facts |= {"surrogate": self._fitter.name, "n_failed_refits": self._fitter.n_failed}
            if self._fitter.n_failed:
                facts["refit_error"] = self._fitter.error
        return facts

    def _update(self, online: Online, moved: Moved, sweep: int) -> bool:
        """Give the estimator the states since its last update, with a probability that does not depend on them.

        Return whether there is a new fit.
        """
        assert self._fitter is not None and self.learned is not None
        self._waiting.extend(moved.position, moved.log_density)
        if self._rng.random() >= sweep**-online.exponent:
            return False
        field = self._fitter.extended(self.learned.field, self._waiting.x, self._waiting.log_density)
        self._waiting = History(self._dim)
        if field is None:
            return False
        self.learned, self.n_fits = Learned(field, None), self.n_fits + 1
        return True

    def _from_evaluations(self) -> Learned | None:
        x, values = self._evaluated.x, self._evaluated.log_density
        states = np.unique(self._states.x[:, :-1], axis=0)
        if len(states) < 3 * self._dim + 10:
            return None
        surrogate = fit_to_draws(Seen(x, values, states, np.full(x.shape, np.nan), self._noisy), self._rng)
        same = Affine(surrogate.jit_state, np.zeros(self._dim), np.eye(self._dim))
        return Learned(Field(None, surrogate.whitening, True, same), surrogate)

    def _from_states(self, fitter: Fitter) -> Learned | None:
        rows = self._states.x
        distinct, first, visits = np.unique(rows[:, :-1], axis=0, return_index=True, return_counts=True)
        if len(distinct) < 3 * self._dim + 10:
            return None
        field = fitter.fitted(distinct, rows[first, -1], visits, whitening=whiten_states(rows[:, :-1]))
        return None if field is None else Learned(field, None)
