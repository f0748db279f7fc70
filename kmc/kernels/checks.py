"""Checks of the parameters of kernels: the error names the parameter, its value and what was expected."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from kmc.checks import is_number, to_float

LEAST, MOST = 1e-30, 1e30  # lengths whose eighth powers neither overflow nor underflow
LEAST_SHAPE = 1e-6  # the same after division by it


def positive(name: str, value: Any) -> float:
    """A positive finite number, as a float."""
    number = _number(name, value, "a positive finite number")
    if not 0.0 < number < np.inf:
        raise ValueError(f"{name}={value!r}: expected a positive finite number")
    return number


def length(name: str, value: Any) -> float:
    """A positive number that can be used as a unit of length."""
    number = positive(name, value)
    if not LEAST <= number <= MOST:
        raise ValueError(
            f"{name}={value!r}: expected a positive finite number from {LEAST:g} to {MOST:g}; rescale the data"
        )
    return number


def shape(name: str, value: Any) -> float:
    """A positive number that multiplies squares of lengths."""
    number = positive(name, value)
    if not LEAST_SHAPE <= number <= MOST:
        raise ValueError(f"{name}={value!r}: expected a positive finite number from {LEAST_SHAPE:g} to {MOST:g}")
    return number


def not_negative(name: str, value: Any) -> float:
    """A finite number that is not negative, as a float."""
    number = _number(name, value, "a finite number that is not negative")
    if not 0.0 <= number < np.inf:
        raise ValueError(f"{name}={value!r}: expected a finite number that is not negative")
    return number


def derivative_order(order: Any) -> int:
    """An order of differentiation, 0 to 4."""
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


def _number(name, value, expected):
    if not is_number(value):
        raise TypeError(f"{name}={value!r}: expected {expected}")
    return to_float(value)
