"""Choice of kernel, bandwidth, base density and regularisation by the held-out score-matching objective."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from kmc.checks import numbers
from kmc.kernels import candidate_bandwidths, kernel_of
from kmc.scores.densities import fit_base
from kmc.scores.sums import Samples

BANDWIDTHS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
"""Candidates of ``bandwidth="cv"``, in median distances between samples."""

REGULARIZATIONS = tuple(10.0 ** np.arange(-8.0, 2.0))
"""Candidates of ``regularization="cv"``, in units of 1 / (median distance)²: so units of x do not matter."""


class Candidate(NamedTuple):
    """A setting whose regularisations are compared; the fields are columns of the table."""

    kernel: Any
    bandwidth: float
    base: Any
    penalty: str


class Setting(NamedTuple):
    """A candidate, with its kernel and its fitted base density."""

    candidate: Candidate
    kernel: Any
    base: Any


def settings(model: Any, samples: Samples, median: float) -> Iterator[Setting]:
    """All combinations of an estimator's kernels, bandwidths and base densities; the penalty is still "norm"."""
    bases = [(base, fit_base(base, samples.x, samples.weights)) for base in listed(model.base)]
    for kernel in listed(model.kernel):
        for bandwidth in bandwidths(model.bandwidth, median, isinstance(kernel, str)):
            built = kernel_of(kernel, bandwidth)
            for base, fitted in bases:
                yield Setting(Candidate(kernel, bandwidth, base, "norm"), built, fitted)


class Search:
    """The table of candidates, and the best so far.

    Parameters
    ----------
    regularizations : ndarray, shape (l,)
        Compared for every candidate.
    """

    def __init__(self, regularizations: np.ndarray):
        self.regularizations = regularizations
        self.regularization = float(regularizations[0])
        self.best = np.inf
        self._rows: list[tuple[Candidate, np.ndarray, np.ndarray]] = []

    def add(self, candidate: Candidate, objectives: np.ndarray) -> bool:
        """Enter held-out objectives (n_folds, l), lower is better; whether one of them is the best so far.

        A setting whose mean is not finite is entered and never chosen.
        """
        mean = objectives.mean(axis=0)
        n = len(objectives)
        error = objectives.std(axis=0, ddof=1) / np.sqrt(n) if n > 1 else np.full(len(mean), np.nan)
        self._rows.append((candidate, mean, error))
        comparable = np.where(np.isfinite(mean), mean, np.inf)
        least = int(np.argmin(comparable))
        if not comparable[least] < self.best:
            return False
        self.best, self.regularization = float(comparable[least]), float(self.regularizations[least])
        return True

    def table(self) -> dict[str, np.ndarray]:
        """``cv_results_``: a row for each candidate and regularisation; empty if nothing was left open.

        The candidate's fields, ``regularization``, ``objective`` (mean over folds) and ``std_error`` (over folds).
        """
        if not self._rows:
            return {}
        columns = {
            name: _column([getattr(candidate, name) for candidate, _, _ in self._rows], len(self.regularizations))
            for name in Candidate._fields
        }
        columns["regularization"] = np.tile(self.regularizations, len(self._rows))
        columns["objective"] = np.concatenate([mean for _, mean, _ in self._rows])
        columns["std_error"] = np.concatenate([error for _, _, error in self._rows])
        return columns


def folds(n: int, count: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Indices of ``count`` random parts of nearly equal size, at least one sample in each."""
    return [np.sort(part) for part in np.array_split(rng.permutation(n), min(count, n))]


def bandwidths(bandwidth: Any, median: float, named: bool) -> list[float]:
    """What a kernel is built with, for each candidate: :func:`kmc.kernels.candidate_bandwidths`."""
    return candidate_bandwidths(bandwidth, median, named, BANDWIDTHS)


def regularizations(regularization: Any, median: float) -> np.ndarray:
    """The λ of each candidate, ascending as given."""
    if isinstance(regularization, str):
        if regularization == "cv":
            return np.array(REGULARIZATIONS) / median**2
        raise ValueError(
            f"regularization={regularization!r}: expected 'cv', a non-negative number or a sequence of them"
        )
    return np.array(numbers("regularization", regularization, zero=True))


def listed(value: Any) -> list[Any]:
    """A list or tuple of candidates as it is, anything else as the only candidate."""
    return list(value) if isinstance(value, (list, tuple)) else [value]


def name_of(value: Any) -> str:
    """A candidate in the table: a name as it is, an object as it prints."""
    return value if isinstance(value, str) else repr(value)


def check_folds(cv: Any) -> None:
    """A number of folds, or "loo"."""
    if cv == "loo" and isinstance(cv, str):
        return
    if not isinstance(cv, (int, np.integer)) or isinstance(cv, bool) or cv < 2:
        raise ValueError(f"cv={cv!r}: expected 'loo' or a whole number of folds, at least 2")


def _column(values, repeats):
    entries = [name_of(v) if not isinstance(v, (int, float)) else v for v in values]
    return np.repeat(np.array(entries), repeats)
