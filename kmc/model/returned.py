"""Valid results of a log-density, and how its failures are passed on.

The valid results are real numbers and a dict of other results.
"""

from __future__ import annotations

import pickle
import traceback
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from kmc.errors import EvaluationError
from kmc.model.dimensions import RESERVED
from kmc.model.model import Model
from kmc.model.simulation import OUTPUTS, PREDICTIVE
from kmc.model.space import SpaceDefaults
from kmc.pickles import load_pickle

Blobs = dict[str, np.ndarray]

LOG_LIKELIHOOD = "log_likelihood"
"""The blob, or dict of blobs, that is the log-likelihood of each observation."""

GROUPS = (LOG_LIKELIHOOD, OUTPUTS, PREDICTIVE)
"""Groups of the results whose variables are blobs with the name of the group in front.

An example of such a blob is "log_likelihood.y".
"""


def number_of(returned: Any) -> float | None:
    """Convert a returned value to a float, or None if it is not one real number (a bool is not)."""
    values = _real(returned)
    return float(values.reshape(())) if values is not None and values.shape in ((), (1,)) else None


def numbers_of(returned: Any, k: int) -> np.ndarray | None:
    """Convert a returned value to k numbers, or None if it is not an array (k,) of real numbers."""
    values = _real(returned)
    return values.astype(np.float64) if values is not None and values.shape == (k,) else None


def as_blobs(model: Model, x: np.ndarray, blobs: dict[Any, Any], rows: int | None = None) -> Any:
    """Copy the blobs to a dict of arrays; with ``rows``, to a dict for each of so many rows.

    A dict under the name "log_likelihood" is split up: its "y" is the blob "log_likelihood.y".

    Raises
    ------
    EvaluationError
        A name is not a string or is that of a parameter; a value is not an array of numbers or has
        no row for each point.
    """
    arrays = {}
    for name, value in _one_by_one(blobs):
        _check_name(model, x, name)
        array = _array(value)
        if array is None or array.dtype.kind not in "biufc":
            what = f"log_density returned the blob {name!r}: {describe(value)}, expected numbers"
            raise failed_value(
                model,
                x,
                what,
                "return a number or an array of numbers, of the same shape at each call",
            )
        if rows is not None and array.shape[:1] != (rows,):
            what = (
                f"log_density returned the blob {name!r} of shape {array.shape}, "
                f"expected ({rows}, ...)"
            )
            raise failed_value(model, x, what, "vectorized=True means a row for each point")
        arrays[name] = array
    if rows is None:
        return arrays
    return [{name: array[i].copy() for name, array in arrays.items()} for i in range(rows)]


def group_of(name: str) -> tuple[str, str]:
    """Return the group of the results that a blob belongs to, and its name there.

    Examples
    --------
    >>> group_of("trajectory"), group_of("log_likelihood"), group_of("log_likelihood.y")
    (('blobs', 'trajectory'), ('log_likelihood', 'log_likelihood'), ('log_likelihood', 'y'))
    """
    if name == LOG_LIKELIHOOD:
        return LOG_LIKELIHOOD, name
    group, _, variable = name.partition(".")
    return (group, variable) if group in GROUPS and "." in name else ("blobs", name)


def describe(returned: Any) -> str:
    """Describe a value for an error message."""
    kind = type(returned).__name__
    if isinstance(returned, np.ndarray):
        masked = ", with masked entries" if np.ma.is_masked(returned) else ""
        article = "an" if kind == "ndarray" else "a"
        return f"{article} {kind} of shape {returned.shape} and dtype {returned.dtype}{masked}"
    text = repr(returned)
    return f"{text if len(text) <= 80 else text[:77] + '...'} ({kind})"


@dataclass(frozen=True)
class Failure:
    """An EvaluationError that can be pickled, whatever its cause.

    Attributes
    ----------
    error : EvaluationError
    cause : bytes or None
        The exception of the user's function, pickled if that is possible.
    """

    error: EvaluationError
    cause: bytes | None = None

    @classmethod
    def of(cls, error: EvaluationError) -> Failure:
        """Make a failure from an error that was caught where the function ran.

        Its traceback becomes a note.
        """
        if error.__cause__ is None:
            return cls(error)
        error.add_note("".join(traceback.format_exception(error.__cause__)))
        try:
            cause = pickle.dumps(error.__cause__)
        # an exception may hold anything: a file, a lock, a class that cannot be imported
        except Exception:
            cause = None
        return cls(error, cause)

    def throw(self) -> NoReturn:
        """Raise the error, with its cause if that can be restored."""
        try:
            cause = None if self.cause is None else load_pickle(self.cause, trust=True)
        # its class cannot be imported here, or its __init__ takes arguments other than its args
        except Exception:
            cause = None
        raise self.error from cause


