"""The interface of all likelihoods; formulas and argument checks that those of known data share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np

from kmc.arrays import as_array

Values = Mapping[str, tuple[np.ndarray, ...]]
"""The numbers of each argument's terms, at some parameters."""

_STEP = np.cbrt(np.finfo(float).eps)  # of central differences, relative to the number


@runtime_checkable
class Likelihood(Protocol):
    """The interface of all likelihoods.

    A likelihood is a distribution of data, given outputs of a simulator and some parameters.
    :class:`kmc.Model` takes any object that has this interface.
    """

    @property
    def observed(self) -> np.ndarray | None:
        """The data, with NaN where they are missing; None if only a function knows them."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters that the likelihood names, such as "sigma" for ``sd="sigma"``."""

    @property
    def can_draw(self) -> bool:
        """Whether :meth:`draw` simulates data."""

    def log_likelihoods(self, outputs: Any, parameters: Mapping[str, Any]) -> np.ndarray:
        """Return the log-likelihood of each observation; 0 where it is missing.

        Parameters
        ----------
        outputs : array_like, shape (n,)
            Outputs of the simulator, in the shape of the data, unless a function (`observe`) brings
            them into it.
        parameters : mapping of str to float or ndarray
            At least those in :attr:`names`; with functions, those that the functions use.

        Returns
        -------
        ndarray, shape (n,)
            NaN where the output is NaN and there are data; -inf where the density is zero.

        Raises
        ------
        TypeError, ValueError
            The outputs are not numbers in the shape of the data; a parameter is missing or has the
            wrong shape.
        """

    def gradients(
        self, outputs: Any, parameters: Mapping[str, Any]
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Return the gradients of the sum of :meth:`log_likelihoods`.

        Parameters
        ----------
        outputs, parameters
            As for :meth:`log_likelihoods`.

        Returns
        -------
        along_outputs : ndarray
            In the shape of the outputs; 0 where data are missing. If the observations are
            independent, it is the derivative of each log-likelihood along its own output.
        along_parameters : dict of str to ndarray
            By name, in the shape of the parameter. With functions (`observe`, or a covariance that
            is a function), of all `parameters`, by central differences; otherwise of those in
            :attr:`names`.
        """

    def draw(
        self, outputs: Any, parameters: Mapping[str, Any], rng: np.random.Generator
    ) -> np.ndarray:
        """Draw data, in the shape of the observed ones, also where those are missing.

        Parameters
        ----------
        outputs, parameters
            As for :meth:`log_likelihoods`.
        rng : Generator

        Returns
        -------
        ndarray
            NaN where the output is NaN; numbers beyond a bound of the data are that bound.
        """


class OfData(ABC):
    """A likelihood of data that are known as an array.

    A subclass has three formulas: ``_log_density``, ``_derivatives`` and ``_draw``. This class
    looks up parameters, leaves out missing data, and applies `observe`.

    Parameters
    ----------
    observed : array_like
        The data, with NaN where they are missing.
    observe : callable or None
        Maps (outputs, parameters), or the outputs if it is a ufunc such as `np.exp`, to what is
        compared with the data.
    terms : mapping of str to tuple of terms
        By argument, numbers and names of parameters, see :func:`as_terms`.

    Attributes
    ----------
    observed : ndarray
        The data.
    missing : ndarray
        Where they are missing.
    """

    _arguments: tuple[tuple[Any, ...], dict[str, Any]]

    def __init__(self, observed: Any, observe: Any, terms: Mapping[str, tuple[Term, ...]]):
        if observe is not None and not callable(observe):
            raise TypeError(
                f"observe={observe!r}: expected a function of the outputs and of the parameters"
            )
        self.observed = as_data(observed)
        self.missing = np.isnan(self.observed)
        self.observe: Callable[[np.ndarray, Mapping[str, Any]], Any] | None = observe
        self._terms = terms
        self._bounds = np.array(-np.inf), np.array(np.inf)

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Remember the arguments, for :meth:`with_data`."""
        made = super().__new__(cls)
        made._arguments = args, kwargs
        return made

    def with_data(self, observed: Any) -> Self:
        """Return the same likelihood of other data.

        These are array_like, in the same shape, with NaN where they are missing.

        Examples
        --------
        >>> import numpy as np
        >>> import kmc
        >>> kmc.likelihoods.Poisson([3, np.nan]).with_data([1, 4]).observed
        array([ 1., nan])
        """
        args, kwargs = self._arguments
        data = np.where(self.missing, np.nan, observed)
        return type(self)(
            data, *args[1:], **{name: value for name, value in kwargs.items() if name != "observed"}
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters that the likelihood names, such as "sigma" for ``sd="sigma"``."""
        return tuple(
            dict.fromkeys(name for terms in self._terms.values() for name in names_of(terms))
        )

    @property
    def terms(self) -> Mapping[str, tuple[Term, ...]]:
        """By argument, the numbers and the names of parameters that it was given."""
        return self._terms

    @property
    def is_censored(self) -> bool:
        """Whether some of the data are bounds of numbers."""
        lower, upper = self._bounds
        return bool(np.any(self.observed <= lower) or np.any(self.observed >= upper))

    @property
    def can_draw(self) -> bool:
        """Always."""
        return True

    def log_likelihoods(self, outputs: Any, parameters: Mapping[str, Any]) -> np.ndarray:
        """Return the log-likelihood of each observation.

        See :meth:`kmc.likelihoods.Likelihood.log_likelihoods`.
        """
        mean = self._compared(outputs, parameters)
        with np.errstate(all="ignore"):
            found = self._log_density(mean, self._values(parameters))
        found = np.where(np.isnan(mean), np.nan, found)
        return np.where(self.missing, 0.0, found)

    def gradients(
        self, outputs: Any, parameters: Mapping[str, Any]
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Return the gradients of the sum of the log-likelihoods.

        See :meth:`kmc.likelihoods.Likelihood.gradients`.
        """
        mean = self._compared(outputs, parameters)
        with np.errstate(all="ignore"):
            along, by_term = self._derivatives(mean, self._values(parameters))
        along = np.where(self.missing, 0.0, along)
        if self._has_functions:
            along_parameters = self._by_differences(outputs, parameters)
        else:
            along_parameters = self._along_parameters(by_term, parameters)
        if self.observe is not None:
            along = self._through_observe(along, outputs, parameters)
        return along, along_parameters

    def draw(
        self, outputs: Any, parameters: Mapping[str, Any], rng: np.random.Generator
    ) -> np.ndarray:
        """Draw data, see :meth:`kmc.likelihoods.Likelihood.draw`."""
        mean = self._compared(outputs, parameters)
        unknown = np.isnan(mean)
        if unknown.all():
            return np.full(mean.shape, np.nan)
        if unknown.any():
            # any valid output, as these draws are not used
            mean = np.where(unknown, np.nanmean(mean), mean)
        drawn = np.asarray(self._draw(mean, self._values(parameters), rng))
        return np.where(unknown, np.nan, drawn) if unknown.any() else drawn

    @abstractmethod
    def _log_density(self, mean: np.ndarray, values: Values) -> np.ndarray:
        """Return log-densities of the data, given outputs in their shape.

        Where data are missing, the values may be anything.
        """

    @abstractmethod
    def _derivatives(
        self, mean: np.ndarray, values: Values
    ) -> tuple[np.ndarray, dict[str, list[np.ndarray]]]:
        """Return derivatives along the outputs, and, by argument, along the value of each term."""

    @abstractmethod
    def _draw(self, mean: np.ndarray, values: Values, rng: np.random.Generator) -> np.ndarray:
        """Draw data in the shape of the outputs."""

    @property
    def _has_functions(self) -> bool:
        return self.observe is not None

    def _values(self, parameters: Mapping[str, Any]) -> Values:
        shape = self.missing.shape
        return {
            argument: tuple(value_of(argument, term, parameters, shape) for term in terms)
            for argument, terms in self._terms.items()
        }

    def _compared(self, outputs: Any, parameters: Mapping[str, Any]) -> np.ndarray:
        """Return the numbers that are compared with the data, in their shape."""
        mean = as_array("outputs", outputs)
        what = "the outputs have"
        if self.observe is not None:
            given = (mean,) if isinstance(self.observe, np.ufunc) else (mean, parameters)
            mean = as_array("observe", self.observe(*given))
            what = "observe returned"
        if mean.shape != self.missing.shape:
            raise ValueError(
                f"{what} the shape {mean.shape}: expected {self.missing.shape}, as the data have"
            )
        return mean

    def _along_parameters(
        self, by_term: Mapping[str, Sequence[np.ndarray]], parameters: Mapping[str, Any]
    ) -> dict[str, np.ndarray]:
        """Sum derivatives along terms to those along the parameters that are terms.

        Several terms may be the same parameter.
        """
        found = {name: np.zeros(np.shape(parameters[name])) for name in self.names}
        for argument, derivatives in by_term.items():
            for term, each in zip(self._terms[argument], derivatives, strict=True):
                if isinstance(term, str):
                    whole = np.where(self.missing, 0.0, np.broadcast_to(each, self.missing.shape))
                    found[term] += summed_to(whole, found[term].shape)
        return found

    def _through_observe(
        self, along: np.ndarray, outputs: Any, parameters: Mapping[str, Any]
    ) -> np.ndarray:
        """Return the gradient along the outputs, from that along what `observe` makes of them."""
        x = as_array("outputs", outputs)
        known = along != 0.0

        def inner(shifted: np.ndarray) -> float:
            return float(np.sum(along[known] * self._compared(shifted, parameters)[known]))

        return by_differences(inner, x)

    def _by_differences(self, outputs: Any, parameters: Mapping[str, Any]) -> dict[str, np.ndarray]:
        found = {}
        for name, value in parameters.items():

            def total(x: np.ndarray, name: str = name) -> float:
                changed = float(x) if x.ndim == 0 else x
                return float(np.sum(self.log_likelihoods(outputs, {**parameters, name: changed})))

            found[name] = by_differences(total, np.asarray(value, float))
        return found


def by_differences(function: Callable[[np.ndarray], float], x: np.ndarray) -> np.ndarray:
    """Return a function's gradient at x, by central differences; 0 along numbers that are NaN."""
    sizes = np.abs(x[np.isfinite(x)])
    typical = float(sizes.mean()) if sizes.size and sizes.mean() > 0.0 else 1.0
    gradient = np.zeros(x.shape)
    for i in np.ndindex(x.shape):
        if np.isfinite(x[i]):
            step = _STEP * max(abs(float(x[i])), typical)
            above, below = x.copy(), x.copy()
            above[i] += step
            below[i] -= step
            gradient[i] = (function(above) - function(below)) / (above[i] - below[i])
    return gradient


Term = str | np.ndarray
"""The name of a parameter, or numbers that broadcast with the data."""


def as_data(observed: Any) -> np.ndarray:
    """Return the observed data as a new float64 array, with NaN where they are missing.

    Raises
    ------
    TypeError, ValueError
        They are not real numbers, are infinite, or all are missing.
    """
    data = as_array("observed", observed).copy()
    if np.isinf(data).any():
        raise ValueError(
            f"observed={_short(data)}: expected finite numbers, or NaN where data are missing"
        )
    if not np.isfinite(data).any():
        raise ValueError(
            f"observed={_short(data)}: expected at least one number that is not missing"
        )
    return data


def check_data(name: str, data: np.ndarray, valid: np.ndarray, expected: str) -> None:
    """Raise a ValueError that names the first value that is neither valid nor missing."""
    odd = data[~valid & ~np.isnan(data)]
    if odd.size:
        raise ValueError(f"{name} has the value {odd.flat[0]:g}: expected {expected}")


def as_terms(name: str, given: Any, shape: tuple[int, ...]) -> tuple[Term, ...]:
    """Return the terms of an argument.

    The argument is a number, an array, a name, or a list with a name or an array among these.
    """
    if given is None:
        return ()
    several = isinstance(given, (list, tuple)) and any(
        isinstance(one, (str, np.ndarray)) for one in given
    )
    return tuple(as_term(name, one, shape) for one in (given if several else [given]))


def as_term(name: str, given: Any, shape: tuple[int, ...]) -> Term:
    """Return a parameter's name, or positive numbers that broadcast with the data.

    Raises
    ------
    TypeError, ValueError
        Neither of these.
    """
    if isinstance(given, str):
        return given
    if isinstance(given, (bool, np.bool_)):
        raise TypeError(f"{name}={given!r}: expected positive numbers, or the name of a parameter")
    numbers = as_array(name, given)
    if not (np.isfinite(numbers).all() and (numbers > 0).all()):
        raise ValueError(
            f"{name}={_short(numbers)}: expected positive numbers, or the name of a parameter"
        )
    return fitting(name, numbers, shape)


def as_bound(name: str, given: Any, shape: tuple[int, ...]) -> np.ndarray | None:
    """Return a bound of the data, or None if there is none.

    Its numbers broadcast with the data and may be infinite.
    """
    if given is None:
        return None
    numbers = as_array(name, given)
    if np.isnan(numbers).any():
        raise ValueError(
            f"{name}={_short(numbers)}: expected numbers, infinite where there is no bound"
        )
    return fitting(name, numbers, shape)


def fitting(name: str, numbers: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return the numbers if they broadcast to the shape of the data; ValueError if not."""
    try:
        np.broadcast_to(numbers, shape)
    except ValueError:
        raise ValueError(
            f"{name} has the shape {numbers.shape}: expected a number, or an array that broadcasts "
            f"to the shape of the data, {shape}"
        ) from None
    return numbers


def names_of(terms: tuple[Term, ...]) -> list[str]:
    """Return the parameters' names among terms."""
    return [term for term in terms if isinstance(term, str)]


def value_of(
    name: str, term: Term, parameters: Mapping[str, Any], shape: tuple[int, ...]
) -> np.ndarray:
    """Return the numbers of a term at some parameters.

    Raises
    ------
    ValueError
        There is no such parameter, or its value does not broadcast with the data.
    """
    if not isinstance(term, str):
        return term
    if term not in parameters:
        raise ValueError(
            f"{name}={term!r} is not a parameter: expected some of {', '.join(parameters)}"
        )
    return fitting(f"{name}={term!r}", np.asarray(parameters[term], float), shape)


def summed_to(gradient: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Sum derivatives (n, ...) over the axes along which a value of this shape was broadcast."""
    lead = gradient.ndim - len(shape)
    axes = tuple(lead + i for i, size in enumerate(shape) if size == 1)
    return gradient.sum(axis=(*range(lead), *axes)).reshape(shape)


def _short(numbers: np.ndarray) -> str:
    with np.printoptions(threshold=6, edgeitems=2, linewidth=10**6):
        return np.array2string(numbers, separator=", ").replace("\n", "")
