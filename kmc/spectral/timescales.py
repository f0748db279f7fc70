"""How the time scales of a transition operator depend on the lagtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kmc.source import check_repeatable
from kmc.spectral.transition import TransitionOperator


class ImpliedTimescales(NamedTuple):
    """Time scales at several lagtimes: those of a Markov process do not depend on the lagtime."""

    lagtimes: np.ndarray  # (m,), in samples
    timescales: np.ndarray  # (m, k), in samples, NaN where there is none
    models: list[Any]  # the fitted operators
    std_errors: np.ndarray  # (m, k), of the time scales


def implied_timescales(
    data: Any, lagtimes: Sequence[int], n_timescales: int = 5, *, estimator: Any = None, weights: Any = None
) -> ImpliedTimescales:
    """Fit a transition operator at each lagtime.

    Parameters
    ----------
    data : array_like (n, d), or list of these
        A trajectory, or several. Not an iterator: it is read for every lagtime.
    lagtimes : sequence of int
        In samples.
    n_timescales : int
        Number of time scales, the slowest first.
    estimator : TransitionOperator, optional
        Gives the parameters, except ``lagtime`` and ``n_components``; by default ``TransitionOperator()``.
    weights : as in :meth:`TransitionOperator.fit`, optional

    Returns
    -------
    ImpliedTimescales
        :func:`kmc.plot_implied_timescales` draws it.

    Raises
    ------
    ValueError, TypeError
        Lagtimes are not increasing whole numbers, the data are an iterator, or ``fit`` raises an error.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.spectral import TransitionOperator, implied_timescales
    >>> rng, x = np.random.default_rng(0), np.zeros((20_000, 1))
    >>> for t in range(1, len(x)):
    ...     x[t] = 0.9 * x[t - 1] + rng.standard_normal()
    >>> found = implied_timescales(x, [1, 5], 1, estimator=TransitionOperator(n_basis=30, random_state=0))
    >>> bool(np.all(np.abs(found.timescales - 9.5) < 1.0))  # -1 / log 0.9
    True
    """
    lags = increasing(lagtimes)
    check_repeatable(data)
    options = {} if estimator is None else estimator.get_params(deep=False)
    models = []
    for lag in lags:
        options.update(lagtime=int(lag), n_components=n_timescales)
        models.append(TransitionOperator(**options).fit(data, weights=weights))
    found, errors = np.full((2, len(lags), n_timescales), np.nan)
    for row, error, model in zip(found, errors, models):
        row[: len(model.timescales_)] = model.timescales_
        error[: len(model.timescales_)] = model.timescale_errors_
    return ImpliedTimescales(lags, found, models, errors)


def increasing(lagtimes: Sequence[int]) -> np.ndarray:
    """Lagtimes (m,), checked."""
    lags = np.atleast_1d(np.asarray(lagtimes))
    if lags.ndim != 1 or lags.dtype.kind not in "iu" or not lags.size or lags[0] < 1 or np.any(np.diff(lags) <= 0):
        raise ValueError(f"lagtimes={lagtimes!r}: expected increasing whole numbers of samples, the first at least 1")
    return lags
