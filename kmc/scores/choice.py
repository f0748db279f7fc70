"""Kernel, bandwidth and base density of an estimator at its defaults, "auto": chosen together, before the fit.

The candidates are compared by the held-out score-matching objective of fits in a few kernel sections, with some of the
samples. This takes about as long as one fit. Samples at landmarks are not among those that judge, as sections have
their largest curvature at their own center. Open base densities have shrunk covariances (:mod:`kmc.scores.shrinkage`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from kmc.bases import KernelSections
from kmc.checks import is_number
from kmc.kernels import Kernel
from kmc.linalg import eigen_whitening
from kmc.scores.densities import fit_base
from kmc.scores.shrinkage import shrunk
from kmc.scores.sums import Samples
from kmc.selection import kernel_candidates, listed

AUTO = "auto"
KERNELS = ("gaussian", "inverse-multiquadric")
BASES = ("gaussian", "student-t", "uniform")
FACTORS = (0.5, 1.0, 2.0)  # bandwidths in median distances; with 1/4 and 4, wrong ones are chosen at times

FIXED = {"kernel": "gaussian", "bandwidth": "median", "base": "gaussian"}
"""What "auto" means where nothing is chosen: for a few samples, samples with values, a given regularization, and states
of a sampler."""

REGULARIZATIONS = 10.0 ** np.arange(-8.0, 2.0)  # in 1 / (median distance)²
LANDMARKS = 40
FEWEST, MOST, SHARE = 300, 2000, 1 / 3  # samples that judge: a share of all, within these bounds
LEAST = 60  # samples below which nothing is chosen
N_FOLDS = 4
CAUTION = 0.5  # standard errors of the difference by which a candidate has to be better than the fixed one


class Setting(NamedTuple):
    """A candidate."""

    kernel: Any  # as given
    bandwidth: float
    base: Any  # as given
    built: Kernel
    density: Any  # the fitted base

    def is_fixed(self, open_names: set[str], median: float) -> bool:
        """Whether this is what "auto" means where nothing is chosen."""
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
    """Which of kernel, bandwidth and base are "auto"."""
    return {name for name in FIXED if isinstance(getattr(model, name, None), str) and getattr(model, name) == AUTO}


def settings(
    model: Any, samples: Samples, median: float, factors: tuple[float, ...], rng: np.random.Generator
) -> Iterator[Setting]:
    """What is to be compared in full: for each combination of the given parameters the best of those that are "auto".

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
        key = tuple(repr(getattr(setting, name)) for name in FIXED if name not in names) if names else number
        groups.setdefault(key, []).append(setting)
    for group in groups.values():
        yield group[0] if len(group) == 1 else _best(group, names, samples, median, rng)


def _all(given, names, samples, median, factors):
    """All candidates; of open base densities, those that exist for the samples."""
    bases = []
    for base in BASES if "base" in names else listed("base", given.base):
        try:
            density = fit_base(base, samples.x, samples.weights)
            bases.append((base, shrunk(density, samples.x, samples.weights) if "base" in names else density))
        except ValueError:
            if "base" not in names or base == FIXED["base"]:
                raise
    for kernel in KERNELS if "kernel" in names else listed("kernel", given.kernel):
        bandwidth = given.bandwidth
        if "bandwidth" in names:
            bandwidth = [factor * median for factor in FACTORS] if isinstance(kernel, str) else FIXED["bandwidth"]
        for _, length, built in kernel_candidates(Given(kernel, bandwidth, None), median, factors):
            for base, density in bases:
                yield Setting(kernel, length, base, built, density)


def _best(group, names, samples, median, rng):
    """The setting with the best held-out objective, with some caution."""
    fixed = next((number for number, setting in enumerate(group) if setting.is_fixed(names, median)), 0)
    if any(setting.built.differentiability < 2 for setting in group):  # the estimator says so
        return group[fixed]
    rows = rng.permutation(np.flatnonzero(samples.weights > 0))
    few = min(LANDMARKS, len(rows) // 3)
    judging = samples.take(rows[few : few + int(np.clip(SHARE * len(rows), FEWEST, MOST))])
    bases = {id(setting.density): _Judged(setting.density, judging) for setting in group}
    found = np.full((len(group), N_FOLDS), np.inf)
    for kernel in {id(setting.built): setting.built for setting in group}.values():
        sections = _Sections(kernel, samples.z[rows[:few]], judging)
        for number, setting in enumerate(group):
            if setting.built is kernel:
                found[number] = sections.objectives(bases[id(setting.density)], REGULARIZATIONS / median**2)
    gains = np.nan_to_num(found, nan=1e100, posinf=1e100, neginf=1e100) - found[fixed]
    cautious = gains.mean(axis=1) + CAUTION * gains.std(axis=1, ddof=1) / np.sqrt(N_FOLDS)
    return group[int(np.nanargmin(cautious))] if np.all(np.isfinite(found[fixed])) else group[fixed]


def _parts(n):
    """Rows of each fold."""
    edges = np.linspace(0, n, N_FOLDS + 1).astype(int)
    return [slice(a, b) for a, b in pairwise(edges)]


class _Judged:
    """A base density at the samples that judge."""

    def __init__(self, density: Any, samples: Samples):
        self.gradient, w = density.gradient(samples.x), samples.weights
        terms = w * (density.laplacian(samples.x) + 0.5 * np.einsum("nd,nd->n", self.gradient, self.gradient))
        self.sums = [terms[part].sum() for part in _parts(len(terms))]


class _Sections:
    """Sections of a kernel, orthonormal in its space, and their forms over parts of the samples."""

    def __init__(self, kernel: Kernel, centers: np.ndarray, samples: Samples):
        basis = KernelSections(kernel, centers)
        self.basis, self.z, self.w, self.parts = basis, samples.z, samples.weights, _parts(len(samples.x))
        self.whiten, self.laplacians = eigen_whitening(basis.gram()), basis.laplacians(samples.z)
        self.weights = [self.w[part].sum() for part in self.parts]
        forms = [basis.sum_dirichlet(self.z[part], self.w[part]) for part in self.parts]
        self.dirichlet = [self.whiten.T @ form @ self.whiten for form in forms]
        total, weight = sum(self.dirichlet), sum(self.weights)
        self.rest = [linalg.eigh((total - own) / (weight - w)) for own, w in zip(self.dirichlet, self.weights)]

    def objectives(self, base: _Judged, regularizations: np.ndarray) -> np.ndarray:
        """The held-out objective of each part (folds,), at the best regularization."""
        field = self.laplacians + self.basis.directional(self.z, base.gradient)
        linear = [self.whiten.T @ (self.w[part] @ field[part]) for part in self.parts]
        total, weight, out = sum(linear), sum(self.weights), []
        for own, b, w, dirichlet, (s, v) in zip(linear, base.sums, self.weights, self.dirichlet, self.rest):
            shrunk = v.T @ (total - own) / (weight - w)
            fits = -v @ (shrunk[:, None] / (np.maximum(s, 0.0)[:, None] + regularizations))
            out.append((0.5 * np.sum(fits * (dirichlet @ fits), axis=0) + own @ fits + b) / w)
        table = np.array(out)
        return table[:, np.argmin(table.mean(axis=0))]
