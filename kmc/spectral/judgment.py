"""Which modes of the Langevin generator the samples support, and how well their eigenvalues are known.

Modes are fitted to all samples, to all but each fold, and in half of the functions. In the samples that they were
fitted to, Ritz values are too small by as much as Rayleigh quotients on held-out samples are too large (both to second
order in the error of the mode): without a score, the geometric mean of the two is the estimate. With a score, the
eigenvalues are those of the generator applied pointwise.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from scipy import linalg

from kmc.bases.general import few
from kmc.spectral.trial import (
    FoldSums,
    GeneratorModes,
    Pencil,
    energies,
    fits,
    refined,
    residuals,
    ritz,
    subspace,
)

SPACE = 8
LEAST_SPACE = 128
"""Functions of the subspace in which the generator is applied: so many for each mode, and at least this number."""

LEAST_MASS = 0.02
"""Held-out fraction of a mode's variance below which the mode is an artifact of the samples that it was fitted to."""

LEAST_POINTS = 20
LEAST_SHARE = 1 / 6
"""Points on which an accepted mode lives, (Σ w f²)² / Σ w² f⁴: at least so many, or this share of a small sample; with
the generator, whose eigenvalues are not averages over the sample, a quarter of that."""

LARGEST_ERROR = 0.2
ERROR_OF_ONE = 2.0
"""Relative standard error of an accepted eigenvalue, at most: the first plus the second over √n."""

MOST_ERROR = 0.75
"""The same of a plausible one."""

AGREEMENT = 1.5
"""Largest factor between the estimate of an accepted eigenvalue and any other one: the Rayleigh quotient on held-out
samples, the value in half of the functions, and with a score a lower bound by the residual.
"""

MOST_BOUND = 1 - 1 / AGREEMENT

FURTHER = 8
"""Ritz values beyond those of the requested modes, for the distance of an eigenvalue from the rest of the spectrum."""

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
    residual: float  # sum over the requested modes of the bounds, at most one each; NaN without a score

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
    folds: list[tuple[Pencil, Pencil]]  # of all samples but a fold, and of that fold; not used with many functions
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
        return Judged(modes.first(0), none, none, 0, 0, none, 0.0, np.nan if whole.square is None else float(count))
    modes, left_out = modes.first(k), [found.first(k) for found in left_out]
    mass, energy, misfit = (
        np.array(rows) for rows in zip(*((*energies(f, part), residuals(f, part)) for f, part in zip(left_out, parts)))
    )
    alive = np.all((mass > LEAST_MASS) & (energy > 0), axis=0)
    quotients = energy.sum(axis=0) / np.where(alive, mass.sum(axis=0), 1.0)
    optimism = np.log(np.where(alive, quotients, 1.0) / modes.eigenvalues)
    eigenvalues = modes.eigenvalues * (1.0 if pointwise else np.exp(0.5 * optimism))
    half = fit(whole.leading(max(len(whole.mass) // 2, k))).eigenvalues[:k]
    good = alive & (np.abs(optimism) < np.log(AGREEMENT) * (1 if pointwise else 2))
    good[: len(half)] &= np.abs(np.log(np.maximum(half, 1e-300) / modes.eigenvalues[: len(half)])) < np.log(AGREEMENT)
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
    return Judged(modes, eigenvalues, eigenvalues * errors, accepted, plausible, bounds, criterion, residual)


def _leading(good: np.ndarray) -> int:
    """How many are true before the first that is not."""
    return len(good) if good.all() else int(np.argmin(good))


def _fit(pencil: Pencil, regularization: float, count: int, pointwise: bool) -> GeneratorModes:
    """Fit the ``count`` slowest modes; fewer if there are fewer functions."""
    if not pointwise:
        return ritz(pencil, subspace(pencil, regularization, count))
    try:
        return refined(pencil, subspace(pencil, regularization, max(SPACE * count, LEAST_SPACE)), count)
    except linalg.LinAlgError:
        return GeneratorModes(np.empty(0), np.empty((len(pencil.mass), 0)))


def _error_bounds(pencil: Pencil, regularization: float, eigenvalues: np.ndarray, misfit: np.ndarray) -> np.ndarray:
    """Bounds on the relative errors of eigenvalues by the residuals |L f - λ f|² / λ², after Temple; NaN without.

    The true eigenvalue is at least λ - |L f - λ f|² / (ν - λ), where ν is the next one. An eigenvalue within the factor
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
