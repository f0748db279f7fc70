"""Valid calls with one argument corrupted, and their permitted outcomes."""

from __future__ import annotations

import re
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from kmc.errors import EvaluationError

# for one call that takes milliseconds, on a crowded machine and with a function to compile
SECONDS = 60.0


class Frame:
    """The part of a data frame's interface that is used."""

    def __init__(self, data):
        self.columns, self._data = ["a", "b"], np.asarray(data)

    def __array__(self, dtype=None, copy=None):
        return self._data.astype(dtype or self._data.dtype)

    def __repr__(self):
        return f"Frame({self._data!r})"


class Unreadable:
    """Neither an array nor a truth value."""

    def __array__(self, dtype=None, copy=None):
        raise TypeError("no array")

    def __bool__(self):
        raise RuntimeError("neither true nor false")

    def __repr__(self):
        return "Unreadable()"


@dataclass(frozen=True)
class Case:
    """A valid call.

    Attributes
    ----------
    call : callable
        Of the arguments by name.
    arguments : mapping
    check : callable
        Fails for a result that is wrong for the arguments, which are given too; may raise the same
        errors as the call.
    also : mapping
        Other names under which a message can speak of an argument.
    costly : collection of str
        Arguments for which a large number means much work or memory, but is not an error.
    """

    name: str
    call: Callable[..., Any]
    arguments: Mapping[str, Any]
    check: Callable[[Any, Mapping[str, Any]], None]
    also: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    costly: frozenset[str] = frozenset()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(self.name)


class TooLong(BaseException):
    """Derived from BaseException, so that no ``except Exception`` hides it from the test."""


