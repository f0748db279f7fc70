"""Calls of the user's log-density: counted, checked and isolated from kmc's own arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from kmc.errors import EvaluationError
from kmc.targets.model import Model
from kmc.targets.posterior import Posterior, with_declared
from kmc.targets.returned import Blobs, Failure, as_blobs, describe, failed_call, failed_value, number_of, numbers_of


class Evaluation(NamedTuple):
    """The result at one point."""

    value: float  # the log-density of the unconstrained vector: finite, -inf, or NaN if the model rejects it
    blobs: Blobs | None = None  # further outputs of the function; None where the density is zero


Mapper = Callable[[np.ndarray], Sequence[Evaluation | Failure]]
"""Evaluates points (k, d) elsewhere: returns an evaluation or a failure for each."""


@runtime_checkable
class Stream(Protocol):
    """What a mapper may have besides: evaluations that are returned one by one, in the order in which they end."""

    def submit(self, key: int, x: np.ndarray) -> None:
        """Begin the evaluation at x (d,), without waiting for it."""

    def ready(self) -> list[tuple[int, Evaluation | Failure]]:
        """Wait until some evaluations have ended; their keys and results."""

    def abandon(self) -> None:
        """Forget all that were submitted and have not been returned."""


def stream_of(mapper: object) -> Stream | None:
    """The mapper, if it can return values one by one."""
    return mapper if isinstance(mapper, Stream) else None


class Evaluator:
    """Evaluates a model's log-density at rows of points.

    Parameters
    ----------
    model : Model
    mapper : callable, optional
        See below.
    keep : callable, optional
        Called with every batch of points (k, d) and its evaluations.

    Attributes
    ----------
    model : Model
    mapper : callable or None
        Where the calls are made; None: in this process, one after the other.
    n_evaluations : int
        Points evaluated so far, including failed ones. A point that was lost with a worker and evaluated again counts
        once. After a failure the remaining points are not evaluated, unless a mapper or a vectorized model took the
        batch as a whole: then the whole batch counts.
    n_nonfinite : int
        Points that gave NaN or ``+inf`` and were taken as a density of zero, as the model requests.
    """

    def __init__(
        self,
        model: Model,
        mapper: Mapper | None = None,
        keep: Callable[[np.ndarray, Sequence[Evaluation]], None] | None = None,
    ):
        self.model = model
        self.n_evaluations = self.n_nonfinite = 0
        self.mapper, self._keep = mapper, keep

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
            The log-density raised an exception, or returned something other than a real number below ``+inf``; the
            error is that of the first such point. NaN and ``+inf`` of a model that rejects them count as ``-inf``.
        """
        points = np.asarray(points, dtype=np.float64)
        return self._kept(points, self._evaluations(points) if len(points) else [])

    def take(self, points: np.ndarray, outcomes: Sequence[Evaluation | Failure]) -> np.ndarray:
        """The same for points (k, d) that were evaluated one by one; they are counted now."""
        self.n_evaluations += len(points)
        return self._kept(points, [_checked(outcome) for outcome in outcomes])

    def _kept(self, points: np.ndarray, evaluations: Sequence[Evaluation]) -> np.ndarray:
        if self._keep is not None:
            self._keep(points, evaluations)
        return self.values(evaluations)

    def values(self, evaluations: Sequence[Evaluation]) -> np.ndarray:
        """The log-densities (k,) of evaluations; rejected ones are counted and become ``-inf``."""
        values = np.array([evaluation.value for evaluation in evaluations], dtype=np.float64)
        rejected = np.isnan(values)
        self.n_nonfinite += int(np.count_nonzero(rejected))
        values[rejected] = -math.inf
        return values

    def _evaluations(self, points: np.ndarray) -> list[Evaluation]:
        if self.mapper is not None:
            self.n_evaluations += len(points)
            return [_checked(outcome) for outcome in self.mapper(points)]
        if self.model.vectorized:
            self.n_evaluations += len(points)
            return evaluate_rows(self.model, points)
        done = []
        for x in points:
            self.n_evaluations += 1
            done.append(evaluate_point(self.model, x))
        return done


