"""Base class of all estimators: scikit-learn's conventions, without depending on scikit-learn."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, ClassVar, Self

import numpy as np

from kmc.arrays import MOST, as_array, check_magnitude
from kmc.threads import single_threaded

FITS = ("fit", "partial_fit", "fit_transform")
"""Methods that use BLAS in a single thread, in all estimators."""


class NotFittedError(ValueError, AttributeError):
    """An estimator was used before ``fit``; its namesake in scikit-learn has the same bases."""


class DataConversionWarning(UserWarning):
    """Data were converted to another shape; scikit-learn has a class of that name."""


class Estimator:
    """Parameters by name, input checks, and the methods that scikit-learn expects.

    A subclass lists its parameters in ``__init__`` and only stores them there, unchanged; ``fit``
    checks and uses them. Fitted attributes have names that end in an underscore.

    Examples
    --------
    >>> from kmc.estimator import Estimator
    >>> class Mean(Estimator):
    ...     def __init__(self, trim=0.0):
    ...         self.trim = trim
    ...
    ...     def fit(self, X, y=None):
    ...         self.mean_ = self._check_points(X, fitting=True).mean(axis=0)
    ...         return self
    >>> Mean(trim=0.1).set_params(trim=0.2).fit([[1.0, 2.0], [3.0, 4.0]])
    Mean(trim=0.2)
    """

    _transformer: ClassVar[bool] = False
    _regressor: ClassVar[bool] = False
    _needs_y: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in FITS:
            if name in vars(cls):
                setattr(cls, name, _in_one_thread(vars(cls)[name]))

    @classmethod
    def _parameter_names(cls) -> list[str]:
        if cls.__init__ is object.__init__:  # its signature accepts anything
            return []
        return sorted(name for name in inspect.signature(cls.__init__).parameters if name != "self")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; those of a nested estimator as ``name__parameter``."""
        params: dict[str, Any] = {}
        for name in self._parameter_names():
            value = vars(self)[name]
            params[name] = value
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                params.update(
                    (f"{name}__{key}", inner) for key, inner in value.get_params().items()
                )
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters, with ``name__parameter`` for those of a nested estimator.

        Unknown names raise a ValueError.
        """
        names = self._parameter_names()
        nested: dict[str, dict[str, Any]] = {}
        for key, value in params.items():
            name, _, inner = key.partition("__")
            if name not in names:
                raise ValueError(
                    f"{name!r} is not a parameter of {type(self).__name__}: expected one of {names}"
                )
            if inner:
                nested.setdefault(name, {})[inner] = value
            else:
                setattr(self, name, value)
        for name, inner_params in nested.items():
            value = getattr(self, name)
            if not hasattr(value, "set_params"):
                first = next(iter(inner_params))
                raise ValueError(f"{f'{name}__{first}'!r}: {name}={value!r} has no parameters")
            value.set_params(**inner_params)
        return self

    def __repr__(self) -> str:
        changed = (f"{name}={value!r}" for name, value in self._changed().items())
        return f"{type(self).__name__}({', '.join(changed)})"

    def _changed(self) -> dict[str, Any]:
        """Return the parameters that differ from their defaults."""
        defaults = {
            name: p.default for name, p in inspect.signature(type(self).__init__).parameters.items()
        }
        return {
            name: value
            for name, value in self.get_params(deep=False).items()
            if not (value is defaults[name] or _is_default(value, defaults[name]))
        }

    def __sklearn_is_fitted__(self) -> bool:
        return bool(_fitted_attributes(self) - {"n_features_in_", "feature_names_in_"})

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, RegressorTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type="regressor" if self._regressor else None,
            target_tags=TargetTags(required=self._needs_y, multi_output=False, single_output=True),
            transformer_tags=TransformerTags() if self._transformer else None,
            regressor_tags=RegressorTags() if self._regressor else None,
            classifier_tags=None,
            input_tags=InputTags(),
        )

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            name = type(self).__name__
            raise _not_fitted(
                f"This {name} instance is not fitted yet: call fit with data before using it"
            )

    def _forget_fit(self) -> None:
        """Remove the attributes of an earlier fit."""
        for name in _fitted_attributes(self):
            delattr(self, name)

    def _names_out(self, count: int, input_features: Any = None) -> np.ndarray:
        """Return the names of a fitted transformer's columns: the class name and a number.

        ``input_features`` are only checked against those of the fit, as in scikit-learn.
        """
        self._check_fitted()
        if input_features is not None and len(input_features) != self.n_features_in_:
            raise ValueError(
                "input_features should have length equal to number of features "
                f"({self.n_features_in_}), got {len(input_features)}"
            )
        fitted = getattr(self, "feature_names_in_", None)
        if (
            input_features is not None
            and fitted is not None
            and list(input_features) != list(fitted)
        ):
            raise ValueError(f"input_features is not equal to feature_names_in_, {list(fitted)}")
        return np.array([f"{type(self).__name__.lower()}{k}" for k in range(count)], dtype=object)

    def _check_points(self, X: Any, *, fitting: bool = False, least: int = 1) -> np.ndarray:
        """Return X as a C-contiguous float64 array (n, d).

        When ``fitting``, d and the column names are stored and the attributes of an earlier fit are
        removed, so that a fit that fails leaves an unfitted estimator rather than a mixture of two
        fits.
        """
        names = _column_names(X)
        if not fitting:
            self._check_fitted()
        x = as_points(X, least)
        if fitting:
            self._forget_fit()
            self.n_features_in_ = x.shape[1]
            if names is not None:
                self.feature_names_in_ = names
            return x
        _check_names(self, names)
        if x.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {x.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input"
            )
        return x


def _in_one_thread(fit: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method so that BLAS uses one thread in it, see :func:`kmc.threads.single_threaded`."""

    @wraps(fit)
    def one_thread(*args: Any, **options: Any) -> Any:
        with single_threaded():
            return fit(*args, **options)

    return one_thread


