"""Checks of options: the error names the option, its value and what was expected."""

from __future__ import annotations

from typing import Any

import numpy as np


def check_number(options: Any, name: str, low: float, high: float = np.inf, ends: str = "()") -> None:
    """A real number between ``low`` and ``high``; ``ends`` says with brackets which of them belong, as in "[)"."""
    value = getattr(options, name)
    expected = f"expected a number in {ends[0]}{low:g}, {high:g}{ends[1]}"
    if not isinstance(value, (int, float, np.number)) or isinstance(value, bool):
        raise TypeError(f"{name}={value!r}: {expected}")
    above = value >= low if ends[0] == "[" else value > low
    below = value <= high if ends[1] == "]" else value < high
    if not (above and below):
        raise ValueError(f"{name}={value!r}: {expected}")


def check_count(options: Any, name: str, least: int) -> None:
    """A whole number of at least ``least``."""
    value = getattr(options, name)
    expected = f"expected a whole number of at least {least}"
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
        raise TypeError(f"{name}={value!r}: {expected}")
    if value < least:
        raise ValueError(f"{name}={value!r}: {expected}")


def check_choice(options: Any, name: str, choices: tuple[str, ...]) -> None:
    """One of the words."""
    value = getattr(options, name)
    if value not in choices:
        raise ValueError(f"{name}={value!r}: expected {' or '.join(map(repr, choices))}")


def numbers(name: str, value: Any, zero: bool) -> list[float]:
    """A positive finite number (or zero, where that is allowed) or a sequence of them, as a list."""
    expected = f"expected a {'non-negative' if zero else 'positive'} finite number or a sequence of them"
    try:
        array = np.atleast_1d(np.asarray(value, dtype=float))
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}={value!r}: {expected}") from error
    if value is None or isinstance(value, bool) or array.ndim != 1 or not array.size:
        raise TypeError(f"{name}={value!r}: {expected}")
    if not (np.all(np.isfinite(array)) and np.all(array >= 0 if zero else array > 0)):
        raise ValueError(f"{name}={value!r}: {expected}")
    return [float(number) for number in array]


def as_generator(random_state: Any) -> np.random.Generator:
    """A Generator from None, a whole number, a SeedSequence or a Generator, which is used as it is."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"random_state={random_state!r}: expected None, a non-negative whole number, a SeedSequence or a Generator"
        ) from error
