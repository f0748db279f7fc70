"""Failures of the user's function: error messages, and transport from one process to another."""

from __future__ import annotations

import pickle
import traceback
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from kmc.errors import EvaluationError
from kmc.targets.model import Model


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
        """From an error that was caught where the function ran; its traceback becomes a note."""
        if error.__cause__ is None:
            return cls(error)
        error.add_note("".join(traceback.format_exception(error.__cause__)))
        try:
            cause = pickle.dumps(error.__cause__)
        except Exception:  # an exception may hold anything: a file, a lock, a class that cannot be imported
            cause = None
        return cls(error, cause)

    def throw(self) -> NoReturn:
        """Raise it."""
        try:
            cause = None if self.cause is None else pickle.loads(self.cause)
        except Exception:  # its class cannot be imported here, or its __init__ takes arguments other than its args
            cause = None
        raise self.error from cause


def failed_call(model: Model, x: np.ndarray, error: BaseException) -> EvaluationError:
    """The error for an exception of the user's function at x, (d,) or (k, d)."""
    message = f"log_density raised {type(error).__name__}: {_words(error)}"
    return failed_value(model, x, message, "fix it, or return -inf where the density is zero")


def failed_value(model: Model, x: np.ndarray, what: str, remedy: str) -> EvaluationError:
    """The error for an invalid value at x, (d,) or (k, d)."""
    parameters = _by_name(model, x)
    where = f"x = {_format(x)}" if parameters is None else _named(parameters)
    return EvaluationError(f"{what}, at {where}; {remedy}", position=x.copy(), parameters=parameters)


def _by_name(model: Model, x: np.ndarray) -> dict[str, Any] | None:
    """The parameters in the form that the function received."""
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
