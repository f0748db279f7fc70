"""Samplers for other packages: each module needs its package, which kmc does not install."""

from __future__ import annotations

import math
from typing import Any

import kmc
from kmc.model.parameters import Interval, LowerBound, Parameter, Real, UpperBound


def missing(package: str) -> ImportError:
    """Make the error for a package that is not installed."""
    return ImportError(
        f"kmc.plugins.{package.lower()} needs {package}: pip install {package.lower()}"
    )


def support(low: float, high: float) -> Parameter:
    """Return a parameter between two bounds, either of which may be infinite."""
    if math.isfinite(low) and math.isfinite(high):
        return Interval(low, high)
    if math.isfinite(low):
        return LowerBound(low)
    return UpperBound(high) if math.isfinite(high) else Real()


def sample(model: kmc.Model, **options: Any) -> Any:
    """Run :func:`kmc.sample`; without draws, raise a RuntimeError with the attribute ``idata``."""
    idata = kmc.sample(model, **options)
    if idata["posterior"].sizes["draw"]:
        return idata
    error = RuntimeError(
        "kmc made no draws, since the run ended within warm-up: allow more evaluations or time"
    )
    error.idata = idata  # type: ignore[attr-defined]
    raise error
