"""The candidate bandwidths for a parameter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kmc.checks import numbers


def candidate_bandwidths(bandwidth: Any, median: float, named: bool, factors: Sequence[float]) -> list[float]:
    """Arguments for building a kernel, for each candidate.

    A kernel given by name takes a bandwidth in the units of x. A kernel object has its own scale, and takes factors
    of it: "median" keeps it.

    Parameters
    ----------
    bandwidth : {"median", "cv"}, float or sequence of float
    median : float
        Median distance between samples.
    named : bool
        Whether the kernel is given by name.
    factors : sequence of float
        Candidates of "cv", in median distances.
    """
    unit = median if named else 1.0
    if isinstance(bandwidth, str):
        if bandwidth == "median":
            return [unit]
        if bandwidth == "cv":
            return [factor * unit for factor in factors]
        raise ValueError(f"bandwidth={bandwidth!r}: expected 'median', 'cv', a positive number or a sequence of them")
    return numbers("bandwidth", bandwidth, zero=False)
