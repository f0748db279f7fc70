"""Calls of the user's log-density: counted, checked and isolated from our own arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kmc.errors import EvaluationError
from kmc.targets.model import Model


class Evaluator:
    """Evaluates a model's log-density at rows of points.

    Attributes
    ----------
    model : Model
    n_evaluations : int
        Calls made so far, those that failed included.
    """

    def __init__(self, model: Model):
        self.model = model
        self.n_evaluations = 0

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """The log-density at each of the points, in order.

        Parameters
        ----------
        points : ndarray, shape (k, d)

        Returns
        -------
        ndarray, shape (k,)
            Finite or ``-inf``.

        Raises
        ------
        EvaluationError
            The log-density raised an exception, or returned something other than a real number below ``+inf``. The
            points after that one are not evaluated.
        """
        values = np.empty(len(points))
        for i, x in enumerate(np.asarray(points, dtype=np.float64)):
            values[i] = self._evaluate(x)
        return values

    def _evaluate(self, x: np.ndarray) -> float:
        self.n_evaluations += 1
        try:
            returned = self.model.call(x.copy())  # a copy: the function may keep it or write to it
        except Exception as error:
            message = f"log_density raised {type(error).__name__}: {error}"
            raise _failure(message, x, "repair it, or return -inf where the density is zero") from error
        value = _real(returned)
        if value is None:
            message = f"log_density returned {_describe(returned)}, expected a real number"
            raise _failure(message, x, "return a Python float, a NumPy scalar or an array of shape ()")
        if math.isnan(value):
            if self.model.nonfinite == "reject":
                return -math.inf
            remedy = 'return -inf where the density is zero, or pass kmc.Model(..., nonfinite="reject")'
            raise _failure("log_density returned NaN, expected a finite number or -inf", x, remedy)
        if value == math.inf:
            remedy = "a density is finite: look for an overflow or a division by zero"
            raise _failure("log_density returned +inf, expected a finite number or -inf", x, remedy)
        return value + self.model.log_jacobian(x)


def _real(returned: Any) -> float | None:
    """The number that was returned, or None for anything that is not one real number (a bool is not)."""
    if type(returned) is float:
        return returned
    try:
        array = np.asarray(returned)
    except Exception:  # lists of unequal length, tensors that refuse to leave their device, ...
        return None
    return float(array) if array.ndim == 0 and array.dtype.kind in "fiu" else None


def _failure(what: str, x: np.ndarray, remedy: str) -> EvaluationError:
    return EvaluationError(f"{what}, at x = {_format(x)}; {remedy}", position=x.copy())


def _describe(returned: Any) -> str:
    kind = type(returned).__name__
    if isinstance(returned, np.ndarray):
        return f"an {kind} of shape {returned.shape} and dtype {returned.dtype}"
    text = repr(returned)
    return f"{text if len(text) <= 80 else text[:77] + '...'} ({kind})"


def _format(x: np.ndarray) -> str:
    with np.printoptions(precision=8, threshold=50, linewidth=10**6):
        return np.array2string(x, separator=", ")
