"""Kinds of surrogates, and the choice of the one that predicts new values best.

The log-density itself is regressed, or the outputs of a model's simulator: whatever has predicted
the values since the last search better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from kmc.kernel_hmc.stopping import MOST
from kmc.surrogate.covariance import Hyperparameters
from kmc.surrogate.emulator.emulated import Emulator
from kmc.surrogate.emulator.structure import Approximation, Structure
from kmc.surrogate.process import Process, Seen, condition_again, first_fit, fit_again, fit_to_draws
from kmc.surrogate.regression import STARTS

_BETTER = 0.5  # ratio of mean square errors at which another kind of process is better


class Kind(Protocol):
    """A way to make a process of evaluations."""

    def first(self, seen: Seen, rng: np.random.Generator) -> Process:
        """Fit to the first points."""

    def again(
        self, seen: Seen, last: Process, start: Hyperparameters, rng: np.random.Generator
    ) -> Process:
        """Search for hyperparameters, from those of the last process and from ``start``."""

    def conditioned(self, seen: Seen, last: Process, rng: np.random.Generator) -> Process:
        """Fit with the last hyperparameters."""

    def beside(self, seen: Seen, other: Process, rng: np.random.Generator) -> Process:
        """Fit to the draws of a process of another kind."""


class OfLogDensity:
    """Regress the log-density."""

    def first(self, seen: Seen, rng: np.random.Generator) -> Process:
        """See :class:`Kind`."""
        return first_fit(seen, rng)

    def again(
        self, seen: Seen, last: Process, start: Hyperparameters, rng: np.random.Generator
    ) -> Process:
        """See :class:`Kind`."""
        return fit_again(seen, last, start, rng)

    def conditioned(self, seen: Seen, last: Process, rng: np.random.Generator) -> Process:
        """See :class:`Kind`."""
        return condition_again(seen, last, rng)

    def beside(self, seen: Seen, other: Process, rng: np.random.Generator) -> Process:
        """See :class:`Kind`."""
        return fit_to_draws(seen, rng)


def kinds_of(
    structures: Sequence[Structure], approximation: Approximation | None = None
) -> list[Kind]:
    """Return the kinds for a model, the first one to begin with.

    With structures of a model with a simulator its outputs are regressed, too; with a cheap
    simulator, their difference from its own.
    """
    emulators = [Emulator(structure) for structure in structures]
    if approximation is not None:
        emulators = [replace(emulators[0], approximation=approximation), *emulators]
    return [*emulators, OfLogDensity()]


class KindChoice:
    """The kind of process that is in use, and what the others predict.

    Parameters
    ----------
    kinds : list of Kind
        The first one is used until another is better.
    """

    def __init__(self, kinds: list[Kind]):
        self._kinds, self._used = kinds, 0
        self._tried: list[Process] = []  # of each kind, at the last search
        self._n_tried = 0  # values then

    @property
    def used(self) -> Kind:
        """Return the kind in use."""
        return self._kinds[self._used]

    def again(
        self, seen: Seen, last: Process, n_searches: int, typical: float, rng: np.random.Generator
    ) -> Process:
        """Fit each kind again and return the process of the better predictor since the last search.

        ``typical`` is the log-density of typical draws: errors at deeper values count less.
        """
        start = STARTS[n_searches % len(STARTS)]
        if len(self._kinds) == 1:
            return self._kinds[0].again(seen, last, start, rng)
        if self._tried:
            new = slice(self._n_tried, None)
            losses = [
                _loss(process, seen.points[new], seen.values[new], typical)
                for process in self._tried
            ]
            other = int(np.argmin(losses))
            if losses[other] < _BETTER * losses[self._used]:
                self._used = other
        tried = self._tried or [last]
        self._tried = [
            kind.again(seen, tried[i], start, rng)
            if i < len(tried)
            else kind.beside(seen, last, rng)
            for i, kind in enumerate(self._kinds)
        ]
        self._n_tried = len(seen.values)
        return self._tried[self._used]


def _loss(process, points, values, typical):
    """Return a process's mean squared error at new values (k,), weighted as those of batches."""
    forecast = process.forecast(points)
    weight = np.exp(0.5 * np.minimum(np.fmax(forecast, values) - typical, 0.0))
    error = np.clip(values - forecast, -MOST, MOST)
    return float(weight @ error**2 / max(weight.sum(), np.finfo(float).tiny))
