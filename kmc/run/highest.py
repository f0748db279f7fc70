"""The evaluated point of the highest log-density."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kmc.targets.evaluate import Evaluation
from kmc.targets.model import Model
from kmc.targets.posterior import LOG_PRIOR, TOTAL


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


def constrained(model: Model, points: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The log-density of the parameters, from that of unconstrained vectors (k, d): without the log-Jacobian."""
    if model.parameters is None:
        return values
    with np.errstate(invalid="ignore"):  # -inf - -inf, far out
        return values - model.log_jacobian(points)
