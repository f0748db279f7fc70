"""Metastable sets as states of a small Markov chain.

The results are populations, rates, passage times and committors, with errors.

The chain is that of PCCA+ (Deuflhard and Weber 2005, "Robust Perron cluster analysis in
conformation dynamics"): for memberships χ = ψ B in the span of the constant and the slowest modes
ψ, its transition matrix B⁻¹ K B has the slow eigenvalues of the operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import linalg

from kmc.checks import is_whole
from kmc.forms import Lagged


@dataclass(frozen=True, eq=False)
class Segments:
    """Moments of the modes in parts of the data in time, for jackknife errors.

    Parameters
    ----------
    parts : sequence of Lagged
        Of k modes, each of mean zero over all samples.
    reversible : bool
    """

    parts: Sequence[Lagged]
    reversible: bool

    def koopman(self, count: int) -> np.ndarray:
        """K of the constant and ``count`` modes, (count + 1, count + 1), by all parts."""
        return self._koopman(sum(self.parts[1:], self.parts[0]), count)

    def without(self, count: int) -> np.ndarray:
        """Return the K of :meth:`koopman` by all parts but one, (m, count + 1, count + 1).

        There is one for each part that can be left out.
        """
        whole = sum(self.parts[1:], self.parts[0])
        left_out = [part for part in self.parts if 0 < part.weight < whole.weight]
        found = [self._koopman(whole - part, count) for part in left_out]
        return np.array(found) if found else np.empty((0, count + 1, count + 1))

    def _koopman(self, lagged: Lagged, count: int) -> np.ndarray:
        first, second = (
            np.append(1.0, s[:count] / lagged.weight) for s in (lagged.first_sum, lagged.second_sum)
        )
        mass, cross = np.outer(first, first), np.outer(first, second)
        mass[1:, 1:] += lagged.first_scatter[:count, :count] / lagged.weight
        cross[1:, 1:] += lagged.cross_scatter[:count, :count] / lagged.weight
        if self.reversible:
            other = np.outer(second, second)
            other[1:, 1:] += lagged.second_scatter[:count, :count] / lagged.weight
            mass, cross = 0.5 * (mass + other), 0.5 * (cross + cross.T)
        # without the only part in which a mode varies, the mass is singular
        return linalg.pinvh(mass) @ cross


def jackknife(function: Callable[[Any], np.ndarray], values: Iterable[Any]) -> np.ndarray:
    """Return the standard errors of a function of the values for all parts but one.

    They are NaN for fewer than two values.
    """
    found = np.array([function(value) for value in values])
    n = len(found)
    if n < 2:
        return np.full(found.shape[1:] if n else (), np.nan)
    return np.sqrt((n - 1) / n * np.sum((found - found.mean(axis=0)) ** 2, axis=0))


@dataclass(frozen=True, eq=False)
class CoarseModel:
    """Metastable sets as states of a Markov chain; times are in samples.

    Attributes
    ----------
    lagtime : int
    populations : ndarray, shape (s,)
    transition_matrix : ndarray, shape (s, s)
        Within one lagtime, from rows to columns. Sets overlap, so that entries can be slightly
        negative.
    rates : ndarray, shape (s, s)
        Its logarithm over the lagtime: rates per sample from rows to columns. NaN if it has none.
    passage_times : ndarray, shape (s, s)
        Mean first-passage times from rows to columns.
    population_errors, transition_errors, rate_errors, passage_errors : ndarray
        Standard errors by jackknife over sixteen parts of the data in time; the sets stay as they
        are.
    replicates : ndarray, shape (m, s, s)
        The transition matrices by all parts but one.
    """

    lagtime: int
    populations: np.ndarray
    transition_matrix: np.ndarray
    rates: np.ndarray
    passage_times: np.ndarray
    population_errors: np.ndarray
    transition_errors: np.ndarray
    rate_errors: np.ndarray
    passage_errors: np.ndarray
    replicates: np.ndarray = field(repr=False)

    def committor(self, source: int, target: int) -> np.ndarray:
        """Probability, for each set, that ``target`` is reached before ``source``, shape (s,)."""
        self._check(source, target)
        return _committor(self.transition_matrix, source, target)

    def committor_errors(self, source: int, target: int) -> np.ndarray:
        """Return the standard errors of :meth:`committor`, shape (s,).

        They come from the same jackknife as those of the attributes.
        """
        self._check(source, target)
        return jackknife(lambda chain: _committor(chain, source, target), self.replicates)

    def _check(self, source: int, target: int) -> None:
        size = len(self.populations)
        for name, number in (("source", source), ("target", target)):
            if not is_whole(number) or not 0 <= number < size:
                raise ValueError(
                    f"{name}={number!r}: expected a set, a whole number from 0 to {size - 1}"
                )
        if source == target:
            raise ValueError(f"source={source!r}: expected a set other than the target")


def coarse_model(segments: Segments, membership: np.ndarray, lagtime: int) -> CoarseModel:
    """Build the Markov chain of the sets with memberships ψ B, where B is ``membership`` (s, s)."""
    size = len(membership)
    whole, without = segments.koopman(size - 1), segments.without(size - 1)

    def chain(koopman):
        return np.linalg.solve(membership, koopman @ membership)

    functions = (
        lambda k: _stationary(chain(k)),
        chain,
        lambda k: _rates(chain(k), lagtime),
        lambda k: _passage_times(chain(k), lagtime),
    )
    replicates = np.array([chain(koopman) for koopman in without]).reshape(-1, size, size)
    arrays = [
        *(f(whole) for f in functions),
        *(jackknife(f, without) for f in functions),
        replicates,
    ]
    return CoarseModel(lagtime, *arrays)


def _committor(chain: np.ndarray, source: int, target: int) -> np.ndarray:
    """q with q = P q but for the source, where it is zero, and the target, where it is one."""
    out = np.zeros(len(chain))
    out[target] = 1.0
    free = [k for k in range(len(chain)) if k not in (source, target)]
    system = np.eye(len(free)) - chain[np.ix_(free, free)]
    out[free] = np.linalg.solve(system, chain[free, target]) if free else []
    return out


def _stationary(chain: np.ndarray) -> np.ndarray:
    """π with πP = π and sum one."""
    size = len(chain)
    system = np.vstack([chain.T - np.eye(size), np.ones(size)])
    return np.linalg.lstsq(system, np.append(np.zeros(size), 1.0), rcond=None)[0]


def _rates(chain: np.ndarray, lagtime: int) -> np.ndarray:
    """log P / τ if all eigenvalues are real and positive."""
    values, vectors = np.linalg.eig(chain)
    if np.any(np.abs(values.imag) > 1e-12) or np.any(values.real <= 0):
        return np.full_like(chain, np.nan)
    return (vectors @ np.diag(np.log(values.real)) @ np.linalg.inv(vectors)).real / lagtime


def _passage_times(chain: np.ndarray, lagtime: int) -> np.ndarray:
    """Mean first-passage times τ (I - P without the target)⁻¹ 1, zero on the diagonal."""
    size = len(chain)
    out = np.zeros((size, size))
    for target in range(size):
        rest = np.delete(np.arange(size), target)
        out[rest, target] = lagtime * np.linalg.solve(
            np.eye(size - 1) - chain[np.ix_(rest, rest)], np.ones(size - 1)
        )
    return out
