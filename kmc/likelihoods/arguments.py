"""Check arguments of likelihoods: data, and numbers that may be the values of parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kmc.checks import as_array

Term = str | np.ndarray
"""The name of a parameter, or numbers that broadcast with the data."""


def as_data(observed: Any) -> np.ndarray:
    """Return the observed data as a new float64 array, with NaN where they are missing.

    Raises
    ------
    TypeError, ValueError
        They are not real numbers, are infinite, or all are missing.
    """
    data = as_array("observed", observed).copy()
    if np.isinf(data).any():
        raise ValueError(f"observed={_short(data)}: expected finite numbers, or NaN where data are missing")
    if not np.isfinite(data).any():
        raise ValueError(f"observed={_short(data)}: expected at least one number that is not missing")
    return data


def check_data(name: str, data: np.ndarray, valid: np.ndarray, expected: str) -> None:
    """Raise a ValueError that names the first value that is neither valid nor missing."""
    odd = data[~valid & ~np.isnan(data)]
    if odd.size:
        raise ValueError(f"{name} has the value {odd.flat[0]:g}: expected {expected}")


def as_terms(name: str, given: Any, shape: tuple[int, ...]) -> tuple[Term, ...]:
    """Return the terms of an argument: a number, an array, a name, or a list with a name or an array among these."""
    if given is None:
        return ()
    several = isinstance(given, (list, tuple)) and any(isinstance(one, (str, np.ndarray)) for one in given)
    return tuple(as_term(name, one, shape) for one in (given if several else [given]))


def as_term(name: str, given: Any, shape: tuple[int, ...]) -> Term:
    """Return a parameter's name, or positive numbers that broadcast with the data.

    Raises
    ------
    TypeError, ValueError
        Neither of these.
    """
    if isinstance(given, str):
        return given
    if isinstance(given, (bool, np.bool_)):
        raise TypeError(f"{name}={given!r}: expected positive numbers, or the name of a parameter")
    numbers = as_array(name, given)
    if not (np.isfinite(numbers).all() and (numbers > 0).all()):
        raise ValueError(f"{name}={_short(numbers)}: expected positive numbers, or the name of a parameter")
    return fitting(name, numbers, shape)


def as_bound(name: str, given: Any, shape: tuple[int, ...]) -> np.ndarray | None:
    """Return a bound of the data, which may be infinite: numbers that broadcast with them; None if there is none."""
    if given is None:
        return None
    numbers = as_array(name, given)
    if np.isnan(numbers).any():
        raise ValueError(f"{name}={_short(numbers)}: expected numbers, infinite where there is no bound")
    return fitting(name, numbers, shape)


def fitting(name: str, numbers: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return the numbers if they broadcast to the shape of the data; ValueError if not."""
    try:
        np.broadcast_to(numbers, shape)
    except ValueError:
        raise ValueError(
            f"{name} has the shape {numbers.shape}: expected a number, or an array that broadcasts to the shape of the "
            f"data, {shape}"
        ) from None
    return numbers


def names_of(terms: tuple[Term, ...]) -> list[str]:
    """Return the parameters' names among terms."""
    return [term for term in terms if isinstance(term, str)]


def value_of(name: str, term: Term, parameters: Mapping[str, Any], shape: tuple[int, ...]) -> np.ndarray:
    """Return the numbers of a term at some parameters.

    Raises
    ------
    ValueError
        There is no such parameter, or its value does not broadcast with the data.
    """
    if not isinstance(term, str):
        return term
    if term not in parameters:
        raise ValueError(f"{name}={term!r} is not a parameter: expected some of {', '.join(parameters)}")
    return fitting(f"{name}={term!r}", np.asarray(parameters[term], float), shape)


def summed_to(gradient: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Sum derivatives (n, ...) over the axes along which a value of this shape was broadcast."""
    lead = gradient.ndim - len(shape)
    axes = tuple(lead + i for i, size in enumerate(shape) if size == 1)
    return gradient.sum(axis=(*range(lead), *axes)).reshape(shape)


def _short(numbers: np.ndarray) -> str:
    with np.printoptions(threshold=6, edgeitems=2, linewidth=10**6):
        return np.array2string(numbers, separator=", ").replace("\n", "")
