"""Choice of bandwidth and regularization by the modes' performance on held-out samples.

Without a score, the sum of 1/λ over held-out Rayleigh quotients is maximized: by the variational principle no functions
exceed the true modes. With a score, the held-out residual of L f = λ f is minimized. Four fold sums of
the same forms suffice for all regularizations.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from kmc.forms import Forms, accumulate_folds
from kmc.selection import held_out, numbers_or
from kmc.source import Source, folds
from kmc.spectral.trial import GeneratorModes, Pencil, TrialSpace, quotient, refined, residuals, ritz, subspace

REGULARIZATIONS = tuple(10.0 ** np.arange(-10, -1))
"""Candidates of ``regularization="cv"``, in mean eigenvalues of the Dirichlet form."""

N_FOLDS = 4

SPACE = 8
LEAST_SPACE = 128
"""Functions of the subspace in which the generator is applied: so many for each mode, and at least this number."""


class Row(NamedTuple):
    """A candidate: the columns of ``cv_results_``."""

    bandwidth: float
    regularization: float
    rank: int  # functions that the kernel matrix distinguishes
    n_modes: int  # how many of the requested modes every fold supports
    criterion: float  # larger is better

    def order(self) -> tuple[int, float]:
        """The key by which candidates are compared."""
        return self.n_modes, self.criterion


class FoldSums(NamedTuple):
    """The forms of one trial space: over all samples, and over all but a fold with that fold's own."""

    whole: Pencil
    parts: list[tuple[Pencil, Pencil]]  # second moments of a fold are about the means of the others
    mean: np.ndarray  # (p,) of the basis


def regularizations(regularization: Any) -> list[float]:
    """The values ε of the parameter."""
    return numbers_or("regularization", regularization, np.array(REGULARIZATIONS)).tolist()


def fold_sums(space: TrialSpace, source: Source, unit: float) -> FoldSums:
    """Sum the forms over all samples, in one pass and by folds, with lengths in units of ``unit``.

    Raises
    ------
    ValueError
        All weights are zero.
    """
    x, labels = folds(source, N_FOLDS)
    basis: Any = space  # the two forms need no gradients of it
    parts = accumulate_folds(basis, x, ("mass", "dirichlet"), labels, weights=source.weights)
    parts = [part for part in parts if part.weight > 0]
    if not parts:
        raise ValueError("weights: expected some that are not zero")
    whole: Forms = reduce(add, parts)

    def pencil(forms: Forms, about: Forms | None = None) -> Pencil:
        return space.pencil(forms, about).scaled(unit)

    left_out = held_out(parts, whole) if len(parts) > 1 else []
    pairs = [(pencil(rest), pencil(part, rest)) for rest, part in left_out]
    return FoldSums(pencil(whole), pairs, whole.get("mean")[: space.basis.size] / whole.weight)


class GeneratorSearch:
    """The candidates' table, and the sums of the best so far.

    Parameters
    ----------
    count : int
        Number of requested modes.
    candidates : sequence of float
        Regularizations.
    unit : float
        A unit of length, so that results do not depend on the units of x.
    """

    def __init__(self, count: int, candidates: Sequence[float], unit: float):
        self._count, self._candidates, self._unit = count, candidates, unit
        self._rows: list[Row] = []
        self.best: Row
        self.space: TrialSpace
        self.sums: FoldSums

    def add(self, space: TrialSpace, bandwidth: float, source: Source) -> None:
        """Add the trial space of a bandwidth, with its sums over a source."""
        sums = fold_sums(space, source, self._unit)
        rows = self._compare(sums, bandwidth, self.best.n_modes if self._rows else 0)
        row = max(rows, key=Row.order)
        if not self._rows or row.order() > self.best.order():
            self.best, self.space, self.sums = row, space, sums
        self._rows += rows

    def use_all(self, source: Source) -> None:
        """Sum over all samples in the best space, and choose the regularization again."""
        self.sums = fold_sums(self.space, source, self._unit)
        again = self._compare(self.sums, self.best.bandwidth, 0)
        self.best = max(again, key=Row.order)
        self._rows = [row for row in self._rows if row.bandwidth != self.best.bandwidth] + again

    def modes(self) -> GeneratorModes:
        """The supported modes of the best candidate.

        Raises
        ------
        ValueError
            There is none.
        """
        if self.best.n_modes == 0:
            raise ValueError(
                f"no mode is supported by held-out samples (bandwidth={self.best.bandwidth:.3g}, "
                f"rank {self.best.rank}): use a wider kernel or more samples"
            )
        if self.sums.whole.cross is None:
            return ritz(self.sums.whole, subspace(self.sums.whole, self.best.regularization, self.best.n_modes))
        space = subspace(self.sums.whole, self.best.regularization, _space(self._count))
        return refined(self.sums.whole, space, self.best.n_modes)

    def table(self) -> dict[str, np.ndarray]:
        """``cv_results_``."""
        return {name: np.array([getattr(row, name) for row in self._rows]) for name in Row._fields}

    def _compare(self, sums: FoldSums, bandwidth: float, least: int) -> list[Row]:
        rank = len(sums.whole.mass)
        scored = sums.whole.cross is not None
        if scored and rank <= _space(self._count):  # the subspace is the whole space
            return [Row(bandwidth, self._candidates[0], rank, *_by_residuals(sums, self._candidates[0], self._count))]
        least = 0 if scored else least
        rows = [Row(bandwidth, eps, rank, *_by_quotients(sums, eps, self._count, least)) for eps in self._candidates]
        if not scored:
            return rows
        best = max(rows, key=Row.order)  # has the best subspace
        return [Row(bandwidth, best.regularization, rank, *_by_residuals(sums, best.regularization, self._count))]


def _by_quotients(sums, regularization, count, least):
    """Modes that all folds support, none if fewer than ``least``, and the held-out Σ 1/λ.

    Variances and energies are summed over the folds before they are divided: a mode that jumps across a gap between
    samples may have no energy in one fold, but rarely in all.
    """
    spaces = [subspace(fitted, regularization, count) for fitted, _ in sums.parts]
    for k in range(spaces[0].shape[1], max(least, 1) - 1, -1):
        mass, energy = np.zeros(k), np.zeros(k)
        for (fitted, part), space in zip(sums.parts, spaces):
            modes = ritz(fitted, space[:, :k])
            known, variances, energies = quotient(modes, part)
            if not known or len(variances) < k:
                break
            mass += variances
            energy += energies
        else:
            return k, float(np.sum(mass / energy))
    return 0, -np.inf


def _by_residuals(sums, regularization, count):
    """Modes that all folds support, and minus the sum of held-out residuals, where a missing mode counts as one."""
    errors, known = np.ones((len(sums.parts), count)), np.zeros((len(sums.parts), count), bool)
    for row, support, (fitted, part) in zip(errors, known, sums.parts):
        try:
            modes = refined(fitted, subspace(fitted, regularization, _space(count)), count)
        except linalg.LinAlgError:
            return 0, -np.inf
        found = len(modes.eigenvalues)
        support[:found], row[:found] = residuals(modes, part)
    missing = np.flatnonzero(~np.all(known, axis=0))
    return int(missing[0]) if len(missing) else count, -float(errors.mean(axis=0).sum())


def _space(count):
    return max(SPACE * count, LEAST_SPACE)