def raised(model: Model, x: np.ndarray, error: BaseException) -> EvaluationError:
    """Return the error for an exception of the user's function at x, (d,) or (k, d)."""
    reason = f"{type(error).__name__}: {_words(error)}"
    function = "log_density" if model.simulation is None else "simulator"
    return failed_call(
        model,
        x,
        f"{function} raised {reason}",
        "fix it, return -inf where the density is zero",
        reason=reason,
    )


def failed_call(
    model: Model, x: np.ndarray, what: str, remedy: str, *, reason: str
) -> EvaluationError:
    """Return the error for a call at x, (d,) or (k, d), that gave no result."""
    failed = failed_value(model, x, what, f"{remedy}, {_skipping(model, 'on_error')}")
    failed.reason = reason
    return failed


def not_finite(model: Model, x: np.ndarray, value: float) -> EvaluationError:
    """Return the error for NaN or +inf at x (d,)."""
    if np.isnan(value):
        name, remedy = "NaN", "return -inf where the density is zero"
    else:
        name, remedy = "+inf", "a density is finite, so check for an overflow or a division by zero"
    what = f"log_density returned {name}, expected a finite number or -inf"
    return failed_value(model, x, what, f"{remedy}, {_skipping(model, 'nonfinite')}")


def _skipping(model: Model, option: str) -> str:
    """Return the advice to make the model once more, so that it rejects such points."""
    given = "parameters=..." if model.named else f"dim={model.dim}"
    function = "log_density" if model.simulation is None else "simulator=..., likelihood=..."
    made = model.space.made_by if isinstance(model.space, SpaceDefaults) else None
    made = made or f"kmc.Model({function}, {given}"
    return f'or treat such points as having zero density: sample {made}, {option}="reject")'


def failed_value(model: Model, x: np.ndarray, what: str, remedy: str) -> EvaluationError:
    """Return the error for an invalid value at x, (d,) or (k, d)."""
    if not np.all(np.isfinite(x)):  # the function is not to blame
        remedy = (
            "kmc's arithmetic overflowed: rescale the parameters so that their standard deviations "
            "are near 1"
        )
    parameters = _by_name(model, x)
    where = f"x = {_format(x)}" if parameters is None else _named(parameters)
    return EvaluationError(
        f"{what}, at {where}; {remedy}", position=x.copy(), parameters=parameters
    )


def _one_by_one(blobs):
    for name, value in blobs.items():
        if name == LOG_LIKELIHOOD and isinstance(value, dict):
            yield from (
                (f"{name}.{part}" if isinstance(part, str) else part, one)
                for part, one in value.items()
            )
        else:
            yield name, value


def _check_name(model: Model, x: np.ndarray, name: Any) -> None:
    if not isinstance(name, str):
        raise failed_value(
            model, x, f"log_density returned a blob named {name!r}", "names are strings"
        )
    if name in model.dims or name in model.coords or group_of(name)[1] in RESERVED:
        what = (
            f"log_density returned a blob named {name!r}, "
            "which is the name of a parameter or of a dimension"
        )
        raise failed_value(model, x, what, "give it another name")
    if not group_of(name)[1] or "/" in name:
        what = f"log_density returned a blob named {name!r}"
        raise failed_value(model, x, what, "give it a name that is not empty and has no '/' in it")


def _real(returned: Any) -> np.ndarray | None:
    array = _array(returned)
    return array if array is not None and array.dtype.kind in "fiu" else None


def _array(value: Any) -> np.ndarray | None:
    if np.ma.is_masked(value):  # NumPy converts masked entries to what is below the mask
        return None
    try:
        return np.asarray(value).copy()  # torch does not support `copy` in __array__
    except Exception:  # lists of unequal length, tensors that stay on their device, ...
        return None


def _by_name(model: Model, x: np.ndarray) -> dict[str, Any] | None:
    """Return the parameters by name, or None if they have no names or cannot be computed."""
    if not model.named:
        return None
    try:
        values = model.constrain(np.atleast_2d(x))
    except Exception:  # this may be the failure itself
        return None
    return values if x.ndim == 2 else {name: value[0] for name, value in values.items()}


def _named(parameters: dict[str, Any]) -> str:
    return ", ".join(f"{name} = {_format(value)}" for name, value in parameters.items())


def _words(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # raised by the exception's own class
        return "(no message, as its __str__ failed)"


def _format(x: Any) -> str:
    with np.printoptions(precision=8, threshold=50, linewidth=10**6):
        return np.array2string(np.asarray(x), separator=", ").replace("\n", "")
