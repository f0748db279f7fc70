"""Summarize all evaluations of a run: the highest, the range of values, and the rejected ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kmc.model.evaluate import Evaluation
from kmc.model.model import Model
from kmc.model.posterior import LOG_PRIOR, TOTAL
from kmc.run.trace import constrained

_FEWEST = 50  # values from which a density can be recognized
_NEAR_ZERO = 1e-3  # of the highest value
_ROUNDING = 1e-9  # of values from which a log-Jacobian was subtracted

_KEPT = 1000  # points of each kind
_SHOWN = 20  # rejected points in the results
_NAMED = 2  # reasons in a sentence
_LONGEST = 100  # characters of a reason
_LARGEST_SHARE = 0.2  # of the other evaluations on that side of a border
# that rejected points, if they were like the others, all lie beyond some border
_LARGEST_CHANCE = 0.01
_NEAR = 0.95  # of the draws are as near to their mean as points that are near the draws


class EvaluationSummary:
    """All evaluations of a run, in brief.

    Attributes
    ----------
    highest : Highest
    range : ValueRange
    rejected : Rejected
    """

    def __init__(self, model: Model):
        self.highest, self.range, self.rejected = Highest(model), ValueRange(model), Rejected(model)

    def note(self, points: np.ndarray, evaluations: Sequence[Evaluation]) -> None:
        """Record evaluations at points (k, d)."""
        for part in (self.highest, self.range, self.rejected):
            part.note(points, evaluations)

    def state(self) -> dict[str, Any]:
        """Return all that :meth:`restore` needs."""
        return {
            "highest": (self.highest.point, self.highest.values),
            "range": self.range.state(),
            "rejected": self.rejected.state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a state."""
        self.highest.point, self.highest.values = state["highest"]
        self.range.restore(state["range"])
        self.rejected.restore(state["rejected"])


class Highest:
    """The evaluated point of the parameters' highest log-density.

    The log-density is without log-Jacobians, where kmc adds them.

    Attributes
    ----------
    point : ndarray, shape (d,), or None
        Unconstrained; None before the first evaluation with a positive density.
    values : dict of str to float
        There, "log_density" and, if the model has its prior apart, "log_prior" and
        "total_log_likelihood".
    """

    def __init__(self, model: Model):
        self._model = model
        self.point: np.ndarray | None = None
        self.values: dict[str, float] = {}

    def note(self, points: np.ndarray, evaluations: Sequence[Evaluation]) -> None:
        """Record evaluations at points (k, d)."""
        if not len(evaluations):
            return
        values = constrained(
            self._model, points, np.array([evaluation.value for evaluation in evaluations])
        )
        i = int(np.argmax(np.where(np.isfinite(values), values, -np.inf)))
        if not np.isfinite(values[i]) or values[i] <= self.values.get("log_density", -np.inf):
            return
        blobs = evaluations[i].blobs or {}
        parts = {
            name: float(blobs[name])
            for name in (LOG_PRIOR, TOTAL)
            if np.size(blobs.get(name, ())) == 1
        }
        self.point, self.values = points[i].copy(), {"log_density": float(values[i]), **parts}

    def facts(self) -> dict[str, Any]:
        """Return the parameters and values for the results' attributes; empty without a point."""
        if self.point is None:
            return {}
        parameters = {
            name: value[0] for name, value in self._model.constrain(self.point[None]).items()
        }
        return {"best": {"parameters": parameters, **self.values}}


