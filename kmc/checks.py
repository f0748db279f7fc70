"""Checks of users' arguments: the error names the argument, its value and what was expected."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

import numpy as np

from kmc.arrays import as_array

# lengths whose eighth powers neither overflow nor underflow
LEAST_LENGTH, MOST_LENGTH = 1e-30, 1e30


def is_number(value: Any) -> bool:
    """Return whether a value is a real number of Python or NumPy, no truth value or time span."""
    return isinstance(value, (int, float, np.floating, np.integer)) and not isinstance(
        value, (bool, np.timedelta64)
    )


def is_whole(value: Any) -> bool:
    """Return whether a value is a whole number of Python or NumPy, no truth value or time span."""
    return is_number(value) and isinstance(value, (int, np.integer))


def to_float(number: Any) -> float:
    """Convert a number to a float, which is infinite for an integer beyond the range of floats."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def check_number(
    options: Any, name: str, low: float, high: float = np.inf, ends: str = "()"
) -> None:
    """Check a real number between ``low`` and ``high``.

    Brackets in ``ends`` say which of them are included, as in "[)".
    """
    value = getattr(options, name)
    expected = f"expected a number in {ends[0]}{low:g}, {high:g}{ends[1]}"
    if not is_number(value):
        raise TypeError(f"{name}={value!r}: {expected}")
    number = to_float(value)
    above = number >= low if ends[0] == "[" else number > low
    below = number <= high if ends[1] == "]" else number < high
    if not (above and below):
        raise ValueError(f"{name}={value!r}: {expected}")


def check_count(options: Any, name: str, least: int) -> None:
    """Check a whole number of at least ``least``."""
    as_number(name, getattr(options, name), least)


def as_number(name: str, value: Any, least: int) -> int:
    """Return a whole number as an int; raise an error unless it is at least ``least``."""
    expected = f"expected a whole number of at least {least}"
    if not is_whole(value):
        raise TypeError(f"{name}={value!r}: {expected}")
    if value < least:
        raise ValueError(f"{name}={value!r}: {expected}")
    return int(value)


def as_count(name: str, value: Any, least: int) -> int | None:
    """Return a whole number of at least ``least`` as an int, or None; raise an error otherwise."""
    __tracebackhide__ = True
    return None if value is None else as_number(name, value, least)


def as_amount(name: str, value: Any, unit: str) -> float | None:
    """Return a positive number of seconds, or of another unit, or None."""
    if value is None:
        return None
    if not is_number(value):
        raise TypeError(f"{name}={value!r}: expected a number of {unit} or None")
    if not 0 < value < np.inf:
        raise ValueError(f"{name}={value!r}: expected a positive, finite number of {unit}")
    return float(value)


def check_some(**given: Any) -> None:
    """Raise a ValueError if all of these arguments are None."""
    if all(value is None for value in given.values()):
        *names, last = [f"{name}=None" for name in given]
        raise ValueError(f"{', '.join(names)} and {last}: give at least one of them")


