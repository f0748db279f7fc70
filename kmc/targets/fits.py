"""Least squares: residuals, and the parameters and fits of lmfit and SciPy, which are known by their attributes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln

from kmc.checks import as_array
from kmc.targets.parameters import Fixed, Interval, LowerBound, Parameter, Real, UpperBound

_TRIES = 1000  # draws from the fit's Gaussian for each start point in the support


def is_lmfit(parameters: Any) -> bool:
    """Whether it is a ``lmfit.Parameters``."""
    known = ("value", "min", "max", "vary", "expr")
    return (
        isinstance(parameters, Mapping)
        and bool(parameters)
        and all(all(hasattr(one, name) for name in known) for one in parameters.values())
    )


def from_lmfit(parameters: Any) -> dict[str, Parameter | Fixed]:
    """The supports of a ``lmfit.Parameters`` by name, without those that have an expression."""
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
        """What the function returns, with the derived values."""
        parameters = copy.deepcopy(self.parameters)
        for name, value in values.items():
            parameters[name].value = value
        found = {name: float(parameters[name].value) for name in self.derived}
        returned = self.function(parameters, *args, **kwargs)
        if not found:
            return returned
        value, blobs = returned if isinstance(returned, tuple) and len(returned) == 2 else (returned, {})
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
        """The log-likelihood at some parameters."""
        return self.of(self.f(parameters, *args, **kwargs), parameters)

    def of(self, residual: Any, parameters: Any) -> float:
        """The log-likelihood of residuals at some parameters."""
        r = as_array("residual", residual)
        if self.sigma is None:
            with np.errstate(divide="ignore"):
                return float(gammaln(0.5 * r.size) - np.log(2.0) - 0.5 * r.size * np.log(np.pi * np.sum(r**2)))
        sigma = float(parameters[self.sigma]) if isinstance(self.sigma, str) else self.sigma
        each = -0.5 * (r / sigma) ** 2 - np.log(sigma) - 0.5 * np.log(2 * np.pi)
        if each.shape != r.shape:
            raise ValueError(f"sigma has the shape {np.shape(sigma)}, and the residuals have {r.shape}")
        return float(np.sum(each))


def residual_of(likelihood: Any) -> Residual | None:
    """The residuals whose log-likelihood a function is, if it is that of residuals."""
    function = likelihood.function if isinstance(likelihood, OfLmfit) else likelihood
    return function if isinstance(function, Residual) else None


def is_fit(given: Any) -> bool:
    """Whether it is a result of ``scipy.optimize.least_squares`` or lmfit."""
    return hasattr(given, "var_names") or (hasattr(given, "x") and hasattr(given, "jac"))


def near_fit(fit: Any, count: int, shapes: Mapping[str, tuple[int, ...]], inside: Callable[[Any], bool]) -> Any:
    """Arrays (count, *shape) by name, drawn from the Gaussian of a fit; the same fit gives the same points.

    Parameters
    ----------
    fit : OptimizeResult or MinimizerResult
    count : int
    shapes : mapping of str to tuple of int
        Shapes of the parameters' values. A fit of SciPy has their numbers in this order.
    inside : callable
        Whether the values, by name, are in the supports.

    Raises
    ------
    ValueError
        The fit has other parameters, or no covariance, or hardly any mass in the supports.
    """
    sizes = [int(np.prod(shape)) for shape in shapes.values()]
    if hasattr(fit, "var_names"):
        covar = getattr(fit, "covar", None)
        if set(fit.var_names) != set(shapes) or covar is None:
            raise ValueError(
                f"initial is a fit of {', '.join(fit.var_names)} with covar={covar}: expected one of "
                f"{', '.join(shapes)} with their covariance; or pass start points"
            )
        order = [list(fit.var_names).index(name) for name in shapes]
        x = np.array([fit.params[name].value for name in shapes])
        covariance = np.asarray(covar)[np.ix_(order, order)]
    else:
        x, jacobian, residual = (as_array("initial", getattr(fit, name)) for name in ("x", "jac", "fun"))
        if x.shape != (sum(sizes),) or jacobian.ndim != 2 or np.linalg.matrix_rank(jacobian) < x.size:
            raise ValueError(
                f"initial is a fit of {x.size} numbers with a Jacobian of shape {jacobian.shape}: expected one by "
                f"scipy.optimize.least_squares of {sum(sizes)} numbers ({', '.join(shapes)}) that the residuals "
                "determine; or pass start points"
            )
        variance = np.sum(residual**2) / max(residual.size - x.size, 1)
        covariance = variance * np.linalg.inv(jacobian.T @ jacobian)
    rng = np.random.default_rng(0)
    found: list[dict[str, np.ndarray]] = []
    for _ in range(_TRIES * count):
        parts = np.split(rng.multivariate_normal(x, covariance), np.cumsum(sizes)[:-1])
        point = {name: part.reshape(1, *shape) for (name, shape), part in zip(shapes.items(), parts)}
        if inside(point):
            found.append(point)
        if len(found) == count:
            return {name: np.concatenate([point[name] for point in found]) for name in shapes}
    raise ValueError("initial is a fit whose Gaussian is outside of the parameters' supports; pass start points")
