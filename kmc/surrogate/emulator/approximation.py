"""A cheap simulator of the same outputs, which may be called at any point: the surrogate learns the difference."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

FRESH = 50
"""Draws at which the cheap simulator is called for each search for hyperparameters."""


class Approximation:
    """Outputs of a cheap simulator, each computed once.

    Parameters
    ----------
    outputs : callable
        Returns outputs η (k, n) at points (k, d), rows of NaN where there are none.

    Attributes
    ----------
    points, outputs : ndarray, shapes (m, d) and (m, n)
        Those that were computed so far and are finite.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.surrogate.emulator.approximation import Approximation
    >>> cheap = Approximation(lambda x: np.where(x > 0, 2.0 * x, np.nan))
    >>> cheap.at(np.array([[1.0], [-1.0]])).ravel(), cheap.points
    (array([ 2., nan]), array([[1.]]))
    """

    def __init__(self, outputs: Callable[[np.ndarray], np.ndarray]):
        self._outputs = outputs
        self._found: dict[bytes, np.ndarray] = {}
        self.points = self.outputs = np.empty((0, 0))

    def at(self, x: np.ndarray) -> np.ndarray:
        """Return outputs (k, n) at points (k, d)."""
        new = {row.tobytes(): row for row in x if row.tobytes() not in self._found}
        if new:
            points = np.array([*new.values()])
            outputs = self._outputs(points)
            self._found |= zip(new, outputs, strict=True)
            usable = np.isfinite(outputs).all(axis=1)
            before = (self.points, self.outputs) if self.points.size else (points[:0], outputs[:0])
            self.points, self.outputs = (
                np.vstack([old, more[usable]]) for old, more in zip(before, (points, outputs), strict=True)
            )
        return np.array([self._found[row.tobytes()] for row in x])