@contextmanager
def in_time(seconds: float = SECONDS) -> Iterator[None]:
    """Fail after this time, if the system can measure it."""
    if (
        not hasattr(signal, "setitimer")
        or threading.current_thread() is not threading.main_thread()
    ):
        yield
        return

    def late(number, frame):
        raise TooLong(f"after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def hold(case: Case, argument: str, value: Any) -> None:
    """Fail unless the corrupted call raises an error that names the argument, or gives a right
    result.
    """
    arguments = {**case.arguments, argument: value}
    with in_time(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # numbers that lose their imaginary parts
        warnings.simplefilter("error", np.exceptions.ComplexWarning)
        try:
            result = case.call(**arguments)
            case.check(result, arguments)
        except (ValueError, TypeError, EvaluationError) as error:
            names = (argument, *case.also.get(argument, ()))
            said = "\n".join([str(error), *getattr(error, "__notes__", ())])
            if not any(re.search(rf"\b{name}\b", said, re.IGNORECASE) for name in names):
                raise AssertionError(
                    f"{case.name}({argument}={value!r}): no word of it in {type(error).__name__}: "
                    f"{error}"
                ) from error


def finite(array: Any, shape: tuple[int, ...]) -> None:
    """Fail for another shape, and for NaN and infinity."""
    array = np.asarray(array)
    assert array.shape == shape and array.dtype.kind in "fiu", (array.shape, array.dtype)
    assert np.all(np.isfinite(array)), array


# Replacements of a valid value

NUMBERS = st.one_of(
    st.sampled_from(
        [
            0,
            -1,
            1,
            2,
            0.0,
            -0.0,
            0.5,
            -0.5,
            1.0,
            2.5,
            np.nan,
            np.inf,
            -np.inf,
            5e-324,
            1e-300,
            1e300,
        ]
    ),
    st.sampled_from(
        [10**30, -(10**30), 2**63, 10**400, np.int8(3), np.uint64(2), np.half(1), np.float32(0.5)]
    ),
    st.sampled_from(
        [
            np.array(2),
            np.array(0.5),
            1j,
            np.complex64(1),
            np.timedelta64(2, "s"),
            Fraction(1, 2),
            Decimal(1),
        ]
    ),
    st.integers(-4, 40),
    st.floats(width=32),
)

THINGS = st.sampled_from(
    [
        *(
            None,
            True,
            False,
            np.True_,
            "",
            "nonsense",
            "cv",
            "median",
            "auto",
            "gaussian",
            b"bytes",
            "2",
            "nan",
        ),
        *(
            (),
            [],
            {},
            set(),
            [[]],
            [None],
            [1, [2, 3]],
            ["a", "b"],
            {"a": 1},
            {1: 2},
            [{}],
            [1.0, np.nan],
            [0.5, 1.0],
        ),
        *(
            int,
            object(),
            len,
            Ellipsis,
            slice(None),
            range(3),
            np.ma.masked,
            np.datetime64("2020-01-01"),
        ),
        *(
            Unreadable(),
            np.array([]),
            np.array("a"),
            np.array(None),
            np.empty((0, 2)),
            np.zeros((2, 2)),
            np.ones(3),
        ),
    ]
)

ARRAYS = arrays.arrays(
    dtype=st.sampled_from(["f8", "f4", "i8", "u1", "?", "c16", "O", "U3", "M8[s]"]),
    shape=arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)


def _with(x, value):
    x = np.array(x, dtype=object if value is None else float)
    x.flat[x.size // 2] = value
    return x


def _read_only(x):
    x = x.copy()
    x.setflags(write=False)
    return x


CORRUPTIONS: dict[str, Callable[[np.ndarray], Any]] = {
    "NaN": lambda x: _with(x, np.nan),
    "infinite": lambda x: _with(x, np.inf),
    "huge": lambda x: x * 1e300,
    "large": lambda x: x * 1e160,
    "tiny": lambda x: x * 1e-300,
    "zero": lambda x: x * 0.0,
    "negative": lambda x: -np.abs(x),
    "far": lambda x: x + 1e9,
    "empty": lambda x: x[:0],
    "one row": lambda x: x[:1],
    "a row too few": lambda x: x[:-1],
    "a row too many": lambda x: np.concatenate([x, x[:1]]),
    "two rows": lambda x: x[:2],
    "equal rows": lambda x: np.repeat(x[:1], len(x), axis=0),
    "repeated rows": lambda x: np.concatenate([x[: len(x) // 2]] * 3)[: len(x)],
    "flat": np.ravel,
    "nested": lambda x: x[None],
    "with an axis more": lambda x: x[..., None],
    "transposed": lambda x: x.T,
    "a column less": lambda x: x[..., :-1],
    "a list": lambda x: x.tolist(),
    "ragged": lambda x: [*x.tolist()[:-1], []],
    "a generator": lambda x: (row for row in x),
    "of arrays": lambda x: list(x),
    "two of them": lambda x: [x, x],
    "strings": lambda x: x.astype(str),
    "words": lambda x: np.full(x.shape, "a"),
    "objects": lambda x: x.astype(object),
    "None inside": lambda x: _with(x, None),
    "complex": lambda x: x + 1j,
    "whole": lambda x: np.round(10 * x).astype(int),
    "truth values": lambda x: x > 0,
    "dates": lambda x: x.astype("M8[s]"),
    "float32": lambda x: x.astype(np.float32),
    "float16": lambda x: x.astype(np.float16),
    "long doubles": lambda x: x.astype(np.longdouble),
    "big-endian": lambda x: x.astype(">f8"),
    "Fortran": np.asfortranarray,
    "strided": lambda x: np.repeat(x, 2, axis=0)[::2],
    "reversed": lambda x: x[::-1],
    "read-only": _read_only,
    "masked": lambda x: np.ma.masked_array(x, x > 0),
    "unmasked": lambda x: np.ma.masked_array(x),
    "a matrix": lambda x: np.matrix(x),
    "a frame": Frame,
    "records": lambda x: np.zeros(x.shape, dtype=[("a", float)]),
}


@st.composite
def corrupted(draw: st.DrawFn, value: Any, costly: bool = False) -> Any:
    """An invalid value, often nearly valid."""
    kinds: list[Any] = [THINGS]
    if isinstance(value, np.ndarray):
        kinds += [ARRAYS] + 3 * [st.sampled_from(list(CORRUPTIONS))]
    else:
        kinds += 2 * [NUMBERS] if isinstance(value, (int, float)) else [NUMBERS, ARRAYS]
    found = draw(st.one_of(kinds))
    if isinstance(found, str) and found in CORRUPTIONS and isinstance(value, np.ndarray):
        with np.errstate(all="ignore"):
            found = CORRUPTIONS[found](value)
    return 7 if costly and _is_great(found) else found


@st.composite
def calls(draw: st.DrawFn, cases: list[Case]) -> tuple[Case, str, Any]:
    """A case, the argument that is corrupted, and its value."""
    case = draw(st.sampled_from(cases))
    argument = draw(st.sampled_from(list(case.arguments)))
    return case, argument, draw(corrupted(case.arguments[argument], argument in case.costly))


def _is_great(value):
    try:
        return bool(np.any(np.abs(np.asarray(value, dtype=complex)) > 50))
    except OverflowError:
        return True
    except (TypeError, ValueError):
        return False