class ValueRange:
    """The range of what the user's function returned, without what kmc adds.

    It tells a density from its logarithm.

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
            values = np.array(
                [evaluation.blobs[TOTAL] for evaluation in evaluations if evaluation.blobs]
            )
        values = values[np.isfinite(values)]
        self.low, self.high = values.min(initial=self.low), values.max(initial=self.high)
        self.n += len(values)

    @property
    def is_of_a_density(self) -> bool:
        """Whether the values are those of a density.

        They are never negative, and lie between 0 and 1 or come near 0: a log-density would be
        negative far from its mode. They are not all the same, as in a box, where a flat log-density
        may be 0.
        """
        if self.zero or self.n < _FEWEST or self.low < -_ROUNDING:
            return False
        rounding = 0.0 if self._model.parameters is None or self._apart else _ROUNDING
        return bool(
            self.high - self.low > rounding
            and (self.high <= 1.0 or self.low <= _NEAR_ZERO * self.high)
        )

    def state(self) -> tuple[float, float, int, bool]:
        """Return all that :meth:`restore` needs."""
        return float(self.low), float(self.high), self.n, self.zero

    def restore(self, state: tuple[float, float, int, bool]) -> None:
        """Continue from a state."""
        self.low, self.high, self.n, self.zero = state


@dataclass(frozen=True)
class Rejections:
    """Rejected evaluations, in numbers and words.

    Attributes
    ----------
    n_nonfinite, n_failed, n_evaluations : int
        Evaluations that gave NaN or ``+inf``, calls that failed, and all evaluations.
    near : float
        The rejected part of the evaluations near the draws.
    reasons : str
        The most frequent ones of failed calls, each with its number; if there are none, of other
        values.
    common : str
        Which parameter sets them apart from the other evaluations; empty if none does.
    """

    n_nonfinite: int = 0
    n_failed: int = 0
    n_evaluations: int = 0
    near: float = 0.0
    reasons: str = ""
    common: str = ""


NONE = Rejections()


class Rejected:
    """Record the evaluations of a run, and tell about the rejected ones.

    Attributes
    ----------
    n_nonfinite, n_failed : int
        Evaluations that gave NaN or ``+inf``, and calls that failed.
    """

    def __init__(self, model: Model):
        self._model = model
        self.n_nonfinite = self.n_failed = 0
        self._counts: dict[str, int] = {}  # by the kind of the reason
        self._first: dict[str, str] = {}  # reason of that kind
        self._points, self._others = _Thinned(), _Thinned()
        self._reasons = _Thinned()
        # of all rejected points, by scalar
        self._low, self._high = np.array(np.inf), np.array(-np.inf)

    def note(self, points: np.ndarray, evaluations: Sequence[Evaluation]) -> None:
        """Record evaluations at points (k, d)."""
        rejected = []
        for i, (x, evaluation) in enumerate(zip(points, evaluations, strict=True)):
            if evaluation.value < math.inf:
                self._others.add(x)
                continue
            rejected.append(i)
            self.n_failed += bool(evaluation.failure)
            self.n_nonfinite += not evaluation.failure
            reason = evaluation.failure or ("NaN" if math.isnan(evaluation.value) else "+inf")
            reason = reason if len(reason) <= _LONGEST else f"{reason[: _LONGEST - 3]}..."
            kind = reason.split(":")[0]
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._first.setdefault(kind, reason)
            self._points.add(x)
            self._reasons.add(reason)
        if rejected:
            values = _scalars(self._model, points[rejected])[1]
            self._low, self._high = (
                np.fmin(self._low, values.min(axis=0)),
                np.fmax(self._high, values.max(axis=0)),
            )

    def summary(self, draws: np.ndarray, n_evaluations: int) -> Rejections:
        """Tell about a run with these draws (n, d), possibly none, and so many evaluations."""
        failures = self._counts.keys() - {"NaN", "+inf"} or self._counts
        reasons = sorted(failures, key=lambda kind: (-self._counts[kind], kind))
        listed = [f"{self._counts[kind]} times {self._first[kind]}" for kind in reasons[:_NAMED]]
        return Rejections(
            self.n_nonfinite,
            self.n_failed,
            n_evaluations,
            self._share_near(draws),
            ", ".join(listed + ["..."] * (len(reasons) > _NAMED)),
            self._common(),
        )

    def facts(self, draws: np.ndarray) -> dict[str, Any]:
        """Return numbers and some points for the results' attributes.

        The nearest to the draws (n, d) come first.
        """
        found: dict[str, Any] = {"n_nonfinite": self.n_nonfinite, "n_failed": self.n_failed}
        points = self._points.array()
        if len(points):
            order = np.argsort(_distances(draws, points)[0], kind="stable")[:_SHOWN]
            found["rejected"] = [
                {"parameters": _parameters(self._model, points[i]), "reason": self._reasons.rows[i]}
                for i in order
            ]
        return found

    def state(self) -> dict[str, Any]:
        """Return all that :meth:`restore` needs."""
        thinned = {
            name: vars(getattr(self, name)).copy() for name in ("_points", "_others", "_reasons")
        }
        kept = ("n_nonfinite", "n_failed", "_counts", "_first", "_low", "_high")
        return {**thinned, **{name: getattr(self, name) for name in kept}}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a state."""
        for name, value in state.items():
            if name in ("_points", "_others", "_reasons"):
                vars(getattr(self, name)).update(value)
            else:
                setattr(self, name, value)

    def _share_near(self, draws: np.ndarray) -> float:
        points, others = self._points.array(), self._others.array()
        if not (len(points) and len(others) and len(draws)):
            return 0.0
        distances, limit = _distances(draws, np.vstack([points, others]))
        near = distances <= limit
        rejected = self._points.n * float(near[: len(points)].mean())
        kept = self._others.n * float(near[len(points) :].mean())
        return rejected / max(rejected + kept, 1.0)

    def _common(self) -> str:
        """Find the scalar with the fewest others beyond the border of the rejected evaluations."""
        n, others = self._points.n, self._others.array()
        if not (n and len(others)):
            return ""
        labels, values = _scalars(self._model, others)
        above, below = np.mean(values >= self._low, axis=0), np.mean(values <= self._high, axis=0)
        i, j = int(np.argmin(above)), int(np.argmin(below))
        upper = above[i] <= below[j]
        share = float(above[i] if upper else below[j])
        if share > _LARGEST_SHARE or 2 * len(labels) * share**n > _LARGEST_CHANCE:
            return ""
        border = (
            f"{labels[i]} > {_rounded(self._low[i], -1)}"
            if upper
            else f"{labels[j]} < {_rounded(self._high[j], 1)}"
        )
        rest = (
            f", as do {share:.0%} of the other evaluations"
            if share
            else ", and no other evaluation has"
        )
        return f"all of them have {border}{rest}"


