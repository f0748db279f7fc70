"""Kernel, bandwidth and base density at their default "auto": chosen together, before the fit.

The candidates are compared by the held-out score-matching objective of fits in a few kernel
sections, with some of the samples. This takes about as long as one fit. Samples at landmarks are
not among those that judge, as sections have their largest curvature at their own center. Open base
densities have shrunk covariances (:func:`shrunk`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from kmc.bases import KernelSections
from kmc.checks import is_number
from kmc.kernels import Kernel, squared_distances
from kmc.linalg import eigen_whitening
from kmc.scores.base_fits import fit_base
from kmc.scores.densities import Gaussian, StudentT
from kmc.scores.sums import Samples
from kmc.selection import kernel_candidates, listed

AUTO = "auto"
KERNELS = ("gaussian", "inverse-multiquadric")
BASES = ("gaussian", "student-t", "uniform")
# bandwidths in median distances; with 1/4 and 4, wrong ones are chosen at times
FACTORS = (0.5, 1.0, 2.0)

FIXED = {"kernel": "gaussian", "bandwidth": "median", "base": "gaussian"}
"""What "auto" means where nothing is chosen: for a few samples, samples with values, a given
regularization, and states of a sampler."""

REGULARIZATIONS = 10.0 ** np.arange(-8.0, 2.0)  # in 1 / (median distance)²
LANDMARKS = 40
FEWEST, MOST, SHARE = 300, 2000, 1 / 3  # samples that judge: a share of all, within these bounds
LEAST = 60  # samples below which nothing is chosen
N_FOLDS = 4
# standard errors of the difference by which a candidate has to be better than the fixed one
CAUTION = 0.5


class Setting(NamedTuple):
    """A candidate."""

    kernel: Any  # as given
    bandwidth: float
    base: Any  # as given
    built: Kernel
    density: Any  # the fitted base

    def is_fixed(self, open_names: set[str], median: float) -> bool:
        """Return whether this is what "auto" means where nothing is chosen."""
        unit = median if isinstance(self.kernel, str) else 1.0
        same = {"kernel": self.kernel, "bandwidth": self.bandwidth, "base": self.base}
        fixed = FIXED | {"bandwidth": unit}
        return all(same[name] == fixed[name] for name in open_names)


class Given(NamedTuple):
    """Parameters of an estimator."""

    kernel: Any
    bandwidth: Any
    base: Any


def open_names(model: Any) -> set[str]:
    """Return which of kernel, bandwidth and base are "auto"."""
    given = model.get_params(deep=False)
    return {name for name in FIXED if isinstance(given.get(name), str) and given[name] == AUTO}


def settings(
    model: Any,
    samples: Samples,
    median: float,
    factors: tuple[float, ...],
    rng: np.random.Generator,
) -> Iterator[Setting]:
    """Yield the settings to compare in full.

    For each combination of the given parameters it is the best of those that are "auto".

    Parameters
    ----------
    model : object
        With parameters kernel, bandwidth, base and regularization.
    samples : Samples
    median : float
        Median distance between samples.
    factors : tuple of float
        Candidates of bandwidth="cv", in median distances.
    rng : Generator
        Only used if there is something to choose.
    """
    names = open_names(model)
    given = Given(*(getattr(model, name) for name in Given._fields))
    few = np.count_nonzero(samples.weights > 0) < LEAST
    if names and (few or samples.values is not None or is_number(model.regularization)):
        given, names = given._replace(**{name: FIXED[name] for name in names}), set()
    groups: dict[Any, list[Setting]] = {}
    for number, setting in enumerate(_all(given, names, samples, median, factors)):
        key = (
            tuple(repr(getattr(setting, name)) for name in FIXED if name not in names)
            if names
            else number
        )
        groups.setdefault(key, []).append(setting)
    for group in groups.values():
        yield group[0] if len(group) == 1 else _best(group, names, samples, median, rng)


def _all(given, names, samples, median, factors):
    """Return all candidates; of open base densities, those that exist for the samples."""
    bases = []
    for base in BASES if "base" in names else listed("base", given.base):
        try:
            density = fit_base(base, samples.x, samples.weights)
            bases.append(
                (base, shrunk(density, samples.x, samples.weights) if "base" in names else density)
            )
        except ValueError:
            if "base" not in names or base == FIXED["base"]:
                raise
    for kernel in KERNELS if "kernel" in names else listed("kernel", given.kernel):
        bandwidth = given.bandwidth
        if "bandwidth" in names:
            bandwidth = (
                [factor * median for factor in FACTORS]
                if isinstance(kernel, str)
                else FIXED["bandwidth"]
            )
        for _, length, built in kernel_candidates(Given(kernel, bandwidth, None), median, factors):
            for base, density in bases:
                yield Setting(kernel, length, base, built, density)


def _best(group, names, samples, median, rng):
    """Return the setting with the best held-out objective, with some caution.

    It has to be better than the fixed one by ``CAUTION`` standard errors of their difference.
    """
    fixed = next(
        (number for number, setting in enumerate(group) if setting.is_fixed(names, median)), 0
    )
    if any(setting.built.differentiability < 2 for setting in group):  # the estimator says so
        return group[fixed]
    rows = rng.permutation(np.flatnonzero(samples.weights > 0))
    few = min(LANDMARKS, len(rows) // 3)
    judging = samples.take(rows[few : few + int(np.clip(SHARE * len(rows), FEWEST, MOST))])
    densities = {id(setting.density): setting.density for setting in group}
    bases = _Bases(list(densities.values()), judging)
    points = _Points(samples.z[rows[:few]], judging, bases.gradients)
    numbers, found = (
        {key: number for number, key in enumerate(densities)},
        np.full((len(group), N_FOLDS), np.inf),
    )
    for kernel in {id(setting.built): setting.built for setting in group}.values():
        objectives = _objectives(points, kernel, bases, REGULARIZATIONS / median**2)
        for number, setting in enumerate(group):
            if setting.built is kernel:
                found[number] = objectives[numbers[id(setting.density)]]
    gains = np.nan_to_num(found, nan=1e100, posinf=1e100, neginf=1e100) - found[fixed]
    cautious = gains.mean(axis=1) + CAUTION * gains.std(axis=1, ddof=1) / np.sqrt(N_FOLDS)
    return group[int(np.nanargmin(cautious))] if np.all(np.isfinite(found[fixed])) else group[fixed]


def _parts(n):
    """Return the rows of each fold."""
    edges = np.linspace(0, n, N_FOLDS + 1).astype(int)
    return [slice(a, b) for a, b in pairwise(edges)]


class _Bases:
    """Base densities at the samples that judge."""

    def __init__(self, densities: list[Any], samples: Samples):
        w, self.gradients = samples.weights, [density.gradient(samples.x) for density in densities]
        squares = [0.5 * np.einsum("nd,nd->n", gradient, gradient) for gradient in self.gradients]
        terms = [
            w * (density.laplacian(samples.x) + half)
            for density, half in zip(densities, squares, strict=True)
        ]
        # (bases, folds)
        self.sums = np.array([[row[part].sum() for part in _parts(len(w))] for row in terms])


class _Points:
    """Centers of sections, and samples that judge; all radial kernels share their distances."""

    def __init__(self, centers: np.ndarray, samples: Samples, vectors: list[np.ndarray]):
        self.centers, self.z, self.w, self.parts = (
            centers,
            samples.z,
            samples.weights,
            _parts(len(samples.x)),
        )
        self.weights, self.vectors = np.array([self.w[part].sum() for part in self.parts]), vectors

    @cached_property
    def squares(self) -> np.ndarray:
        """Return the squared distances of samples to centers, (n, m)."""
        return squared_distances(self.z, self.centers)

    @cached_property
    def between(self) -> np.ndarray:
        """Return the squared distances of centers, (m, m)."""
        return squared_distances(self.centers, self.centers)

    @cached_property
    def along(self) -> np.ndarray:
        """Return 2 <x - y, v> for each of the vectors at the samples, (k, n, m)."""
        z, centers = self.z, self.centers
        return np.stack(
            [2.0 * (np.einsum("nd,nd->n", z, v)[:, None] - v @ centers.T) for v in self.vectors]
        )

    def forms(self, kernel: Kernel) -> _Forms:
        """Compute the forms of a kernel's sections.

        For formulas see :class:`kmc.bases.section_forms.RadialForms`.
        """
        if kernel.kind != "distance":
            basis = KernelSections(kernel, self.centers)
            dirichlet = [basis.sum_dirichlet(self.z[part], self.w[part]) for part in self.parts]
            fields = np.stack(
                [basis.directional(self.z, rows) for rows in self.vectors]
            ) + basis.laplacians(self.z)
            return _Forms(basis.gram(), np.stack(dirichlet), fields)
        _, slope, curvature = kernel.derivatives(self.squares, 2)
        half = 2.0 * np.sqrt(self.w)[:, None] * slope
        far, dirichlet = half * self.squares, []
        for part in self.parts:
            cross = far[part].T @ half[part]
            dirichlet.append(0.5 * (cross + cross.T - self.between * (half[part].T @ half[part])))
        laplacians = 4.0 * curvature * self.squares + 2.0 * self.z.shape[1] * slope
        return _Forms(
            kernel.profile(self.between), np.stack(dirichlet), laplacians + slope * self.along
        )


class _Forms(NamedTuple):
    """Forms of the sections of a kernel."""

    gram: np.ndarray  # (m, m)
    dirichlet: np.ndarray  # (folds, m, m), Σ w <∇φ, ∇φᵀ> of each fold
    fields: np.ndarray  # (bases, n, m), Δφ + <∇φ, ∇log q0> at the samples


def _objectives(
    points: _Points, kernel: Kernel, bases: _Bases, regularizations: np.ndarray
) -> np.ndarray:
    """Return the held-out objectives (bases, folds) at each base's best regularization."""
    gram, dirichlet, fields = points.forms(kernel)
    whiten, weights = eigen_whitening(gram), points.weights
    rest = (weights.sum() - weights)[:, None]
    dirichlet = whiten.T @ dirichlet @ whiten
    # (bases, folds, r)
    linear = np.stack([points.w[part] @ fields[:, part] for part in points.parts], axis=1) @ whiten
    s, v = np.linalg.eigh((dirichlet.sum(axis=0) - dirichlet) / rest[:, :, None])
    target = np.einsum("kir,bki->bkr", v, linear.sum(axis=1, keepdims=True) - linear) / rest
    # (bases, folds, r, l)
    fits = -v @ (target[..., None] / (np.maximum(s, 0.0)[:, :, None] + regularizations))
    quadratic = 0.5 * np.sum(fits * (dirichlet @ fits), axis=2)
    table = (
        quadratic + np.einsum("bkr,bkrl->bkl", linear, fits) + bases.sums[:, :, None]
    ) / weights[:, None]
    best = np.argmin(table.mean(axis=1), axis=1)
    return np.take_along_axis(table, best[:, None, None], axis=2)[:, :, 0]


