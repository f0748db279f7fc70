"""Draws as points, and scores there, from a function or an estimator."""

from __future__ import annotations

from typing import Any

import numpy as np

from kmc.diagnostics.draws import read_draws


def read_points(data: Any, var_names: Any = None) -> np.ndarray:
    """Draws (chains, draws, d) from any input of :func:`kmc.diagnostics.draws.read_draws`, or from points (n, d).

    An array with two dimensions, or such a list, holds the points of one chain.
    """
    if isinstance(data, (np.ndarray, list, tuple)) and np.ndim(data) == 2:
        data = np.asarray(data)[None]
    return read_draws(data, var_names).values


def scores_at(score: Any, points: np.ndarray) -> np.ndarray:
    """∇ log p at the rows of points (n, d), shape (n, d).

    Parameters
    ----------
    score : callable or object with a method ``gradient``
        From points (n, d) to (n, d).
    points : ndarray, shape (n, d)

    Raises
    ------
    TypeError
        Neither a function nor such an object.
    ValueError
        The returned array has another shape or is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.diagnostics.scores import scores_at
    >>> scores_at(lambda x: -x, np.ones((1, 2)))
    array([[-1., -1.]])
    """
    function = getattr(score, "gradient", score)
    if not callable(function):
        raise TypeError(f"score={score!r}: expected a function of points (n, d), or an object with a method gradient")
    scores = np.asarray(function(points.copy()), dtype=float)  # a copy: the function may modify its argument
    if scores.shape != points.shape:
        raise ValueError(f"score returned an array of shape {scores.shape} for points of shape {points.shape}")
    if not np.all(np.isfinite(scores)):
        row = int(np.argmax(~np.isfinite(scores).all(axis=1)))
        raise ValueError(f"score returned NaN or infinity at the point {points[row].tolist()} (row {row})")
    return scores
