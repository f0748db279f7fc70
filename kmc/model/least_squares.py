"""Least squares: the log-likelihood of residuals, and the parameters of lmfit.

The parameters of lmfit are known by their attributes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln

from kmc.arrays import as_array
from kmc.model.parameters import Fixed, Interval, LowerBound, Parameter, Real, UpperBound


def is_lmfit(parameters: Any) -> bool:
    """Return whether the object is a ``lmfit.Parameters``."""
    known = ("value", "min", "max", "vary", "expr")
    return (
        isinstance(parameters, Mapping)
        and bool(parameters)
        and all(all(hasattr(one, name) for name in known) for one in parameters.values())
    )


def from_lmfit(parameters: Any) -> dict[str, Parameter | Fixed]:
    """Return supports and fixed values of ``lmfit.Parameters`` without an expression, by name."""
    return {name: _support(one) for name, one in parameters.items() if not one.expr}


@dataclass(frozen=True)
class OfLmfit:
    """A function of a ``lmfit.Parameters``, as a function of a dict of numbers.

    Attributes
    ----------
    function : callable
    parameters : lmfit.Parameters
        Each call gets a copy with its own values, so that calls in threads do not meet.
    derived : tuple of str
        Names of parameters with an expression, whose values become blobs.
    """

    function: Callable[..., Any]
    parameters: Any
    derived: tuple[str, ...] = ()

    def __call__(self, values: Mapping[str, float], *args: Any, **kwargs: Any) -> Any:
        """Return the function's output, with the derived values as blobs if there are any."""
        parameters = copy.deepcopy(self.parameters)
        for name, value in values.items():
            parameters[name].value = value
        found = {name: float(parameters[name].value) for name in self.derived}
        returned = self.function(parameters, *args, **kwargs)
        if not found:
            return returned
        value, blobs = (
            returned if isinstance(returned, tuple) and len(returned) == 2 else (returned, {})
        )
        return value, {**found, **blobs}


def _support(one: Any) -> Parameter | Fixed:
    if not one.vary:
        return Fixed(one.value)
    low, high = float(one.min), float(one.max)
    parameter: Any
    if np.isfinite(low) and np.isfinite(high):
        parameter = Interval(low, high)
    elif np.isfinite(low):
        parameter = LowerBound(low)
    else:
        parameter = UpperBound(high) if np.isfinite(high) else Real()
    object.__setattr__(parameter, "start", float(one.value))
    return parameter


@dataclass(frozen=True)
class Residual:
    """The log-likelihood of residuals."""

    f: Callable[..., Any]
    sigma: Any

    def __call__(self, parameters: Any, *args: Any, **kwargs: Any) -> float:
        """Return the log-likelihood at some parameters."""
        return self.of(self.f(parameters, *args, **kwargs), parameters)

    def of(self, residual: Any, parameters: Any) -> float:
        """Return the log-likelihood of residuals at some parameters."""
        r = as_array("residual", residual)
        if self.sigma is None:
            with np.errstate(divide="ignore"):
                return float(
                    gammaln(0.5 * r.size)
                    - np.log(2.0)
                    - 0.5 * r.size * np.log(np.pi * np.sum(r**2))
                )
        sigma = float(parameters[self.sigma]) if isinstance(self.sigma, str) else self.sigma
        each = -0.5 * (r / sigma) ** 2 - np.log(sigma) - 0.5 * np.log(2 * np.pi)
        if each.shape != r.shape:
            raise ValueError(
                f"sigma has the shape {np.shape(sigma)}, and the residuals have {r.shape}"
            )
        return float(np.sum(each))


def residual_of(likelihood: Any) -> Residual | None:
    """Return the residuals whose log-likelihood a function is, or None if it is another."""
    function = likelihood.function if isinstance(likelihood, OfLmfit) else likelihood
    return function if isinstance(function, Residual) else None