# Shrinkage of the covariance of a fitted base density, by as much as its entries are noise.
#
# A covariance of n samples in d dimensions has d (d + 1) / 2 entries with errors of about 1 / √n,
# and the score of a Gaussian fit a relative error of d / n. Correlations are shrunk towards zero
# and variances towards their median, with the intensities that minimize the expected squared error
# (Schäfer and Strimmer 2005, "A shrinkage approach to large-scale covariance matrix estimation";
# Opgen-Rhein and Strimmer 2007). Both are of order 1 / n where the entries differ by more than
# noise.


def shrunk(density: Any, x: np.ndarray, weights: np.ndarray) -> Any:
    """Shrink the covariance of a Gaussian or Student-t fit to x (n, d); return others unchanged.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.scores.base_fits import fit_base
    >>> from kmc.scores.choice import shrunk
    >>> x = np.random.default_rng(0).standard_normal((100, 5))
    >>> fitted = fit_base("gaussian", x)
    >>> better = shrunk(fitted, x, np.ones(100))
    >>> bool(
    ...     abs(better.covariance - np.eye(5)).max()
    ...     < 0.5 * abs(fitted.covariance - np.eye(5)).max()
    ... )
    True
    """
    w = weights / weights.sum()
    if isinstance(density, Gaussian):
        return Gaussian(density.mean, _shrunk(density.covariance, x - density.mean, w))
    if isinstance(density, StudentT):
        r = x - density.location
        far = np.einsum("ij,ij->i", r @ density.precision, r)
        # the scale is their second moment
        r = r * np.sqrt((density.dof + x.shape[1]) / (density.dof + far))[:, None]
        return StudentT(density.location, _shrunk(density.scale, r, w), density.dof)
    return density


def _shrunk(matrix, r, w):
    """Shrink a matrix (d, d), the second moment of rows r (n, d) with weights w that sum to one."""
    variances = np.diag(matrix)
    z = r / np.sqrt(variances)
    effective = np.sum(w**2)  # 1 / n for equal weights
    noise = effective * ((z**2).T @ (w[:, None] * z**2) - (z.T @ (w[:, None] * z)) ** 2)
    correlations = matrix / np.sqrt(np.outer(variances, variances))
    off = ~np.eye(len(matrix), dtype=bool)
    less = _intensity(noise[off], correlations[off])
    middle = np.median(variances)
    towards = _intensity(np.diag(noise) * variances**2, variances - middle)
    scales = np.sqrt((1.0 - towards) * variances + towards * middle)
    return np.where(off, (1.0 - less) * correlations, 1.0) * np.outer(scales, scales)


def _intensity(noise, apart):
    """Return Σ Var / Σ (difference from the target)², in [0, 1]."""
    square = np.sum(apart**2)
    return float(np.clip(np.sum(noise) / square, 0.0, 1.0)) if square > 0 else 0.0
