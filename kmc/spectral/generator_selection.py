"""Choice of bandwidth and regularization by the modes' performance on held-out samples.

The sum of 1/λ over held-out Rayleigh quotients is maximized: by the variational principle no functions exceed the true
modes, so that spurious ones are not rewarded. With a score, candidates that this sum hardly distinguishes are compared
by held-out residuals of L f = λ f. Four fold sums of the same forms suffice for all regularizations.

Samples at landmarks are never held out: a section of the kernel has no gradient at its own center, and modes that live
on landmarks alone would pass for slow ones, or with a score for exact ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from kmc.bases.base import centers_of
from kmc.forms import Forms, accumulate_folds
from kmc.selection import numbers_or
from kmc.source import Sample, Source, folds
from kmc.spectral.judgment import AGREEMENT, Evidence, Judged, judge
from kmc.spectral.trial import FoldSums, Pencil, TrialSpace

REGULARIZATIONS = (1e-10, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
"""Candidates of ``regularization="cv"``, in mean eigenvalues of the Dirichlet form."""

N_FOLDS = 4

MOST_FOR_PARTICIPATION = 5_000
"""Samples at which modes are evaluated, to count the points on which they live."""

MANY = 256
"""Functions from which on the forms of folds are not combined: modes without a fold start from those of all samples."""

APART = 1.5
"""Factor between two bandwidths whose eigenvalues are compared."""

COINCIDENT = 1e-9
"""Distance from a landmark, in median distances, below which a sample is that landmark."""


class Row(NamedTuple):
    """A candidate: the columns of ``cv_results_``."""

    bandwidth: float
    regularization: float
    rank: int  # functions that the kernel matrix distinguishes
    pointwise: bool  # whether the generator was applied at each sample
    n_modes: int  # how many of the requested modes are accepted
    criterion: float  # larger is better
    residual: float  # decides where the criteria are nearly equal: smaller is better


class Candidate(NamedTuple):
    """Modes in a trial space."""

    row: Row
    judged: Judged
    space: TrialSpace
    mean: np.ndarray  # (p,) of the basis


def regularizations(regularization: Any) -> list[float]:
    """Return the values ε of the parameter ``regularization``."""
    return numbers_or("regularization", regularization, np.array(REGULARIZATIONS)).tolist()


def fold_sums(space: TrialSpace, source: Source, unit: float) -> FoldSums:
    """Sum the forms over all samples, in one pass and by folds, with lengths in units of ``unit``.

    Raises
    ------
    ValueError
        All weights are zero.
    """
    x, labels = _folds(space, source, unit)
    basis: Any = space  # the two forms need no gradients of it
    parts = accumulate_folds(basis, x, ("mass", "dirichlet"), labels, weights=source.weights)
    if not any(part.weight > 0 for part in parts):
        raise ValueError("weights: expected some that are not zero")
    mean = reduce(add, [part.get("mean") for part in parts])[: space.basis.size] / sum(part.weight for part in parts)
    many = space.score is None and space.matrix.shape[1] >= MANY
    if not many:
        parts = [space.combined(part) for part in parts]
    whole: Forms = reduce(add, parts)
    judging = [k for k, part in enumerate(parts[:N_FOLDS]) if 0 < part.weight < whole.weight]
    pencil = Pencil.of(space.combined(whole) if many else whole).scaled(unit)
    return FoldSums(pencil, parts, judging, space, many, mean, unit)


def _folds(space: TrialSpace, source: Source, unit: float) -> tuple[Any, Any]:
    """Return the samples, and the fold of each.

    Samples at landmarks are in a fold of their own, unless they are the majority.
    """
    centers = centers_of(space.basis)
    if centers is None or not isinstance(source.x, np.ndarray):
        return folds(source, N_FOLDS)
    points = source.x
    at_landmark = np.isfinite(cKDTree(centers).query(points, distance_upper_bound=COINCIDENT * unit)[0])
    others = np.flatnonzero(~at_landmark)
    if 2 * len(others) < len(points):
        return folds(source, N_FOLDS)
    labels = np.full(len(points), N_FOLDS)
    labels[others] = folds(Source(points[others], None, len(others), False), N_FOLDS)[1]
    return source.x, labels


class GeneratorSearch:
    """The candidates' table, and the best so far.

    Parameters
    ----------
    count : int
        Number of requested modes.
    epsilons : sequence of float
        Regularizations.
    sample : Sample
        Samples by which candidates are compared.
    unit : float
        A unit of length, so that results do not depend on the units of x.
    """

    def __init__(self, count: int, epsilons: Sequence[float], sample: Sample, unit: float):
        self._count, self._epsilons, self._unit = count, epsilons, unit
        self._sample = sample
        every = slice(None, None, -(-len(sample.x) // MOST_FOR_PARTICIPATION))
        self._points = sample.x[every]
        self._weights = np.ones(len(self._points)) if sample.weights is None else sample.weights[every]
        self._rows: list[Row] = []
        self._found: dict[bool, Candidate] = {}
        self._least: Candidate | None = None
        self._of: dict[float, np.ndarray] = {}  # eigenvalues of the best candidate of each bandwidth
        self._chosen: Candidate | None = None  # before all samples were used

    @property
    def best(self) -> Candidate:
        """The best candidate; modes by the generator are preferred unless their sum of 1/λ is much smaller.

        A Rayleigh quotient is an upper bound, up to noise. If that of another, plausible candidate is smaller than that
        of the best, by more than twice their standard errors, it is returned instead, with no accepted mode.
        """
        best, pointwise = self._found[False], self._found.get(True)
        if pointwise is not None and pointwise.judged.better_than(best.judged, 1 - 1 / AGREEMENT):
            return pointwise
        least = self._least
        if least is None or (best.judged.accepted and _first(best, -2.0) < _first(least, 2.0)):
            return best
        return least._replace(judged=least.judged._replace(accepted=0))

    def add(self, space: TrialSpace, bandwidth: float) -> None:
        """Add the trial space of a bandwidth."""
        for candidate in self._candidates_in(space, bandwidth, self._sample.source()):
            if not candidate.row.pointwise:
                self._of[bandwidth] = candidate.judged.eigenvalues
            best = self._found.get(candidate.row.pointwise)
            if best is None or _is_better(candidate, best):
                self._found[candidate.row.pointwise] = candidate

    def use_all(self, source: Source) -> None:
        """Sum over all samples in the best space, and choose the regularization again."""
        best = self._chosen = self.best
        self._rows = [row for row in self._rows if row.bandwidth != best.row.bandwidth]
        self._least = None
        self._found = {
            candidate.row.pointwise: candidate
            for candidate in self._candidates_in(best.space, best.row.bandwidth, source)
        }

    def sensitivity(self) -> np.ndarray:
        """How much the logarithms of the best candidate's eigenvalues change with the bandwidth, (k,).

        The smaller of the changes to the next wider and the next narrower bandwidth: in the range of good bandwidths
        one of the two is small. Zero if no others were compared.
        """
        chosen = self.best if self._chosen is None else self._chosen
        own, bandwidth = chosen.judged.eigenvalues, chosen.row.bandwidth
        wider = [other for other in self._of if other >= APART * bandwidth]
        narrower = [other for other in self._of if other * APART <= bandwidth]
        neighbors = [self._of[b] for b in [*sorted(wider)[:1], *sorted(narrower)[-1:]]]
        if not neighbors or not np.all(own > 0):
            return np.zeros(len(own))
        change = np.full(len(own), np.log(AGREEMENT))
        for other in neighbors:
            k = min(len(own), len(other))
            change[:k] = np.minimum(change[:k], np.abs(np.log(np.maximum(other[:k], 1e-300) / own[:k])))
        return change

    def table(self) -> dict[str, np.ndarray]:
        """``cv_results_``."""
        return {name: np.array([getattr(row, name) for row in self._rows]) for name in Row._fields}

    def _candidates_in(self, space: TrialSpace, bandwidth: float, source: Source) -> list[Candidate]:
        """Return the candidate with the best regularization.

        With a score, also return the candidate whose modes are those of the generator in the same subspace.
        """
        sums = fold_sums(space, source, self._unit)
        evidence = Evidence(sums, [] if sums.many else sums.pencils(sums.parts), self._points, self._weights)

        def candidate(epsilon: float, pointwise: bool) -> Candidate:
            judged = judge(evidence, epsilon, self._count, pointwise)
            rank = len(sums.whole.mass)
            row = Row(bandwidth, epsilon, rank, pointwise, judged.accepted, judged.criterion, judged.residual)
            self._rows.append(row)
            found = Candidate(row, judged, space, sums.mean)
            if judged.plausible and (self._least is None or _first(found, 1.0) < _first(self._least, 1.0)):
                self._least = found
            return found

        best = max((candidate(epsilon, False) for epsilon in self._epsilons), key=lambda one: one.judged.criterion)
        return [best] if space.score is None else [best, candidate(best.row.regularization, True)]


def _is_better(one: Candidate, other: Candidate) -> bool:
    """Of two bandwidths; modes by the samples are compared as without a score, so that it cannot make them worse."""
    if one.row.pointwise:
        return one.judged.better_than(other.judged)
    return one.judged.criterion > other.judged.criterion


def _first(candidate: Candidate, errors: float) -> float:
    """Return the first eigenvalue plus this number of standard errors."""
    return float(candidate.judged.eigenvalues[0] + errors * candidate.judged.std_errors[0])
