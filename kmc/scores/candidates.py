"""Choice of kernel, bandwidth, base density and regularization by the held-out score-matching objective."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from kmc.checks import is_whole
from kmc.kernels import candidate_bandwidths, kernel_of
from kmc.scores.densities import fit_base
from kmc.scores.sums import Samples
from kmc.selection import listed, numbers_or

BANDWIDTHS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
"""Candidates of ``bandwidth="cv"``, in median distances between samples."""

REGULARIZATIONS = tuple(10.0 ** np.arange(-8.0, 2.0))
"""Candidates of ``regularization="cv"``, in units of 1 / (median distance)², so that units of x do not matter."""


class ScoreCandidate(NamedTuple):
    """A setting for which regularizations are compared; the fields are columns of the table."""

    kernel: Any
    bandwidth: float
    base: Any
    penalty: str


class ScoreSetting(NamedTuple):
    """A candidate, with its kernel and its fitted base density."""

    candidate: ScoreCandidate
    kernel: Any
    base: Any


def settings(model: Any, samples: Samples, median: float) -> Iterator[ScoreSetting]:
    """All combinations of an estimator's kernels, bandwidths and base densities; the penalty is still "norm"."""
    bases = [(base, fit_base(base, samples.x, samples.weights)) for base in listed("base", model.base)]
    for kernel in listed("kernel", model.kernel):
        for bandwidth in bandwidths(model.bandwidth, median, isinstance(kernel, str)):
            built = kernel_of(kernel, bandwidth)
            for base, fitted in bases:
                yield ScoreSetting(ScoreCandidate(kernel, bandwidth, base, "norm"), built, fitted)


def bandwidths(bandwidth: Any, median: float, named: bool) -> list[float]:
    """Arguments for building a kernel, for each candidate: :func:`kmc.kernels.candidate_bandwidths`."""
    return candidate_bandwidths(bandwidth, median, named, BANDWIDTHS)


def regularizations(regularization: Any, median: float) -> np.ndarray:
    """The λ of each candidate, in the given order."""
    return numbers_or("regularization", regularization, np.array(REGULARIZATIONS) / median**2)


def check_folds(cv: Any) -> None:
    """Check a number of folds, or "loo"."""
    if isinstance(cv, str) and cv == "loo":
        return
    if not is_whole(cv) or cv < 2:
        raise ValueError(f"cv={cv!r}: expected 'loo' or a whole number of folds, at least 2")
