"""Choice of bandwidth and regularization by the modes' performance on held-out samples.

The sum of 1/λ over held-out Rayleigh quotients is maximized: by the variational principle no
functions exceed the true modes, so that spurious ones are not rewarded. With a score, candidates
that this sum hardly distinguishes are compared by held-out residuals of L f = λ f. Four fold sums
of the same forms suffice for all regularizations.

Samples at landmarks are never held out: a section of the kernel has no gradient at its own center,
and modes that live on landmarks alone would pass for slow ones, or with a score for exact ones.

Modes are fitted to all samples, to all but each fold, and in half of the functions, to find out
which of them the samples support. In the samples that they were fitted to, Ritz values are too
small by as much as Rayleigh quotients on held-out samples are too large (both to second order in
the error of the mode): without a score, the geometric mean of the two is the estimate. With a
score, the eigenvalues are those of the generator applied pointwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg
from scipy.spatial import cKDTree

from kmc.bases.base import centers_of
from kmc.bases.general import few
from kmc.forms import Forms, accumulate_folds
from kmc.selection import numbers_or
from kmc.source import Sample, Source, folds
from kmc.spectral.trial import (
    FoldSums,
    GeneratorModes,
    Pencil,
    TrialSpace,
    energies,
    fits,
    refined,
    residuals,
    ritz,
    subspace,
)

REGULARIZATIONS = (1e-10, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
"""Candidates of ``regularization="cv"``, in mean eigenvalues of the Dirichlet form."""

N_FOLDS = 4

MOST_FOR_PARTICIPATION = 5_000
"""Samples at which modes are evaluated, to count the points on which they live."""

MANY = 256
"""Functions from which on the forms of folds are not combined.

Modes without a fold start from those of all samples.
"""

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
    mean = reduce(add, [part.get("mean") for part in parts])[: space.basis.size] / sum(
        part.weight for part in parts
    )
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
    at_landmark = np.isfinite(
        cKDTree(centers).query(points, distance_upper_bound=COINCIDENT * unit)[0]
    )
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
        self._weights = (
            np.ones(len(self._points)) if sample.weights is None else sample.weights[every]
        )
        self._rows: list[Row] = []
        self._found: dict[bool, Candidate] = {}
        self._least: Candidate | None = None
        # eigenvalues of the best candidate of each bandwidth
        self._of: dict[float, np.ndarray] = {}
        self._chosen: Candidate | None = None  # before all samples were used

    @property
    def best(self) -> Candidate:
        """The best candidate.

        Modes by the generator are preferred unless their sum of 1/λ is much smaller.

        A Rayleigh quotient is an upper bound, up to noise. If that of another, plausible candidate
        is smaller than that of the best, by more than twice their standard errors, it is returned
        instead, with no accepted mode.
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
        """Return how much log λ (k,) of the best candidate changes with the bandwidth.

        The smaller of the changes to the next wider and the next narrower bandwidth: in the range
        of good bandwidths one of the two is small. Zero if no others were compared.
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
            change[:k] = np.minimum(
                change[:k], np.abs(np.log(np.maximum(other[:k], 1e-300) / own[:k]))
            )
        return change

    def table(self) -> dict[str, np.ndarray]:
        """``cv_results_``."""
        return {name: np.array([getattr(row, name) for row in self._rows]) for name in Row._fields}

    def _candidates_in(
        self, space: TrialSpace, bandwidth: float, source: Source
    ) -> list[Candidate]:
        """Return the candidate with the best regularization.

        With a score, also return the candidate whose modes are those of the generator in the same
        subspace.
        """
        sums = fold_sums(space, source, self._unit)
        evidence = Evidence(
            sums, [] if sums.many else sums.pencils(sums.parts), self._points, self._weights
        )

        def candidate(epsilon: float, pointwise: bool) -> Candidate:
            judged = judge(evidence, epsilon, self._count, pointwise)
            rank = len(sums.whole.mass)
            row = Row(
                bandwidth,
                epsilon,
                rank,
                pointwise,
                judged.accepted,
                judged.criterion,
                judged.residual,
            )
            self._rows.append(row)
            found = Candidate(row, judged, space, sums.mean)
            if judged.plausible and (
                self._least is None or _first(found, 1.0) < _first(self._least, 1.0)
            ):
                self._least = found
            return found

        best = max(
            (candidate(epsilon, False) for epsilon in self._epsilons),
            key=lambda one: one.judged.criterion,
        )
        return [best] if space.score is None else [best, candidate(best.row.regularization, True)]


def _is_better(one: Candidate, other: Candidate) -> bool:
    """Return whether ``one`` is better than ``other``, of two bandwidths.

    Modes by the samples are compared as without a score, so that it cannot make them worse.
    """
    if one.row.pointwise:
        return one.judged.better_than(other.judged)
    return one.judged.criterion > other.judged.criterion


def _first(candidate: Candidate, errors: float) -> float:
    """Return the first eigenvalue plus this number of standard errors."""
    return float(candidate.judged.eigenvalues[0] + errors * candidate.judged.std_errors[0])


SPACE = 8
LEAST_SPACE = 128
"""Functions of the subspace for the generator: so many for each mode, and at least this number."""

LEAST_MASS = 0.02
"""Held-out share of a mode's variance below which the mode is an artifact of the fitted samples."""