def evaluate_block(model: Model, points: np.ndarray) -> list[Evaluation | Failure]:
    """Evaluate points (k, d) in another process: nothing is raised, and failures can be pickled.

    A block of a vectorized model is one call; if that fails, the failure stands for all of its points.
    """
    if model.vectorized:
        try:
            return list(evaluate_rows(model, points))
        except EvaluationError as error:
            return [Failure.of(error)]
    outcomes: list[Evaluation | Failure] = []
    for x in points:
        try:
            outcomes.append(evaluate_point(model, x))
        except EvaluationError as error:
            outcomes.append(Failure.of(error))
    return outcomes


def evaluate_point(model: Model, x: np.ndarray) -> Evaluation:
    """One call of the log-density, at x (d,); none where a declared prior is zero.

    Raises
    ------
    EvaluationError
    """
    added = model.log_added(x) if model.named else 0.0
    if added == -math.inf:
        return Evaluation(added)
    try:
        returned = model.call(x.copy())  # a copy: the function may keep it or modify it
    except Exception as error:
        raise failed_call(model, x, error) from error
    if type(returned) is float:
        value, blobs = returned, None
    else:
        returned, blobs = _split(returned)
        number = number_of(returned)
        if number is None:
            what = f"log_density returned {describe(returned)}, expected a real number"
            raise failed_value(model, x, what, "return a Python float, a NumPy scalar or an array of shape ()")
        value = number
    value = _legal(model, x, value)
    if not math.isfinite(value):
        return Evaluation(value)
    log_prior = model.declared_log_prior(x)
    if log_prior is not None:
        blobs = with_declared(blobs, value, log_prior, isinstance(model.log_density, Posterior))
    if model.named:
        value += added
    return Evaluation(value, None if blobs is None else as_blobs(model, x, blobs))


def evaluate_rows(model: Model, points: np.ndarray) -> list[Evaluation]:
    """One call of a vectorized log-density, at the rows of points (k, d) where no prior is zero.

    Raises
    ------
    EvaluationError
    """
    added = model.log_added(points) if model.named else np.zeros(len(points))
    possible = added > -math.inf
    if not possible.all():
        rows = iter(evaluate_rows(model, points[possible]) if possible.any() else [])
        return [next(rows) if one else Evaluation(-math.inf) for one in possible]
    try:
        returned = model.call(points.copy())
    except Exception as error:
        raise failed_call(model, points, error) from error
    returned, blobs = _split(returned)
    values = numbers_of(returned, len(points))
    if values is None:
        what = f"log_density returned {describe(returned)}, expected {len(points)} real numbers"
        remedy = f"return an array of shape ({len(points)},): vectorized=True means one value for each row"
        raise failed_value(model, points, what, remedy)
    legal = values.tolist()
    if not np.isfinite(values).all():
        legal = [_legal(model, x, value) for x, value in zip(points, legal)]
    log_prior = model.declared_log_prior(points)
    if log_prior is not None:
        blobs = with_declared(blobs, values, log_prior, isinstance(model.log_density, Posterior))
    if model.named:
        legal = (np.array(legal) + added).tolist()
    if blobs is None:
        return list(map(Evaluation, legal))
    rows = as_blobs(model, points, blobs, rows=len(points))
    return [Evaluation(value, row if math.isfinite(value) else None) for value, row in zip(legal, rows)]


def _split(returned):
    """The value, and the blobs if there are any."""
    if isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[1], dict):
        return returned
    return returned, None


def _legal(model: Model, x: np.ndarray, value: float) -> float:
    """The value, or NaN if it is rejected."""
    if value < math.inf:
        return value
    if model.nonfinite == "reject":
        return math.nan
    if math.isnan(value):
        what, remedy = "NaN", "return -inf where the density is zero"
    else:
        what, remedy = "+inf", "a density is finite, so check for an overflow or a division by zero"
    what = f"log_density returned {what}, expected a finite number or -inf"
    raise failed_value(model, x, what, f"{remedy}, or treat such points as having zero density: {_rejecting(model)}")


def _rejecting(model: Model) -> str:
    """Tell the user how to construct this model so that it rejects values that are not finite."""
    made = getattr(model.space, "made_by", None)
    if made is None:
        given = "parameters=..." if model.named else f"dim={model.dim}"
        made = f"kmc.Model(log_density, {given}"
    return f'sample {made}, nonfinite="reject")'


def _checked(outcome: Evaluation | Failure) -> Evaluation:
    if isinstance(outcome, Failure):
        outcome.throw()
    return outcome
