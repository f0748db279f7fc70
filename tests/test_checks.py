"""Each check says what it was given and what it takes."""

from types import SimpleNamespace

import numpy as np
import pytest

from kmc import arrays, checks


def options(**values):
    return SimpleNamespace(**values)


@pytest.mark.parametrize("value", [3, np.int8(3), 10**400])
def test_numbers_of_python_and_numpy(value):
    assert checks.is_number(value) and checks.is_whole(value)


@pytest.mark.parametrize("value", [True, np.bool_(True), "3", None, np.timedelta64(3), 3j, [3]])
def test_what_is_no_number(value):
    assert not checks.is_number(value)
    with pytest.raises(TypeError, match="^count=.*: expected a whole number of at least 1$"):
        checks.as_number("count", value, 1)
    with pytest.raises(TypeError, match=r"^share=.*: expected a number in \[0, 1\)$"):
        checks.check_number(options(share=value), "share", 0, 1, ends="[)")
    with pytest.raises(TypeError, match="^bandwidth=.*: expected a positive finite number$"):
        checks.length("bandwidth", value)


@pytest.mark.parametrize(("ends", "inside"), [("[]", [0, 1]), ("[)", [0]), ("(]", [1]), ("()", [])])
def test_ends_belong_where_the_brackets_say(ends, inside):
    for value in (0, 1):
        if value in inside:
            checks.check_number(options(share=value), "share", 0, 1, ends=ends)
        else:
            with pytest.raises(ValueError, match=f"^share={value}: expected a number in"):
                checks.check_number(options(share=value), "share", 0, 1, ends=ends)


def test_counts():
    checks.check_count(options(n=2), "n", 2)
    with pytest.raises(ValueError, match="^n=1: expected a whole number of at least 2$"):
        checks.check_count(options(n=1), "n", 2)
    assert checks.as_count("n", None, 2) is None and checks.as_count("n", np.int64(2), 2) == 2


def test_numbers_beyond_all_floats():
    assert checks.to_float(10**400) == np.inf and checks.to_float(-(10**400)) == -np.inf
    with pytest.raises(
        ValueError, match="x contains numbers of up to 1e\\+200: expected at most 1e\\+150"
    ):
        arrays.check_magnitude("x", np.array([1.0, -1e200]))


@pytest.mark.parametrize("value", [1e-31, 1e31])
def test_a_length_has_floating_point_powers(value):
    with pytest.raises(ValueError, match="from 1e-30 to 1e\\+30; rescale the data"):
        checks.length("bandwidth", value)


@pytest.mark.parametrize("value", [0, -1.0, np.inf, np.nan])
def test_seconds_are_positive(value):
    with pytest.raises(
        ValueError, match=f"^max_time={value!r}: expected a positive, finite number of seconds"
    ):
        checks.as_amount("max_time", value, "seconds")


def test_numbers_are_a_list():
    assert checks.numbers("r", np.array([1, 2]), zero=False) == [1.0, 2.0] and checks.numbers(
        "r", 0, zero=True
    ) == [0.0]
    with pytest.raises(
        ValueError, match="^r=0: expected a positive finite number or a sequence of them"
    ):
        checks.numbers("r", 0, zero=False)
