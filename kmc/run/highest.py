"""Of all evaluations of a run, the point of the highest log-density and the range of the function's values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kmc.targets.evaluate import Evaluation
from kmc.targets.model import Model
from kmc.targets.posterior import LOG_PRIOR, TOTAL

_FEWEST = 50  # values from which a density can be recognized
_NEAR_ZERO = 1e-3  # of the highest value
_ROUNDING = 1e-9  # of values from which a log-Jacobian was subtracted


class Highest:
    """The evaluated point of the highest log-density of the parameters: without log-Jacobians, where kmc adds them.

    Attributes
    ----------
    point : ndarray, shape (d,), or None
        Unconstrained; None before the first evaluation with a positive density.
    values : dict of str to float
        There, "log_density" and, if the model has its prior apart, "log_prior" and "total_log_likelihood".
    """

    def __init__(self, model: Model):
        self._model = model
        self.point: np.ndarray | None = None
        self.values: dict[str, float] = {}

    def note(self, points: np.ndarray, evaluations: Sequence[Evaluation]) -> None:
        """Record evaluations at points (k, d)."""
        if not len(evaluations):
            return
        values = constrained(self._model, points, np.array([evaluation.value for evaluation in evaluations]))
        i = int(np.argmax(np.where(np.isfinite(values), values, -np.inf)))
        if not np.isfinite(values[i]) or values[i] <= self.values.get("log_density", -np.inf):
            return
        blobs = evaluations[i].blobs or {}
        parts = {name: float(blobs[name]) for name in (LOG_PRIOR, TOTAL) if np.size(blobs.get(name, ())) == 1}
        self.point, self.values = points[i].copy(), {"log_density": float(values[i]), **parts}

    def facts(self) -> dict[str, Any]:
        """The parameters and values, for the results' attributes."""
        if self.point is None:
            return {}
        parameters = {name: value[0] for name, value in self._model.constrain(self.point[None]).items()}
        return {"best": {"parameters": parameters, **self.values}}


class ValueRange:
    """The range of what the user's function returned, without what kmc adds: a density is told from its logarithm.

    Attributes
    ----------
    low, high : float
        Of the values so far.
    n : int
        Their number.
    zero : bool
        Whether the density was zero anywhere, where a log-density is -inf.
    """

    def __init__(self, model: Model):
        self._model, self._apart = model, model.has_likelihood_apart
        self.low, self.high = np.inf, -np.inf
        self.n, self.zero = 0, False

    def note(self, points: np.ndarray, evaluations: Sequence[Evaluation]) -> None:
        """Record evaluations at points (k, d)."""
        if self.zero or self.low < -_ROUNDING or not len(evaluations):
            return  # a log-density
        values = np.array([evaluation.value for evaluation in evaluations])
        self.zero = bool(np.any(values == -np.inf))
        values = constrained(self._model, points, values)
        if self._apart:
            values = np.array([evaluation.blobs[TOTAL] for evaluation in evaluations if evaluation.blobs])
        values = values[np.isfinite(values)]
        self.low, self.high = values.min(initial=self.low), values.max(initial=self.high)
        self.n += len(values)

    @property
    def is_of_a_density(self) -> bool:
        """Whether the values are those of a density.

        They are never negative, and lie between 0 and 1 or come near 0: a log-density would be negative far from its
        mode. They are not all the same, as in a box, where a flat log-density may be 0.
        """
        if self.zero or self.n < _FEWEST or self.low < -_ROUNDING:
            return False
        rounding = 0.0 if self._model.parameters is None or self._apart else _ROUNDING
        return bool(self.high - self.low > rounding and (self.high <= 1.0 or self.low <= _NEAR_ZERO * self.high))

    def state(self) -> tuple[float, float, int, bool]:
        """All that :meth:`restore` needs."""
        return float(self.low), float(self.high), self.n, self.zero

    def restore(self, state: tuple[float, float, int, bool]) -> None:
        """Continue from a state."""
        self.low, self.high, self.n, self.zero = state


def constrained(model: Model, points: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The log-density of the parameters, from that of unconstrained vectors (k, d): without the log-Jacobian."""
    if model.parameters is None:
        return values
    with np.errstate(invalid="ignore"):  # -inf - -inf, far out
        return values - model.log_jacobian(points)
