"""Arrays of users, of any library, as arrays of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

MOST = 1e150  # its square, summed over any number of samples, does not overflow


def to_numpy(a: Any) -> np.ndarray:
    """Return an array of any library as a NumPy array, copied from its device where needed."""
    library = type(a).__module__.partition(".")[0]
    if library == "torch" and hasattr(a, "detach"):
        return a.detach().cpu().numpy()
    return a.get() if library == "cupy" else np.asarray(a)


def as_array(name: str, data: Any) -> np.ndarray:
    """Return real numbers as a C-contiguous float64 array of any shape; it may be the input itself.

    Raises
    ------
    TypeError, ValueError
        Complex numbers, dates, masked entries, numbers beyond the range of floats, or no numbers.

    Examples
    --------
    >>> from kmc.arrays import as_array
    >>> as_array("scale", [1, 2])
    array([1., 2.])
    >>> as_array("scale", ["a", "b"])
    Traceback (most recent call last):
        ...
    ValueError: scale does not convert to an array of numbers: could not convert string to float:
    ...
    """
    try:
        if np.ma.is_masked(data):
            raise ValueError("it has masked entries, drop or fill them first")
        array = to_numpy(data)
        kind = array.dtype.kind
        if kind not in "cmMV":
            return np.asarray(array, dtype=float, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        kind_of_error = TypeError if isinstance(error, TypeError) else ValueError
        raise kind_of_error(f"{name} does not convert to an array of numbers: {error}") from error
    if kind == "c":
        raise ValueError(
            f"Complex data not supported: {name} has dtype {array.dtype}, expected real numbers"
        )
    raise TypeError(f"{name} has dtype {array.dtype}: expected real numbers")


def check_magnitude(name: str, x: np.ndarray) -> None:
    """Raise a ValueError for numbers whose squares, or sums of them, overflow."""
    greatest = float(max(np.max(x, initial=0.0), -np.min(x, initial=0.0)))
    if greatest > MOST:
        raise ValueError(
            f"{name} contains numbers of up to {greatest:g}: expected at most {MOST:g}, rescale "
            f"the data"
        )
