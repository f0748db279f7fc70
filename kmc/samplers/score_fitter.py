"""Fit copies of the user's score estimator to the points that chains have evaluated or visited."""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import LinAlgWarning

from kmc.checks import check_number
from kmc.samplers.score_field import ChoosingEstimator, Field, GradientEstimator
from kmc.surrogate.coordinates.whitening import Whitening


def check_estimator(estimator: Any, values: Any) -> None:
    """Raise TypeError unless the object has a gradient and can be fitted, to ``values`` if True."""
    expected = (
        "expected an estimator with methods fit(X) and gradient(X), such as kmc.scores.NystromKEF()"
    )
    if isinstance(estimator, type):
        raise TypeError(f"estimator={estimator!r} is a class: {expected}")
    for method in ("fit", "gradient"):
        if not callable(getattr(estimator, method, None)):
            raise TypeError(f"estimator={estimator!r} has no method {method}: {expected}")
    if not isinstance(values, (bool, np.bool_)):
        raise TypeError(f"values={values!r}: expected True or False")
    if values and not _takes(estimator, "values"):
        raise TypeError(
            f"values=True, but fit of estimator={estimator!r} takes no values: leave values out"
        )


def check_schedule(options: Any) -> None:
    """Check the option ``schedule`` of a sampler.

    It is None, or a number in (0, 1] and an estimator with ``partial_fit``.
    """
    if options.schedule is None:
        return
    check_number(options, "schedule", 0, 1, "(]")
    if not callable(getattr(options.estimator, "partial_fit", None)):
        raise TypeError(
            f"schedule={options.schedule!r}, but estimator={options.estimator!r} has no method "
            "partial_fit: use an estimator of kmc.scores, or schedule=None"
        )


class Fitter:
    """Fits the user's estimator to states of the chains.

    Parameters
    ----------
    estimator : GradientEstimator
        Copied here, and before each fit, so that neither the user's object nor an earlier fit
        changes.
    values : bool
        Whether fits get log-densities.
    refit : bool
        Fit the estimator even if it is fitted already.
    rng : Generator
        For parameters ``random_state`` that are None: the run's seed determines all random numbers.

    Attributes
    ----------
    name : str
        Name of the estimator's class.
    n_fits, n_failed : int
    error : str
        Message of the last failure.
    """

    def __init__(
        self, estimator: GradientEstimator, *, values: bool, refit: bool, rng: np.random.Generator
    ):
        self.name = type(estimator).__name__
        self.n_fits = self.n_failed = 0
        self.error = ""
        self._estimator = copy.deepcopy(estimator)
        if isinstance(self._estimator, ChoosingEstimator):
            # refits are frequent, and states white: nothing to choose
            self._estimator.fix_choices()
        self._values, self._rng = values, rng
        self._as_it_is = not refit and _is_fitted(estimator)

    def given(self, whitening: Whitening, x: np.ndarray) -> Field | None:
        """Return the field of an estimator that is fitted already, else None.

        Raise a ValueError if points x (n, d) do not suit it.
        """
        if not self._as_it_is:
            return None
        expected = (
            f"expected a target of dimension {x.shape[1]}, or an estimator that is not fitted"
        )
        try:
            shape = np.shape(self._estimator.gradient(x))
        except ValueError as error:
            raise ValueError(
                f"estimator: the {self.name} is fitted, {expected}: {error}"
            ) from error
        if shape != x.shape:
            raise ValueError(
                f"estimator: the {self.name} is fitted and has gradients of shape {shape[1:]}: "
                f"{expected}"
            )
        return Field.of(self._estimator, whitening, in_z=False)

    def fitted(
        self, x: np.ndarray, values: np.ndarray, visits: np.ndarray, *, whitening: Whitening
    ) -> Field | None:
        """Return the field of a fit to whitened states, or None if the fit failed.

        Parameters
        ----------
        x : ndarray, shape (n, d)
            Distinct points.
        values, visits : ndarray, shape (n,)
            Log-density of each, and number of visits by the chains.
        """
        if self._as_it_is:
            return Field.of(self._estimator, whitening, in_z=False)
        estimator = copy.deepcopy(self._estimator)
        _seed(estimator, self._rng)
        z = np.ascontiguousarray(whitening(x))
        worked = self._attempt(
            estimator, z, lambda: self._fit(estimator, z, values=values, visits=visits)
        )
        return Field.of(estimator, whitening, in_z=True) if worked else None

    def extended(self, field: Field, x: np.ndarray, values: np.ndarray) -> Field | None:
        """Return the field after ``partial_fit`` to further points (n, d), or None if that failed.

        Points that were visited repeatedly are repeated. They have the log-densities ``values``
        (n,).
        """
        estimator: Any = field.estimator
        z = np.ascontiguousarray(field.whitening(x))
        given = {"values": values} if self._values else {}
        worked = self._attempt(estimator, z, lambda: estimator.partial_fit(z, **given))
        return Field.of(estimator, field.whitening, in_z=True) if worked else None

    def _attempt(self, estimator: GradientEstimator, z: np.ndarray, fit: Callable[[], Any]) -> bool:
        """Return whether a fit to z (n, d) worked; if not, ``error`` says why."""
        try:
            with warnings.catch_warnings():  # the user cannot change the states of a chain
                warnings.simplefilter("ignore", LinAlgWarning)
                fit()
                _check_gradient(estimator, z)
        except (ValueError, ArithmeticError, RuntimeError, np.linalg.LinAlgError) as error:
            self.n_failed += 1
            self.error = f"{type(error).__name__}: {error}"
            return False
        self.n_fits += 1
        return True

    def _fit(
        self, estimator: GradientEstimator, z: np.ndarray, *, values: np.ndarray, visits: np.ndarray
    ) -> None:
        weights = {}
        if _takes(estimator, "weights"):
            weights["weights"] = visits.astype(float)
        else:
            z, values = np.repeat(z, visits, axis=0), np.repeat(values, visits)
        if self._values:
            estimator.fit(z, values=values, **weights)
        else:
            estimator.fit(z, **weights)


