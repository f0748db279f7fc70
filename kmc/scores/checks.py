"""Checks of the samples for score estimation."""

from __future__ import annotations

from typing import Any

import numpy as np


def check_samples(x: np.ndarray, estimator: Any = None, weights: np.ndarray | None = None) -> None:
    """Raise a ValueError for samples to which no density with a score can be fitted.

    Parameters
    ----------
    x : ndarray, shape (n, d)
        Finite.
    estimator : Estimator, optional
        Its ``feature_names_in_``, if any, name the columns in messages.
    weights : ndarray, shape (n,), optional
        Not negative; samples of weight zero do not count.

    Raises
    ------
    ValueError
        Fewer than two samples count, all of them are equal, or a column is constant (up to rounding): a density
        with all its mass in a plane has no gradient across it.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.scores.checks import check_samples
    >>> check_samples(np.array([[0.0, 1.0], [1.0, 1.0]]))
    Traceback (most recent call last):
        ...
    ValueError: column 1 of X is constant, 1.0 in all 2 samples: no density has a score along it, leave it out
    """
    if weights is not None:
        x = x[weights > 0]
    n = len(x)
    if n < 2:
        raise ValueError(
            f"n_samples={n}: a score needs at least 2 samples" + ("" if weights is None else " of positive weight")
        )
    low, high = x.min(axis=0), x.max(axis=0)
    constant = high - low <= 4.0 * np.finfo(float).eps * np.maximum(np.abs(low), np.abs(high))
    if np.all(constant):
        raise ValueError(f"all {n} samples in X are equal, {x[0]}: a score needs at least 2 distinct ones")
    if np.any(constant):
        j = int(np.argmax(constant))
        names = getattr(estimator, "feature_names_in_", None)
        name = "" if names is None else f" ({str(names[j])!r})"
        raise ValueError(
            f"column {j}{name} of X is constant, {x[0, j]} in all {n} samples: no density has a score along it, "
            "leave it out"
        )