LEAST_POINTS = 20
LEAST_SHARE = 1 / 6
"""Points on which an accepted mode lives, (Σ w f²)² / Σ w² f⁴: at least so many, or this share of a
small sample; with the generator, whose eigenvalues are not averages over the sample, a quarter of
that."""

LARGEST_ERROR = 0.2
ERROR_OF_ONE = 2.0
"""Relative standard error of an accepted eigenvalue, at most: the first plus the second over √n."""

MOST_ERROR = 0.75
"""The same of a plausible one."""

AGREEMENT = 1.5
"""Largest factor between the estimate of an accepted eigenvalue and any other one: the Rayleigh
quotient on held-out samples, the value in half of the functions, and with a score a lower bound by
the residual.
"""

MOST_BOUND = 1 - 1 / AGREEMENT

FURTHER = 8
"""Ritz values beyond the requested modes, for an eigenvalue's distance from the other ones."""

TIE = 0.05
"""Relative difference of two sums of 1/λ below which the residuals decide."""


class Judged(NamedTuple):
    """Modes fitted to all samples, and what held-out samples say of them."""

    modes: GeneratorModes
    eigenvalues: np.ndarray  # (k,), the estimates
    std_errors: np.ndarray  # (k,)
    accepted: int
    plausible: int  # at least as many: also those that are known less well, or live on few points
    bounds: np.ndarray  # (k,) on the relative errors by residuals; NaN without a score
    criterion: float  # sum over the accepted modes of 1 / Rayleigh quotient, held-out
    # sum over the requested modes of the bounds, at most one each; NaN without a score
    residual: float

    def first(self, k: int) -> Judged:
        """Return the k slowest modes as the accepted ones."""
        return self._replace(
            modes=self.modes.first(k),
            eigenvalues=self.eigenvalues[:k],
            std_errors=self.std_errors[:k],
            bounds=self.bounds[:k],
            accepted=k,
        )

    def confirmed(self) -> bool:
        """Whether residuals confirm the accepted eigenvalues; not known without a score."""
        return not np.any(self.bounds[: self.accepted] > MOST_BOUND)

    def better_than(self, other: Judged, tie: float = TIE) -> bool:
        """Compare by the sum of 1/λ, or by the residuals where the sums are nearly equal."""
        close = abs(self.criterion - other.criterion) <= tie * max(self.criterion, other.criterion)
        if close and self.residual != other.residual and not np.isnan(self.residual):
            return self.residual < other.residual
        return self.criterion > other.criterion


class Evidence(NamedTuple):
    """What is known of the functions of a trial space from the samples."""

    sums: FoldSums
    # of all samples but a fold, and of that fold; not used with many functions
    folds: list[tuple[Pencil, Pencil]]
    points: np.ndarray  # (m, d), samples
    weights: np.ndarray  # (m,)

    def participation(self, modes: GeneratorModes) -> np.ndarray:
        """On how many of the samples each mode lives."""
        space = self.sums.space
        coefficients = space.matrix @ modes.vectors
        squares = np.empty((len(self.points), coefficients.shape[1]))
        for rows in few(len(squares)):
            squares[rows] = space.basis.values(self.points[rows]) @ coefficients
        squares = self.weights[:, None] * (squares - self.sums.mean @ coefficients) ** 2
        return np.sum(squares, axis=0) ** 2 / np.maximum(np.sum(squares**2, axis=0), 1e-300)


