"""Calls of the user's log-density: counted, checked and isolated from kmc's own arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from kmc.errors import EvaluationError
from kmc.model.model import Model
from kmc.model.posterior import TOTAL, Posterior, with_declared
from kmc.model.returned import (
    Blobs,
    Failure,
    as_blobs,
    describe,
    failed_value,
    not_finite,
    number_of,
    numbers_of,
    raised,
)

# nats, and of the value: smaller differences at one point are no noise
_LEAST_NOISE, _ROUNDING = 0.01, 1e-6


class Evaluation(NamedTuple):
    """The result at one point."""

    # the log-density of the unconstrained vector; NaN or +inf: what the function returned, or NaN
    value: float
    blobs: Blobs | None = None  # further outputs of the function; None where the density is zero
    failure: str = ""  # why the call gave no result, if it is rejected for that

    @property
    def log_density(self) -> float:
        """Return the value, with -inf for points that are rejected."""
        return self.value if self.value < math.inf else -math.inf


Outcome = Evaluation | Failure
"""An evaluation, or the reason why there is none."""

Mapper = Callable[[np.ndarray], Sequence[Outcome]]
"""Evaluates points (k, d) elsewhere: returns an evaluation or a failure for each."""


@runtime_checkable
class Stream(Protocol):
    """What a mapper may also have: evaluations returned one by one, in the order they end."""

    def submit(self, key: int, x: np.ndarray) -> None:
        """Begin the evaluation at x (d,), without waiting for it."""

    def ready(self) -> list[tuple[int, Outcome]]:
        """Wait until some evaluations have ended, and return their keys and results."""

    def abandon(self) -> None:
        """Forget all that were submitted and have not been returned."""


def stream_of(mapper: object) -> Stream | None:
    """Return the mapper, or None if it cannot return values one by one."""
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
        Points evaluated so far, including failed ones. A point that was lost with a worker and
        evaluated again counts once. After a failure the remaining points are not evaluated, unless
        a mapper or a vectorized model took the batch as a whole: then the whole batch counts.
    n_retried : int
        Calls that failed and were made again, as the model requests.
    """

    def __init__(
        self,
        model: Model,
        mapper: Mapper | None = None,
        keep: Callable[[np.ndarray, Sequence[Evaluation]], None] | None = None,
    ):
        self.model = model
        self.n_evaluations = self.n_retried = 0
        self.mapper, self._keep = mapper, keep

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Return the log-density at each of the points, in order.

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
            The log-density raised an exception, or returned something other than a real number; the
            error is that of the first such point. NaN, ``+inf`` and failed calls count as ``-inf``
            if the model rejects them.
        """
        points = np.asarray(points, dtype=np.float64)
        return self._kept(points, self.evaluations(points) if len(points) else [])

    def take(self, points: np.ndarray, outcomes: Sequence[Outcome]) -> np.ndarray:
        """Return the log-densities (k,) at points (k, d) evaluated one by one, and count them."""
        self.n_evaluations += len(points)
        return self._kept(points, [_checked(outcome) for outcome in outcomes])

    def evaluations(self, points: np.ndarray) -> list[Evaluation]:
        """Evaluate points (k, d), k > 0; repeat or reject failed calls as the model requests."""
        outcomes = self._outcomes(points)
        for i, outcome in enumerate(outcomes):
            if is_repeated(self.model, outcome):
                self.n_retried += self.model.on_error == "retry"
                (outcomes[i],) = self._call(points[i : i + 1])
        return [_checked(settled(self.model, outcome)) for outcome in outcomes]

    def _kept(self, points: np.ndarray, evaluations: Sequence[Evaluation]) -> np.ndarray:
        if self._keep is not None:
            self._keep(points, evaluations)
        return self.values(evaluations)

    def values(self, evaluations: Sequence[Evaluation]) -> np.ndarray:
        """Return the log-densities (k,) of evaluations; rejected ones become ``-inf``."""
        return np.array([evaluation.log_density for evaluation in evaluations], dtype=np.float64)

    def _outcomes(self, points: np.ndarray) -> list[Outcome]:
        if self.mapper is not None or self.model.vectorized:
            self.n_evaluations += len(points)
            return self._call(points)
        done = []
        for x in points:
            self.n_evaluations += 1
            done += self._call(x[None])
        return done

    def _call(self, points: np.ndarray) -> list[Outcome]:
        if self.mapper is not None:
            return list(self.mapper(points))
        try:
            if self.model.vectorized:
                return list(evaluate_rows(self.model, points))
            return [evaluate_point(self.model, x) for x in points]
        except EvaluationError as error:
            if self.model.on_error == "raise" or not error.reason:
                raise
            return [Failure(error)] * len(points)


def is_repeated(model: Model, outcome: Outcome) -> bool:
    """Return whether a call is made once more.

    It is if it failed, and is retried or had several points that may be good.
    """
    if not isinstance(outcome, Failure) or not outcome.error.reason:
        return False
    several = outcome.error.position is not None and outcome.error.position.ndim > 1
    return model.on_error == "retry" or (model.on_error == "reject" and several)


def settled(model: Model, outcome: Outcome) -> Outcome:
    """Return the outcome; zero density if the call failed and the model rejects such points."""
    if model.on_error == "reject" and isinstance(outcome, Failure) and outcome.error.reason:
        return Evaluation(math.nan, failure=outcome.error.reason)
    return outcome


def evaluate_block(model: Model, points: np.ndarray) -> list[Outcome]:
    """Evaluate points (k, d) in another process: nothing is raised, and failures can be pickled.

    A block of a vectorized model is one call; if that fails, all of its points have the same
    failure.
    """
    if model.vectorized:
        try:
            return list(evaluate_rows(model, points))
        except EvaluationError as error:
            return [Failure.of(error)] * len(points)
    outcomes: list[Outcome] = []
    for x in points:
        try:
            outcomes.append(evaluate_point(model, x))
        except EvaluationError as error:
            outcomes.append(Failure.of(error))
    return outcomes


def evaluate_point(model: Model, x: np.ndarray) -> Evaluation:
    """Call the log-density once, at x (d,), unless a declared prior or the Jacobian is zero there.

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
        raise raised(model, x, error) from error
    if type(returned) is float:
        value, blobs = returned, None
    else:
        returned, blobs = _split(returned)
        number = number_of(returned)
        if number is None:
            what = f"log_density returned {describe(returned)}, expected a real number"
            raise failed_value(
                model, x, what, "return a Python float, a NumPy scalar or an array of one number"
            )
        value = number
    _check_point(model, x, value)
    if not math.isfinite(value):
        return Evaluation(value)
    log_prior = model.declared_log_prior(x)
    if log_prior is not None:
        blobs = with_declared(blobs, value, log_prior, isinstance(model.log_density, Posterior))
    if model.named:
        value += added
    return Evaluation(value, None if blobs is None else as_blobs(model, x, blobs))