def as_flag(name: str, value: Any) -> bool:
    """Return a flag of Python or NumPy as a bool; raise a TypeError for anything else."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name}={value!r}: expected True or False")
    return bool(value)


def check_choice(options: Any, name: str, choices: tuple[str, ...]) -> None:
    """Check that it is one of the words."""
    value = getattr(options, name)
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name}={value!r}: expected {' or '.join(map(repr, choices))}")


def check_unused(options: Any, names: tuple[str, ...], because: str) -> None:
    """Check that options of a dataclass that would have no effect are at their defaults."""
    for option in fields(options):
        value = getattr(options, option.name)
        if option.name in names and value != option.default:
            raise ValueError(f"{option.name}={value!r} has no effect {because}: leave it out")


def numbers(name: str, value: Any, zero: bool) -> list[float]:
    """Return a positive finite number, or a sequence of them, as a list of floats.

    Zero is accepted if ``zero`` is true.
    """
    expected = (
        f"expected a {'non-negative' if zero else 'positive'} finite number or a sequence of them"
    )
    try:
        array = np.atleast_1d(as_array(name, value))
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}={value!r}: {expected}") from error
    if value is None or isinstance(value, bool) or array.ndim != 1 or not array.size:
        raise TypeError(f"{name}={value!r}: {expected}")
    if not (np.all(np.isfinite(array)) and np.all(array >= 0 if zero else array > 0)):
        raise ValueError(f"{name}={value!r}: {expected}")
    return [float(number) for number in array]


def positive(name: str, value: Any) -> float:
    """Return a positive finite number as a float; raise an error for anything else."""
    number = _number(name, value, "a positive finite number")
    if not 0.0 < number < np.inf:
        raise ValueError(f"{name}={value!r}: expected a positive finite number")
    return number


def length(name: str, value: Any) -> float:
    """Return a positive number as a float; raise an error unless it can be a unit of length."""
    number = positive(name, value)
    if not LEAST_LENGTH <= number <= MOST_LENGTH:
        limits = f"{LEAST_LENGTH:g} to {MOST_LENGTH:g}"
        raise ValueError(
            f"{name}={value!r}: expected a positive finite number from {limits}; rescale the data"
        )
    return number


def not_negative(name: str, value: Any) -> float:
    """Return a finite number that is not negative as a float; raise an error for anything else."""
    number = _number(name, value, "a finite number that is not negative")
    if not 0.0 <= number < np.inf:
        raise ValueError(f"{name}={value!r}: expected a finite number that is not negative")
    return number


def derivative_order(order: Any) -> int:
    """Return an order of differentiation as an int; raise an error unless it is 0 to 4."""
    try:
        number = operator.index(order)
    except TypeError:
        raise TypeError(f"order={order!r}: expected a whole number from 0 to 4") from None
    if not 0 <= number <= 4:
        raise ValueError(f"order={order!r}: expected a whole number from 0 to 4")
    return number


def set_checked(kernel: Any, check: Any, *names: str) -> None:
    """Replace fields of a frozen dataclass by their checked values."""
    for name in names:
        object.__setattr__(kernel, name, check(name, getattr(kernel, name)))


def check_samples(x: np.ndarray, estimator: Any = None, weights: np.ndarray | None = None) -> None:
    """Raise a ValueError for samples to which no density with a score can be fitted.

    Parameters
    ----------
    x : ndarray, shape (n, d)
        Finite.
    estimator : Estimator, optional
        Its ``feature_names_in_``, if any, name the columns in messages.
    weights : ndarray, shape (n,), optional
        Not negative; samples of weight zero do not count.

    Raises
    ------
    ValueError
        Fewer than two samples count, all of them are equal, or a column is constant (up to
        rounding): a density with all its mass in a plane has no gradient across it.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.checks import check_samples
    >>> check_samples(np.array([[0.0, 1.0], [1.0, 1.0]]))
    Traceback (most recent call last):
        ...
    ValueError: column 1 of X is constant, 1.0 in all 2 samples: no density has a score along it,
    leave it out
    """
    if weights is not None:
        x = x[weights > 0]
    n = len(x)
    if n < 2:
        raise ValueError(
            f"n_samples={n}: a score needs at least 2 samples"
            + ("" if weights is None else " of positive weight")
        )
    low, high = x.min(axis=0), x.max(axis=0)
    constant = high - low <= 4.0 * np.finfo(float).eps * np.maximum(np.abs(low), np.abs(high))
    if np.all(constant):
        raise ValueError(
            f"all {n} samples in X are equal, {x[0]}: a score needs at least 2 distinct ones"
        )
    if np.any(constant):
        j = int(np.argmax(constant))
        names = getattr(estimator, "feature_names_in_", None)
        name = "" if names is None else f" ({str(names[j])!r})"
        raise ValueError(
            f"column {j}{name} of X is constant, {x[0, j]} in all {n} samples: no density has a "
            "score along it, leave it out"
        )


def _number(name, value, expected):
    if not is_number(value):
        raise TypeError(f"{name}={value!r}: expected {expected}")
    return to_float(value)


def listed(names: Iterable[Any]) -> str:
    """Return names for a message, as they are written in code, with commas between them."""
    return ", ".join(map(repr, names)) or "nothing"