class _Thinned:
    """Rows, evenly along the run: every second one is left out each time that they are too many."""

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self.n, self.every = 0, 1

    def add(self, row: Any) -> None:
        """Take in a row, or count it only."""
        if self.n % self.every == 0:
            self.rows.append(row.copy() if isinstance(row, np.ndarray) else row)
            if len(self.rows) > _KEPT:
                self.rows, self.every = self.rows[::2], 2 * self.every
        self.n += 1

    def array(self) -> np.ndarray:
        """Return the rows as an array (k, d)."""
        return np.array(self.rows)


def _distances(draws: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, float]:
    """Return distances (k,) of points (k, d) from the mean of the draws, and that of near ones.

    Distances are in the metric of the draws.
    """
    if not len(draws):
        return np.zeros(len(points)), 0.0
    mean, (n, d) = draws.mean(axis=0), draws.shape
    variance = draws.var(axis=0) + np.finfo(float).tiny
    scaled = (draws - mean) / np.sqrt(variance)
    metric = scaled.T @ scaled / n + d / n * np.eye(d)  # few draws do not tell correlations
    factor = np.linalg.cholesky(metric)

    def lengths(x: np.ndarray) -> np.ndarray:
        return np.linalg.norm(np.linalg.solve(factor, ((x - mean) / np.sqrt(variance)).T), axis=0)

    return lengths(points), float(np.quantile(lengths(draws), _NEAR))


def _scalars(model: Model, points: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Return labels and values (n, m) of all scalars at vectors (n, d).

    They are the coordinates of the vector if only a space knows its meaning, which may fail where
    the function does.
    """
    if model.space is not None:
        return [f"coordinate {i} of the unconstrained vector" for i in range(model.dim)], points
    values = model.constrain(points)
    labels = []
    for name, value in values.items():
        labels += [
            f"{name}[{', '.join(map(str, index))}]" if index else name
            for index in np.ndindex(value.shape[1:])
        ]
    return labels, np.concatenate(
        [value.reshape(len(points), -1) for value in values.values()], axis=1
    )


def _parameters(model: Model, x: np.ndarray) -> dict[str, Any]:
    if model.space is not None:
        return {"x": x}
    return {name: value[0] for name, value in model.constrain(x[None]).items()}


def _rounded(number: float, direction: int) -> str:
    """Return a number of three digits, rounded down (-1) or up (1).

    Examples
    --------
    >>> _rounded(3.2013, -1), _rounded(-0.12345, 1)
    ('3.2', '-0.123')
    """
    if number == 0 or not np.isfinite(number):
        return f"{number:.3g}"
    unit = 10.0 ** (math.floor(math.log10(abs(number))) - 2)
    return f"{(math.floor if direction < 0 else math.ceil)(number / unit) * unit:.3g}"