def evaluate_rows(model: Model, points: np.ndarray) -> list[Evaluation]:
    """Call a vectorized log-density once, at points (k, d) whose priors and Jacobians are not zero.

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
        raise raised(model, points, error) from error
    returned, blobs = _split(returned)
    values = numbers_of(returned, len(points))
    if values is None:
        what = f"log_density returned {describe(returned)}, expected {len(points)} real numbers"
        remedy = (
            f"return an array of shape ({len(points)},): "
            "vectorized=True means one value for each row"
        )
        raise failed_value(model, points, what, remedy)
    for x, value in zip(points, values):
        _check_point(model, x, value)
    log_prior = model.declared_log_prior(points)
    if log_prior is not None:
        blobs = with_declared(blobs, values, log_prior, isinstance(model.log_density, Posterior))
    found = (values + added if model.named else values).tolist()
    if blobs is None:
        return list(map(Evaluation, found))
    rows = as_blobs(model, points, blobs, rows=len(points))
    return [
        Evaluation(value, row if math.isfinite(value) else None) for value, row in zip(found, rows)
    ]


def _split(returned):
    """Return the value and the blobs, None if there are none."""
    if isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[1], dict):
        return returned
    return returned, None


def _check_point(model: Model, x: np.ndarray, value: float) -> None:
    """Raise an error if the value at x (d,) is NaN or +inf and is not rejected.

    It is rejected if the model rejects such values and x is finite.
    """
    if not value < math.inf and (model.nonfinite == "raise" or not np.all(np.isfinite(x))):
        raise not_finite(model, x, value)


def _checked(outcome: Outcome) -> Evaluation:
    if isinstance(outcome, Failure):
        outcome.throw()
    return outcome


def check_noise(
    model: Model,
    points: np.ndarray,
    values: np.ndarray,
    evaluate: Callable[[np.ndarray], np.ndarray],
) -> None:
    """Evaluate the best start point (of k, d) again; EvaluationError if the value is another one.

    It changes no draws, and the run ends at the same budget.
    """
    __tracebackhide__ = True
    if model.noisy or not np.any(np.isfinite(values)):
        return
    best = int(np.argmax(np.where(np.isfinite(values), values, -np.inf)))
    again = evaluate(points[best][None])[0]
    if np.isfinite(again) and abs(again - values[best]) > _LEAST_NOISE + _ROUNDING * abs(
        values[best]
    ):
        raise failed_value(
            model,
            points[best],
            f"log_density returned {values[best]:.8g} and then {again:.8g}, log-Jacobian included",
            "if it is the log of an unbiased estimate of the density, pass kmc.Model(..., "
            "noisy=True); otherwise "
            "let it return the same value again, for instance by a fixed seed",
        )


def probed(model: Model, mapper: Mapper | None, points: np.ndarray) -> list[float]:
    """Return what the function returns at points (k, d), not recorded; inf if it overflows."""
    found = Evaluator(model, mapper).evaluations(points)
    return [np.inf if one.failure.startswith("OverflowError") else one.value for one in found]


def total_log_likelihood(model: Model, x: np.ndarray) -> float:
    """Return the log-likelihood at x (d,), which the model has apart; -inf for a zero density."""
    (outcome,) = evaluate_block(model, x[None])
    evaluation = _checked(outcome)
    return -np.inf if evaluation.blobs is None else float(evaluation.blobs[TOTAL])