def as_points(X: Any, least: int = 1, name: str = "X") -> np.ndarray:
    """Return points as rows of a C-contiguous float64 array, or raise an error that says why not.

    Parameters
    ----------
    X : array_like, shape (n, d)
        Any input of ``numpy.asarray``: lists, data frames, lazy arrays.
    least : int
        Required number of points.
    name : str
        For messages.

    Raises
    ------
    ValueError
        Wrong number of dimensions, too few points, no columns, complex numbers, NaN or infinity,
        masked entries.
    TypeError
        A sparse matrix, or entries that are not numbers.

    Examples
    --------
    >>> from kmc.estimator import as_points
    >>> as_points([[1, 2], [3, 4]])
    array([[1., 2.],
           [3., 4.]])
    """
    if hasattr(X, "toarray") and hasattr(X, "nnz"):
        raise TypeError(
            f"{name} is a sparse matrix: sparse data are not supported, use {name}.toarray()"
        )
    if np.ma.is_masked(X):
        raise ValueError(f"{name} has masked entries: drop such rows first")
    x = as_array(name, X)
    if x.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {f'{x.ndim}D' if x.ndim else 'scalar'} array instead: {name} "
            f"has shape {x.shape}. "
            f"Reshape your data: points are rows, so use {name}.reshape(-1, 1) if it has one column"
        )
    if x.shape[1] < 1:
        raise ValueError(
            f"0 feature(s) (shape={x.shape}) while a minimum of 1 is required: {name} has no "
            f"columns"
        )
    if x.shape[0] < least:
        raise ValueError(
            f"Found array with {x.shape[0]} sample(s) (shape={x.shape}) while a minimum of {least} "
            f"is required: n_samples={x.shape[0]} points in {name} are too few"
        )
    if not np.all(np.isfinite(x)):
        row = int(np.argmax(~np.isfinite(x).all(axis=1)))
        what = "NaN" if np.isnan(x[row]).any() else "infinity"
        raise ValueError(
            f"{name} contains {what} in row {row}: NaN and inf are not allowed, drop such rows "
            f"first"
        )
    check_magnitude(name, x)
    return x