def _check_gradient(estimator: GradientEstimator, z: np.ndarray) -> None:
    """Check the gradient at the points of the fit: finite, and of the same shape."""
    gradient = np.asarray(estimator.gradient(z))
    if gradient.shape != z.shape:
        raise TypeError(
            f"estimator: {type(estimator).__name__}.gradient returned shape {gradient.shape} for "
            f"points of shape {z.shape}: expected the same shape"
        )
    if not np.all(np.isfinite(gradient)):
        raise ValueError(
            "the gradient is not finite at the points that the estimator was fitted to"
        )


def _takes(estimator: GradientEstimator, name: str) -> bool:
    """Return whether ``fit`` has an argument of that name."""
    parameters = inspect.signature(estimator.fit).parameters
    return name in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def _is_fitted(estimator: Any) -> bool:
    """Return whether an estimator is fitted, by the conventions of kmc.scores or scikit-learn."""
    says = getattr(estimator, "__sklearn_is_fitted__", None)
    return hasattr(estimator, "density_") or bool(says and says())


def _seed(estimator: Any, rng: np.random.Generator) -> None:
    """Set each ``random_state`` that is None to a random number, also in nested estimators."""
    if hasattr(estimator, "get_params") and hasattr(estimator, "set_params"):
        parameters = sorted(estimator.get_params().items(), key=lambda item: item[0])
        names = [
            name
            for name, value in parameters
            if name.split("__")[-1] == "random_state" and value is None
        ]
        estimator.set_params(**{name: int(rng.integers(2**31)) for name in names})
    elif getattr(estimator, "random_state", 0) is None:
        estimator.random_state = int(rng.integers(2**31))


class History:
    """Points and their values, in order.

    Parameters
    ----------
    dim : int
    """

    def __init__(self, dim: int):
        self._x = np.empty((256, dim))
        self._log_density = np.empty(256)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def extend(self, x: np.ndarray, log_density: np.ndarray) -> None:
        """Append points (k, d) and values (k,)."""
        end = self._size + len(x)
        while end > len(self._x):
            self._x = np.concatenate([self._x, np.empty_like(self._x)])
            self._log_density = np.concatenate(
                [self._log_density, np.empty_like(self._log_density)]
            )
        self._x[self._size : end] = x
        self._log_density[self._size : end] = log_density
        self._size = end

    @property
    def x(self) -> np.ndarray:
        """(n, d), a view."""
        return self._x[: self._size]

    @property
    def log_density(self) -> np.ndarray:
        """(n,), a view."""
        return self._log_density[: self._size]
