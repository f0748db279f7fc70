"""What a log-density may return: real numbers, and a dict of what it computed besides."""

from __future__ import annotations

from typing import Any

import numpy as np

from kmc.targets.failures import failed_value
from kmc.targets.model import Model

Blobs = dict[str, np.ndarray]

_RESERVED = ("chain", "draw")


def as_number(returned: Any) -> float | None:
    """The number that was returned, or None for anything that is not one real number (a bool is not)."""
    values = _real(returned)
    return float(values) if values is not None and values.ndim == 0 else None


def as_numbers(returned: Any, k: int) -> np.ndarray | None:
    """The k numbers that were returned, or None for anything that is not an array of shape (k,)."""
    values = _real(returned)
    return values.astype(np.float64) if values is not None and values.shape == (k,) else None


def as_blobs(model: Model, x: np.ndarray, blobs: dict[Any, Any], rows: int | None = None) -> Any:
    """Copies of the blobs as arrays; with ``rows``, a dict for each of the first indices.

    Raises
    ------
    EvaluationError
        A name is not a string or is that of a parameter; a value is not an array of numbers or has no row for each
        point.
    """
    arrays = {}
    for name, value in blobs.items():
        if not isinstance(name, str):
            raise failed_value(model, x, f"log_density returned a blob named {name!r}", "names are strings")
        if name in model.dims or name in model.coords or name in _RESERVED:
            what = f"log_density returned a blob named {name!r}, which is the name of a parameter or of a dimension"
            raise failed_value(model, x, what, "give it another name")
        array = _array(value)
        if array is None or array.dtype.kind not in "biufc":
            what = f"log_density returned the blob {name!r}: {describe(value)}, expected numbers"
            raise failed_value(model, x, what, "return a number or an array of numbers, of the same shape at each call")
        if rows is not None and array.shape[:1] != (rows,):
            what = f"log_density returned the blob {name!r} of shape {array.shape}, expected ({rows}, ...)"
            raise failed_value(model, x, what, "vectorized=True means a row for each point")
        arrays[name] = array
    if rows is None:
        return arrays
    return [{name: array[i].copy() for name, array in arrays.items()} for i in range(rows)]


def describe(returned: Any) -> str:
    """A value in an error message."""
    kind = type(returned).__name__
    if isinstance(returned, np.ndarray):
        return f"an {kind} of shape {returned.shape} and dtype {returned.dtype}"
    text = repr(returned)
    return f"{text if len(text) <= 80 else text[:77] + '...'} ({kind})"


def _real(returned: Any) -> np.ndarray | None:
    array = _array(returned)
    return array if array is not None and array.dtype.kind in "fiu" else None


def _array(value: Any) -> np.ndarray | None:
    try:
        return np.asarray(value).copy()  # torch knows no `copy` of __array__
    except Exception:  # lists of unequal length, tensors that refuse to leave their device, ...
        return None
