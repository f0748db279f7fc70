"""How the time scales of a transition operator depend on the lagtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kmc.checks import is_whole
from kmc.estimator import as_points
from kmc.kernels import Kernel
from kmc.selection import name_of
from kmc.source import check_repeatable, is_stream
from kmc.spectral.pairs import refuse_two
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


# VAMP-2 scores of transition operators on held-out trajectories, for the choice of a kernel and a lagtime.


class HeldOutScores(NamedTuple):
    """VAMP-2 scores of each kernel at each lagtime on held-out trajectories."""

    lagtimes: np.ndarray  # (m,), in samples
    kernels: list[str | Kernel]  # (q,)
    scores: np.ndarray  # (m, q, f), of each fold; NaN where all of its trajectories are too short

    @property
    def mean(self) -> np.ndarray:
        """(m, q), over the folds."""
        return np.nanmean(self.scores, axis=2)

    @property
    def std_errors(self) -> np.ndarray:
        """(m, q), of the means, by the differences between the folds."""
        count = np.sum(np.isfinite(self.scores), axis=2)
        return np.nanstd(self.scores, axis=2, ddof=1) / np.sqrt(count)

    @property
    def best(self) -> list[str | Kernel]:
        """The kernel with the largest mean score at each lagtime."""
        return [self.kernels[column] for column in np.argmax(self.mean, axis=1)]

    def __repr__(self) -> str:
        rows = [
            f"lagtime {lag}, {name_of(kernel)}: {mean:.4g} ± {error:.2g}"
            for lag, means, errors in zip(self.lagtimes, self.mean, self.std_errors)
            for kernel, mean, error in zip(self.kernels, means, errors)
        ]
        return "\n".join(["VAMP-2 scores on held-out trajectories", *rows])


def vamp2_scores(
    data: Any,
    lagtimes: Sequence[int] = (1,),
    kernels: Sequence[str | Kernel] = ("gaussian", "matern52", "inverse-multiquadric"),
    *,
    estimator: Any = None,
    n_folds: int = 4,
) -> HeldOutScores:
    """Cross-validate transition operators with several kernels and lagtimes.

    At one lagtime, a kernel with a larger score has modes that are closer to the slowest ones. Scores at different
    lagtimes are not comparable, since all singular values decay: a lagtime is long enough if the time scales of
    :func:`implied_timescales` are constant from there on, and too long if the held-out score falls to the 1 of the
    constant, within its error.

    Parameters
    ----------
    data : array_like (n, d), or list of these
        A trajectory, or several.
    lagtimes : sequence of int
        In samples.
    kernels : sequence of str or kernel
    estimator : TransitionOperator, optional
        Gives the parameters, except ``lagtime`` and ``kernel``; by default ``TransitionOperator(n_components=5)``. Only
        scores of the same number of modes can be compared. Its bandwidth and regularization are chosen anew in each
        fold, by the other folds.
    n_folds : int
        Trajectories are held out in turn; if there are fewer than ``n_folds``, each is cut into so many parts.

    Returns
    -------
    HeldOutScores

    Raises
    ------
    ValueError, TypeError
        Lagtimes are not increasing whole numbers, ``n_folds`` is not a whole number of at least 2, there are no
        kernels, the data are an iterator, or ``fit`` raises an error.

    Notes
    -----
    ``score`` is VAMP-2 in scikit-learn's searches, too: ``GridSearchCV(TransitionOperator(), {"kernel": [...]})`` with
    a list of trajectories.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.spectral import TransitionOperator, vamp2_scores
    >>> rng, x = np.random.default_rng(0), np.zeros((4_000, 1))
    >>> for t in range(1, len(x)):
    ...     x[t] = 0.9 * x[t - 1] + rng.standard_normal()
    >>> estimator = TransitionOperator(n_components=1, n_basis=30, random_state=0)
    >>> found = vamp2_scores(x, [1, 5], ["gaussian"], estimator=estimator)
    >>> bool(np.all(np.abs(found.mean[:, 0] - [1 + 0.9**2, 1 + 0.9**10]) < 0.1))
    True
    """
    lags, found = increasing(lagtimes), list(kernels)
    if not found:
        raise ValueError(f"kernels={kernels!r}: expected at least one")
    if not is_whole(n_folds) or n_folds < 2:
        raise ValueError(f"n_folds={n_folds!r}: expected a whole number of at least 2")
    parts = _parts(data, int(n_folds))
    options = {"n_components": 5} if estimator is None else estimator.get_params(deep=False)
    scores = np.full((len(lags), len(found), n_folds), np.nan)
    for i, lag in enumerate(lags):
        for j, kernel in enumerate(found):
            operator = TransitionOperator(**(options | {"lagtime": int(lag), "kernel": kernel}))
            for k in range(n_folds):
                held_out = [part for part in parts[k::n_folds] if len(part) > lag]
                if held_out:
                    rest = [part for number, part in enumerate(parts) if number % n_folds != k]
                    scores[i, j, k] = operator.fit(rest).score(held_out)
    return HeldOutScores(lags, found, scores)


def _parts(data: Any, n_folds: int) -> list[np.ndarray]:
    """Trajectories; number i is in fold i modulo ``n_folds``."""
    refuse_two(data)
    check_repeatable(data)
    several = isinstance(data, (list, tuple)) and is_stream(data)
    trajectories = [as_points(part) for part in (data if several else [data])]
    if len(trajectories) >= n_folds:
        return trajectories
    return [piece for trajectory in trajectories for piece in np.array_split(trajectory, n_folds)]
