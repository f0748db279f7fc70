"""Evaluate quantities of the parameters at many points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kmc.readout.evaluated import Result


class Quantities:
    """k numbers at each point: all parameters, or the output of a user's function.

    Parameters
    ----------
    f : callable or None
    vectorized : bool
        Whether f takes many points at once.
    result : Result

    Attributes
    ----------
    labels : list of str
        Known after the first call.
    """

    def __init__(self, f: Callable[[Any], Any] | None, vectorized: bool, result: Result):
        if f is not None and not callable(f):
            raise TypeError(f"f={f!r}: expected a function of the parameters, or None for the parameters themselves")
        self._f, self._vectorized, self._result = f, vectorized, result
        self._shape: tuple[int, ...] | None = None
        self.labels: list[str] = []

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """At vectors (..., d): (..., k).

        Raises
        ------
        TypeError, ValueError
            f returned something that is not real and finite, or a different shape than before.
        """
        rows = points.reshape(-1, points.shape[-1])
        values = self._result.constrain(rows)
        found = self._parameters(values) if self._f is None else self._of_user(values, len(rows))
        return found.reshape(*points.shape[:-1], found.shape[1])

    def _parameters(self, values):
        names = [name for name in self._result.labels if name in values]
        self.labels = [label for name in names for label in self._result.labels[name]]
        return np.column_stack([np.reshape(values[name], (len(values[name]), -1)) for name in names]).astype(float)

    def _of_user(self, values, n):
        if self._vectorized:
            found = self._call(values if self._result.named else values["x"])
            array = self._checked(found, found, 1)
            if len(array) != n:
                raise ValueError(f"f returned {len(array)} values for {n} points: expected one for each")
            return array.reshape(n, -1)
        out = None
        for i in range(n):
            found = self._call(self._point(values, i))
            array = self._checked(found, found, 0)
            if out is None:
                out = np.empty((n, array.size))
            out[i] = array.ravel()
        return out

    def _call(self, values):
        assert self._f is not None
        return self._f(values)

    def _point(self, values, i):
        if not self._result.named:
            return values["x"][i].copy()
        return {name: value[i].copy() if value.ndim > 1 else float(value[i]) for name, value in values.items()}

    def _checked(self, found, shown, leading):
        try:
            array = np.asarray(found)
            if array.dtype.kind not in "biuf":
                raise TypeError(f"of type {array.dtype}")
            array = array.astype(float)
        except (TypeError, ValueError) as error:
            raise TypeError(f"f returned {shown!r}: expected a real number or an array of them") from error
        shape = array.shape[leading:]
        if self._shape is None:
            self._shape = shape
            name = getattr(self._f, "__name__", "f")
            name = name if name.isidentifier() else "f"
            self.labels = [name + (f"[{', '.join(map(str, index))}]" if index else "") for index in np.ndindex(shape)]
        if shape != self._shape:
            raise ValueError(f"f returned an array of shape {shape} and one of {self._shape} before: expected the same")
        if not np.all(np.isfinite(array)):
            raise ValueError(f"f returned {shown!r}: expected finite numbers at every point of the posterior")
        return array