def judge(evidence: Evidence, regularization: float, count: int, pointwise: bool) -> Judged:
    """Fit ``count`` modes and judge them.

    Parameters
    ----------
    evidence : Evidence
    regularization : float
    count : int
    pointwise : bool
        Whether the generator is applied at each sample; this needs a score.
    """
    whole = evidence.sums.whole
    fit = partial(_fit, regularization=regularization, count=count, pointwise=pointwise)
    if evidence.sums.many:
        modes, left_out, parts = fits(evidence.sums, regularization, count)
    else:
        modes, left_out = fit(whole), [fit(rest) for rest, _ in evidence.folds]
        parts = [part for _, part in evidence.folds]
    k = min(len(found.eigenvalues) for found in [modes, *left_out]) if len(parts) > 1 else 0
    if k == 0 or not all(np.all(found.eigenvalues[:k] > 0) for found in [modes, *left_out]):
        none = np.empty(0)
        return Judged(
            modes.first(0),
            none,
            none,
            0,
            0,
            none,
            0.0,
            np.nan if whole.square is None else float(count),
        )
    modes, left_out = modes.first(k), [found.first(k) for found in left_out]
    mass, energy, misfit = (
        np.array(rows)
        for rows in zip(
            *((*energies(f, part), residuals(f, part)) for f, part in zip(left_out, parts))
        )
    )
    alive = np.all((mass > LEAST_MASS) & (energy > 0), axis=0)
    quotients = energy.sum(axis=0) / np.where(alive, mass.sum(axis=0), 1.0)
    optimism = np.log(np.where(alive, quotients, 1.0) / modes.eigenvalues)
    eigenvalues = modes.eigenvalues * (1.0 if pointwise else np.exp(0.5 * optimism))
    half = fit(whole.leading(max(len(whole.mass) // 2, k))).eigenvalues[:k]
    good = alive & (np.abs(optimism) < np.log(AGREEMENT) * (1 if pointwise else 2))
    good[: len(half)] &= np.abs(
        np.log(np.maximum(half, 1e-300) / modes.eigenvalues[: len(half)])
    ) < np.log(AGREEMENT)
    good[len(half) :] = False
    bounds = _error_bounds(whole, regularization, modes.eigenvalues, misfit.mean(axis=0))
    if pointwise:
        good &= bounds < MOST_BOUND
    n = len(left_out)
    without = np.log([found.eigenvalues for found in left_out])
    jackknife = np.sqrt((n - 1) / n * np.sum((without - without.mean(axis=0)) ** 2, axis=0))
    errors = np.hypot(jackknife, 0.5 * optimism)
    size = len(evidence.points)
    plausible = _leading(good & (errors < MOST_ERROR))
    good &= errors < LARGEST_ERROR + ERROR_OF_ONE / np.sqrt(size)
    accepted = _leading(good)
    if accepted:
        least = min(LEAST_POINTS, LEAST_SHARE * size) / (4 if pointwise else 1)
        accepted = _leading(evidence.participation(modes.first(accepted)) > least)
    residual = float(np.sum(np.minimum(bounds[:accepted], 1.0))) + count - accepted
    typical = np.exp(np.mean(np.log(energy[:, :accepted] / mass[:, :accepted]), axis=0))
    criterion = float(np.sum(1 / np.maximum(quotients[:accepted], typical)))
    return Judged(
        modes, eigenvalues, eigenvalues * errors, accepted, plausible, bounds, criterion, residual
    )


def _leading(good: np.ndarray) -> int:
    """How many are true before the first that is not."""
    return len(good) if good.all() else int(np.argmin(good))


def _fit(pencil: Pencil, regularization: float, count: int, pointwise: bool) -> GeneratorModes:
    """Fit the ``count`` slowest modes; fewer if there are fewer functions."""
    if not pointwise:
        return ritz(pencil, subspace(pencil, regularization, count))
    try:
        return refined(
            pencil, subspace(pencil, regularization, max(SPACE * count, LEAST_SPACE)), count
        )
    except linalg.LinAlgError:
        return GeneratorModes(np.empty(0), np.empty((len(pencil.mass), 0)))


def _error_bounds(
    pencil: Pencil, regularization: float, eigenvalues: np.ndarray, misfit: np.ndarray
) -> np.ndarray:
    """Bound the relative errors of eigenvalues by the residuals |L f - λ f|² / λ², after Temple.

    The bounds are NaN without residuals. The true eigenvalue is at least
    λ - |L f - λ f|² / (ν - λ), where ν is the next one. An eigenvalue within the factor
    ``AGREEMENT`` of λ does not count as another one, since mixing the two does no harm.
    """
    if pencil.square is None:
        return np.full(len(eigenvalues), np.nan)
    space = subspace(pencil, regularization, len(eigenvalues) + FURTHER)
    spectrum = ritz(pencil, space).eigenvalues
    least = AGREEMENT * eigenvalues
    following = np.searchsorted(spectrum, least)
    beyond = np.where(following < len(spectrum), np.append(spectrum, np.inf)[following], least)
    return misfit * eigenvalues / (beyond - eigenvalues)
