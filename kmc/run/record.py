"""``kmc.record``: the calls of an optimizer, as a history."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


def record(f: Callable[..., Any]) -> Record:
    """Return a function that does what f does, and keeps its arguments and values for ``history=``.

    Parameters
    ----------
    f : callable
        The log-density of a model, its log-likelihood, or its function of residuals (:func:`kmc.from_residual`). Its
        first argument is an array (d,), a dict of parameters by name, or an ``lmfit.Parameters``. Of an objective that
        an optimizer minimizes, record the function inside, ``lambda x: -recorded(x)``.

    Returns
    -------
    Record
        With the lists ``points`` and ``values``, which are copies. Calls in other processes are not recorded.

    Raises
    ------
    TypeError
        It is not callable.

    Examples
    --------
    >>> import scipy.optimize
    >>> import kmc
    >>> def log_density(x):
    ...     return -50.0 * (x[1] - x[0] ** 2) ** 2 - 0.5 * (1 - x[0]) ** 2
    >>> recorded = kmc.record(log_density)
    >>> found = scipy.optimize.minimize(lambda x: -recorded(x), [-1.0, 1.0], method="Nelder-Mead")
    >>> idata = kmc.sample(log_density, dim=2, history=recorded, max_evaluations=500, seed=1, progress=False)
    >>> len(recorded.values) == found.nfev, idata.attrs["n_history"] > 50
    (True, True)
    """
    if not callable(f):
        raise TypeError(f"f={f!r}: expected a function")
    return Record(f)


class Record:
    """A function and its calls.

    Attributes
    ----------
    points : list
        Arrays (d,), or dicts of parameters by name.
    values : list
        What the function returned at each.
    """

    def __init__(self, f: Callable[..., Any]):
        self._f = f
        self.points: list[Any] = []
        self.values: list[Any] = []

    def __repr__(self) -> str:
        return f"<{len(self.values)} calls of {self._f!r}>"

    def __call__(self, parameters: Any, *args: Any, **kwargs: Any) -> Any:
        """The function's value."""
        if isinstance(parameters, Mapping):
            point: Any = {name: np.array(getattr(one, "value", one)) for name, one in parameters.items()}
        else:
            point = np.array(parameters, dtype=float)
        value = self._f(parameters, *args, **kwargs)
        self.points.append(point)
        self.values.append(np.array(value) if isinstance(value, np.ndarray) else value)
        return value
