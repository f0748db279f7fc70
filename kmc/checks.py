"""Checks of options: the error names the option, its value and what was expected."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

MOST = 1e150  # its square, summed over any number of samples, does not overflow


def is_number(value: Any) -> bool:
    """A real number of Python or NumPy, but not a truth value or a time span."""
    return isinstance(value, (int, float, np.floating, np.integer)) and not isinstance(value, (bool, np.timedelta64))


def is_whole(value: Any) -> bool:
    """A whole number of Python or NumPy, but not a truth value or a time span."""
    return is_number(value) and isinstance(value, (int, np.integer))


def to_float(number: Any) -> float:
    """A number as a float: infinite for an integer beyond the range of floats."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def as_array(name: str, data: Any) -> np.ndarray:
    """Real numbers as a C-contiguous float64 array of any shape; it may be the input itself.

    Raises
    ------
    TypeError, ValueError
        Complex numbers, dates, masked entries, numbers beyond the range of floats, or no numbers.

    Examples
    --------
    >>> from kmc.checks import as_array
    >>> as_array("scale", [1, 2])
    array([1., 2.])
    >>> as_array("scale", ["a", "b"])
    Traceback (most recent call last):
        ...
    ValueError: scale does not convert to an array of numbers: could not convert string to float: ...
    """
    try:
        if np.ma.is_masked(data):
            raise ValueError("it has masked entries, drop or fill them first")
        array = np.asarray(data)
        kind = array.dtype.kind
        if kind not in "cmMV":
            return np.asarray(array, dtype=float, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        kind_of_error = TypeError if isinstance(error, TypeError) else ValueError
        raise kind_of_error(f"{name} does not convert to an array of numbers: {error}") from error
    if kind == "c":
        raise ValueError(f"Complex data not supported: {name} has dtype {array.dtype}, expected real numbers")
    raise TypeError(f"{name} has dtype {array.dtype}: expected real numbers")


def check_magnitude(name: str, x: np.ndarray) -> None:
    """ValueError for numbers whose squares, or sums of them, overflow."""
    greatest = float(np.abs(x).max(initial=0.0))
    if greatest > MOST:
        raise ValueError(f"{name} contains numbers of up to {greatest:g}: expected at most {MOST:g}, rescale the data")


def check_number(options: Any, name: str, low: float, high: float = np.inf, ends: str = "()") -> None:
    """Check a real number between ``low`` and ``high``; brackets in ``ends`` say which are included, as in "[)"."""
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
    value = getattr(options, name)
    expected = f"expected a whole number of at least {least}"
    if not is_whole(value):
        raise TypeError(f"{name}={value!r}: {expected}")
    if value < least:
        raise ValueError(f"{name}={value!r}: {expected}")


def check_choice(options: Any, name: str, choices: tuple[str, ...]) -> None:
    """Check that it is one of the words."""
    value = getattr(options, name)
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name}={value!r}: expected {' or '.join(map(repr, choices))}")


def numbers(name: str, value: Any, zero: bool) -> list[float]:
    """A positive finite number (or zero, if allowed) or a sequence of them, as a list."""
    expected = f"expected a {'non-negative' if zero else 'positive'} finite number or a sequence of them"
    try:
        array = np.atleast_1d(as_array(name, value))
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}={value!r}: {expected}") from error
    if value is None or isinstance(value, bool) or array.ndim != 1 or not array.size:
        raise TypeError(f"{name}={value!r}: {expected}")
    if not (np.all(np.isfinite(array)) and np.all(array >= 0 if zero else array > 0)):
        raise ValueError(f"{name}={value!r}: {expected}")
    return [float(number) for number in array]


def as_generator(random_state: Any) -> np.random.Generator:
    """A Generator from None, a whole number or a SeedSequence; a Generator is returned unchanged."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"random_state={random_state!r}: expected None, a non-negative whole number, a SeedSequence or a Generator"
        ) from error