def check_weights(weights: Any, n: int) -> np.ndarray:
    """Return weights (n,), not negative and not all zero, scaled to mean one; ones if None."""
    if weights is None:
        return np.ones(n)
    w = check_vector(weights, n, "weights")
    check_magnitude("weights", w)
    if np.any(w < 0) or not np.any(w > 0):
        raise ValueError(
            f"weights: expected non-negative numbers, not all of them zero; the least is "
            f"{w.min():g}"
        )
    return w * (n / w.sum())


def check_vector(values: Any, n: int, name: str) -> np.ndarray:
    """Return finite numbers with finite squares, one for each of the n rows of X."""
    v = as_array(name, values)
    if v.shape != (n,):
        raise ValueError(
            f"{name} has shape {v.shape}: expected ({n},), one number for each row of X"
        )
    if not np.all(np.isfinite(v)):
        raise ValueError(
            f"{name} contains NaN or infinity, first in row {int(np.argmax(~np.isfinite(v)))}"
        )
    if np.any(np.abs(v) > MOST):
        raise ValueError(
            f"{name} has numbers beyond {MOST:.0e}, whose squares overflow: expected smaller ones"
        )
    return v


def values_of(y: Any, values: Any) -> Any:
    """Return the second argument of ``fit``, given under either name, ``y`` or ``values``.

    The signature is ``fit(X, y=None, weights=None, *, values=None)``. scikit-learn's pipelines and
    searches pass this argument as ``y``, and split it along with X.
    """
    if y is not None and values is not None:
        raise TypeError("y and values are two names of the same argument: give only one of them")
    return y if values is None else values


def _is_default(value: Any, default: Any) -> bool:
    """Return whether a value equals the default, even if copied or pickled; compare no arrays."""
    if isinstance(value, tuple) and isinstance(default, tuple):
        return repr(value) == repr(default)
    return bool(np.isscalar(value) and value == default)


def _not_fitted(message: str) -> NotFittedError:
    """Return the error; if scikit-learn is loaded, one that its own class also catches."""
    loaded = sys.modules.get("sklearn.exceptions")
    if loaded is None:
        return NotFittedError(message)
    return type("NotFittedError", (NotFittedError, loaded.NotFittedError), {})(message)


def _fitted_attributes(estimator: Estimator) -> set[str]:
    return {name for name in vars(estimator) if name.endswith("_") and not name.startswith("_")}


def _column_names(X: Any) -> np.ndarray | None:
    columns = getattr(X, "columns", None)
    if columns is None:
        return None
    names = np.asarray(columns, dtype=object)
    strings = [isinstance(name, str) for name in names]
    if all(strings):
        return names
    if any(strings):
        raise TypeError("Feature names are only supported if all input features have string names")
    return None


def _check_names(estimator: Estimator, names: np.ndarray | None) -> None:
    fitted = getattr(estimator, "feature_names_in_", None)
    if names is None or fitted is None or list(names) == list(fitted):
        return
    unexpected = sorted(set(names) - set(fitted))
    missing = sorted(set(fitted) - set(names))
    message = "The feature names should match those that were passed during fit.\n"
    if unexpected:
        message += "Feature names unseen at fit time:\n" + "".join(
            f"- {name}\n" for name in unexpected[:5]
        )
    if missing:
        message += "Feature names seen at fit time, yet now missing:\n" + "".join(
            f"- {n}\n" for n in missing[:5]
        )
    if not unexpected and not missing:
        message += "Feature names must be in the same order as they were in fit.\n"
    raise ValueError(message)
