"""A user's own functions as a basis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kmc.bases.base import Basis
from kmc.checks import as_array, is_whole

Evaluator = Callable[[np.ndarray], Any]


class UserFunctions(Basis):
    """Functions given by callables, whose results are checked.

    Parameters
    ----------
    values : callable
        Points (n, d) to values (n, p).
    gradients : callable, optional
        To (n, p, d); the forms "dirichlet" and "linear" need it.
    laplacians : callable, optional
        To (n, p); the form "linear" needs it.
    size : int
        Number of functions p. Leave the constant out: score matching does not depend on it.

    Raises
    ------
    TypeError
        An evaluator is not callable, or one that was not given is needed.
    ValueError
        ``size`` is not positive; or a result has a different shape than above, or is not finite.

    Notes
    -----
    Forms and contractions call the evaluators, slice by slice. Jitted loops cannot call them: register a jitted
    state of your own in :mod:`kmc.jitted` for that.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.bases import UserFunctions
    >>> waves = UserFunctions(np.sin, lambda x: np.cos(x)[:, :, None], lambda x: -np.sin(x), size=1)
    >>> waves.gradients(np.array([[0.0]]))
    array([[[1.]]])
    """

    size: int

    def __init__(
        self, values: Evaluator, gradients: Evaluator | None = None, laplacians: Evaluator | None = None, *, size: int
    ):
        if not is_whole(size) or size < 1:
            raise ValueError(f"size={size!r}: expected the number of functions, a whole number of at least 1")
        self._evaluators = {"values": values, "gradients": gradients, "laplacians": laplacians}
        for name, evaluator in self._evaluators.items():
            if not callable(evaluator) and (evaluator is not None or name == "values"):
                raise TypeError(f"{name}={evaluator!r}: expected a callable of points (n, d)")
        self.size = int(size)

    def __repr__(self) -> str:
        given = [name for name, evaluator in self._evaluators.items() if evaluator is not None]
        return f"UserFunctions({', '.join(given)}, size={self.size})"

    def values(self, x: np.ndarray) -> np.ndarray:
        """(n, p) values."""
        return self._evaluate("values", x, (len(x), self.size))

    def gradients(self, x: np.ndarray) -> np.ndarray:
        """(n, p, d) gradients."""
        return self._evaluate("gradients", x, (len(x), self.size, x.shape[1]))

    def laplacians(self, x: np.ndarray) -> np.ndarray:
        """(n, p) Laplacians."""
        return self._evaluate("laplacians", x, (len(x), self.size))

    def _evaluate(self, name, x, shape):
        evaluator = self._evaluators[name]
        if evaluator is None:
            raise TypeError(f"{name}=None: this needs the {name} of the functions, give UserFunctions(..., {name}=...)")
        out = as_array(f"{name}(x)", evaluator(x))
        if out.shape != shape:
            raise ValueError(f"{name}(x) returned shape {out.shape} for {shape[0]} points: expected {shape}")
        if not np.all(np.isfinite(out)):
            n, a = np.argwhere(~np.isfinite(out))[0][:2]
            raise ValueError(f"{name}(x) returned NaN or infinity, first of function {a} at x = {x[n]}")
        return out
