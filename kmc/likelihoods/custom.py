"""A likelihood that is a function of the user's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kmc.arrays import as_array
from kmc.likelihoods.base import by_differences


class Custom:
    """A function of the outputs and of some parameters, which holds the data itself.

    Parameters
    ----------
    f : callable
        Takes the outputs, an array as the simulator returns it, and the values of `parameters`, an
        array (k,) in that order; arrays among them are raveled. It returns an array: the
        log-likelihood of each observation.
    parameters : sequence of str
        Names of the parameters that it needs.
    gradient : callable, optional
        Takes the same arguments, and returns the gradients of the sum of the log-likelihoods: along
        the outputs, in their shape, and along the values (k,). By default they are central
        differences.

    Raises
    ------
    TypeError, ValueError
        An invalid argument; the message has its name and its value.

    Notes
    -----
    Results have no groups ``posterior_predictive`` and ``observed_data`` for it, as only the
    function knows the data.

    Examples
    --------
    >>> import numpy as np
    >>> import kmc
    >>> data = np.array([1.0, 2.0])
    >>> laplace = kmc.likelihoods.Custom(
    ...     lambda outputs, values: -abs(data - outputs) / values[0] - np.log(2 * values[0]),
    ...     parameters=["scale"],
    ... )
    >>> laplace.log_likelihoods(np.array([1.0, 1.0]), {"scale": 1.0})
    array([-0.69, -1.69])
    """

    observed: np.ndarray | None = None

    def __init__(
        self,
        f: Callable[[np.ndarray, np.ndarray], Any],
        parameters: Sequence[str] = (),
        *,
        gradient: Callable[[np.ndarray, np.ndarray], Any] | None = None,
    ):
        if not callable(f):
            raise TypeError(
                f"f={f!r}: expected a function of the outputs and of an array of parameters' values"
            )
        if isinstance(parameters, str) or not all(isinstance(name, str) for name in parameters):
            raise TypeError(f"parameters={parameters!r}: expected a list of parameters' names")
        if gradient is not None and not callable(gradient):
            raise TypeError(f"gradient={gradient!r}: expected a function of the arguments of f")
        self.f, self.gradient = f, gradient
        self._names = tuple(parameters)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters that the function needs."""
        return self._names

    @property
    def can_draw(self) -> bool:
        """Never: the function gives no draws."""
        return False

    def log_likelihoods(self, outputs: Any, parameters: Mapping[str, Any]) -> np.ndarray:
        """Return what the function returns, as an array of numbers."""
        return as_array("f", self.f(as_array("outputs", outputs), self._array(parameters)))

    def gradients(
        self, outputs: Any, parameters: Mapping[str, Any]
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Return the gradients of the sum of the log-likelihoods.

        See :meth:`kmc.likelihoods.Likelihood.gradients`.
        """
        x, values = as_array("outputs", outputs), self._array(parameters)
        if self.gradient is None:
            along = by_differences(lambda at: float(np.sum(self.f(at, values))), x)
            along_values = by_differences(lambda at: float(np.sum(self.f(x, at))), values)
        else:
            along, along_values = (as_array("gradient", part) for part in self.gradient(x, values))
            if along.shape != x.shape or along_values.shape != values.shape:
                raise ValueError(
                    f"gradient returned the shapes {along.shape} and {along_values.shape}: "
                    f"expected {x.shape}, as the outputs have, and {values.shape}"
                )
        sizes = [np.size(parameters[name]) for name in self._names]
        parts = np.split(along_values, np.cumsum(sizes)[:-1]) if sizes else []
        return along, {
            name: part.reshape(np.shape(parameters[name])) for name, part in zip(self._names, parts)
        }

    def draw(
        self, outputs: Any, parameters: Mapping[str, Any], rng: np.random.Generator
    ) -> np.ndarray:
        """Raise a TypeError, as the function gives no draws."""
        raise TypeError("kmc.likelihoods.Custom gives no draws: simulate data with kmc.predictive")

    def _array(self, parameters: Mapping[str, Any]) -> np.ndarray:
        if unknown := [name for name in self._names if name not in parameters]:
            raise ValueError(
                f"parameters has {unknown[0]!r}: expected some of {', '.join(parameters)}"
            )
        return np.concatenate([np.empty(0), *(np.ravel(parameters[name]) for name in self._names)])
