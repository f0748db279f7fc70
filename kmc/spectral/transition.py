"""The transition operator of a Markov process, from trajectories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from kmc.arrays import to_numpy
from kmc.bases.base import centers_of
from kmc.checks import check_choice, check_count
from kmc.errors import warn
from kmc.estimator import as_points
from kmc.kernels import Kernel
from kmc.seeds import Seed, as_generator
from kmc.selection import Numbers
from kmc.source import Source, check_lagtime, check_repeatable, is_stream, look, open_source
from kmc.spectral.coarse import Segments, jackknife
from kmc.spectral.sections import MOST_FOR_LANDMARKS
from kmc.spectral.transition_functions import TransitionFunctions
from kmc.spectral.transition_modes import (
    DRIFT,
    MODES_OF_DENSITY,
    StationaryDensity,
    drift,
    paired,
    refuse_two,
    timescales,
    warn_of_nan,
)
from kmc.spectral.transition_selection import (
    Selected,
    chosen_setting,
    compared_bases,
    modes_of,
    moments,
)


class TransitionOperator(TransitionFunctions):
    r"""Slow modes of a Markov process, from one or more trajectories.

    The operator maps a function f to its expectation a lagtime later, :math:`(Kf)(x) =
    E[f(x_{t+\tau}) | x_t = x]`. Its eigenfunctions with eigenvalues near one are the slow modes.
    They are computed in the span of kernel sections at landmarks, by the variational principle: of
    all functions of unit variance they have the largest autocorrelation.

    Parameters
    ----------
    lagtime : int
        τ, in samples.
    n_components : int
        Number of modes, without the constant.
    kernel : str or kernel
        As in :func:`kmc.kernels.kernel_of`.
    bandwidth : "cv", "median", float or sequence of float
        In the units of X; "median" is the median distance between samples. For "cv" (1/8 to 2
        median distances) or a sequence, the one whose modes have the best score on held-out parts
        of the trajectories is chosen. For a kernel given by name the largest three are also tried
        in a metric that is learned from the slow modes, see Notes.
    regularization : "cv", float or sequence of float
        ε, added to the covariance of the basis in units of its mean variance; chosen together with
        the bandwidth.
    n_basis : int
        Number of landmarks; all distinct samples if there are fewer.
    landmarks : {"uniform", "pivoted-cholesky", "k-means"} or array_like, shape (m, d)
    basis : "nystrom" or object of kmc.bases
        Kernel sections at landmarks, or functions of your own, such as the features of a model of
        deeptime: ``kmc.bases.UserFunctions(model.transform, size=model.output_dimension)``. For
        these, the four parameters above but for the regularization are not used.
    reversible : bool
        Whether the process is reversible in time, as most Markov chain Monte Carlo is: then each
        pair of samples counts in both directions, and the eigenvalues are real; trajectories that
        start off equilibrium are reweighted, see Notes. If not, the modes are the singular
        functions of VAMP (Wu and Noé 2020).
    random_state : int, Generator or None
        For the choice of landmarks.

    Attributes
    ----------
    eigenvalues_ : ndarray, shape (k,)
        Without the constant's 1. If reversible, real and descending; otherwise of the operator
        within the span of the modes, complex, descending by absolute value.
    singular_values_ : ndarray, shape (k,)
        Descending; if reversible, the absolute eigenvalues.
    timescales_ : ndarray, shape (k,)
        -τ / log λ in samples; NaN, with a warning, for an eigenvalue that is complex or outside (0,
        1).
    timescale_errors_ : ndarray, shape (k,)
        Standard errors of the time scales, by jackknife over sixteen parts of the data in time,
        within the span of the modes; NaN if there are too few parts. If samples were reweighted, at
        least those without detailed balance.
    spectral_gap_ : float
        1 - λ₁ for one lagtime; 1 - |λ₁| if not reversible.
    bandwidth_, regularization_, landmarks_
        The chosen ones; NaN and None for a given basis.
    rank_ : int
        Number of functions in the span of the ``n_basis`` sections that are linearly independent to
        working precision, or of the given ones.
    metric_ : ndarray, shape (d, d), or None
        The matrix A of the kernel k(Ax, Ay), if it was learned and is better. It keeps the median
        distance.
    cv_results_ : dict of ndarray
        The candidates (bandwidth, regularization, whether in the learned metric) and their held-out
        VAMP-2 ``score``; empty if there was nothing to choose. Of those whose first mode has a
        score within a standard error of the best one's, the one with the largest score is chosen.
        Scores of the chosen bandwidth are by all pairs.
    n_features_in_ : int

    Notes
    -----
    Time O(n p²) for p landmarks; memory O(block p + p²), and a byte for each row. Candidates are
    compared by sixteen parts in time as four folds (if the number of rows is not known, by blocks
    of 2048 rows in turn). If there are more than 30,000 pairs, bandwidths are compared on so many,
    evenly spaced over all trajectories; then all pairs are read once, to choose the regularization
    for that bandwidth and to fit the modes. An iterator, which can be read only once, is read for
    all bandwidths together. For an iterator the landmarks and the median distance come from the
    first 20,000 rows, otherwise from random ones. See [1]_ for the variational principle, [2]_ for
    the score.

    If the modes of a reversible fit change, on average, by five standard errors from the starts to
    the ends of eight trajectories or more, these did not start in equilibrium, and counting pairs
    in both directions would be wrong. The pairs are then weighted by the stationary density from
    the operator without detailed balance ([3]_); see :meth:`stationary_weights`.

    A slow function of a few of many coordinates is not in the span of ``n_basis`` sections of a
    kernel that weighs all alike. So the gradients of the modes of the best bandwidth, each weighted
    by its time scale, give a metric in which directions are longer the more the slowest modes vary
    along them ([4]_); held-out scores decide whether it is used. It is not tried for an iterator.
    Time scales are still lower bounds, up to noise, and standard errors say nothing of functions
    that are not in the span: compare a larger ``n_basis``.

    Modes that the trajectories never visit cannot be detected: if no trajectory leaves its basin,
    the slowest mode is that of the basins between trajectories, with an eigenvalue of one, and if
    all are in the same basin nothing indicates another.

    References
    ----------
    .. [1] Noé and Nüske (2013), "A variational approach to modeling slow processes in stochastic
       dynamical systems".
    .. [2] Wu and Noé (2020), "Variational approach for learning Markov processes from time series
       data".
    .. [3] Wu, Nüske, Paul, Klus, Koltai and Noé (2017), "Variational Koopman models: slow
       collective variables and molecular kinetics from short off-equilibrium simulations".
    .. [4] Radhakrishnan, Beaglehole, Pandit and Belkin (2024), "Mechanism for feature learning in
       neural networks and backpropagation-free machine learning models": the same for regression.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.spectral import TransitionOperator
    >>> rng, x = np.random.default_rng(0), np.zeros((20_000, 1))
    >>> for t in range(1, len(x)):
    ...     x[t] = 0.9 * x[t - 1] + rng.standard_normal()
    >>> operator = TransitionOperator(n_components=2, n_basis=30, random_state=0).fit(x)
    >>> operator.eigenvalues_.round(2)  # 0.9 and 0.9²
    array([0.9 , 0.81])
    >>> mode = operator.transform(x)[:, 0]
    >>> bool(abs(np.corrcoef(mode, x[:, 0])[0, 1]) > 0.99)
    True
    """

    def __init__(
        self,
        lagtime: int = 1,
        n_components: int = 10,
        kernel: str | Kernel = "gaussian",
        bandwidth: Numbers = "cv",
        regularization: Numbers = "cv",
        n_basis: int = 200,
        landmarks: Any = "uniform",
        basis: Any = "nystrom",
        reversible: bool = True,
        random_state: Seed = None,
    ):
        self.lagtime = lagtime
        self.n_components = n_components
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.regularization = regularization
        self.n_basis = n_basis
        self.landmarks = landmarks
        self.basis = basis
        self.reversible = reversible
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, weights: Any = None) -> Self:
        """Fit to trajectories.

        Parameters
        ----------
        X : array_like (n, d), memory map, dask array, iterator of blocks (k, d), or list of these
            Each item of a list is a trajectory, anything else is one trajectory; rows follow each
            other in time. Keep repeated rows, such as those after rejected proposals of a Markov
            chain.
        y : array_like (n, d), optional
            For pairs of states: the ones a lagtime after the rows of X, which then need not be a
            trajectory. Labels (n,) are ignored.
        weights : array_like, shape (n,), or list of these, one for each trajectory, optional
            Weights of the samples, not negative; a pair has the weight of its first sample.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            All trajectories are shorter than the lagtime, points are not finite or all equal, or a
            parameter is out of its range; the message names it.
        """
        for name, least in (("lagtime", 1), ("n_components", 1), ("n_basis", 2)):
            check_count(self, name, least)
        if not isinstance(self.reversible, (bool, np.bool_)):
            raise TypeError(f"reversible={self.reversible!r}: expected True or False")
        if isinstance(self.basis, str):
            check_choice(self, "basis", ("nystrom",))
        self._density: StationaryDensity | None = None
        self._one_way: Segments | None = None
        rng = as_generator(self.random_state)
        source, lagtime, ends = self._pairs_or_trajectories(X, y, weights)
        check_lagtime(source, lagtime)
        sample, source = look(source, MOST_FOR_LANDMARKS, rng)
        self.n_features_in_ = sample.x.shape[1]
        selected = chosen_setting(
            self, *compared_bases(self, sample, rng), source, lagtime, sample.counted()
        )
        if self.reversible:
            selected = self._in_equilibrium(selected, source, lagtime, ends)
        self._keep(selected)
        self._find_reach(sample.x)
        self._find_sets(sample.x)
        self.bandwidth_, self.regularization_ = (
            selected.candidate.bandwidth,
            selected.regularization,
        )
        self.metric_ = selected.candidate.metric
        self.cv_results_ = selected.table
        return self

    def _in_equilibrium(
        self, selected: Selected, source: Source, lagtime: int, ends: Any
    ) -> Selected:
        """Return the selection, with reweighted samples if the trajectories start off equilibrium.

        ``ends`` are the first and the last states of all trajectories, if they are not those of
        ``source``.
        """
        basis = selected.candidate.basis
        if not isinstance(source.x, list) or not all(hasattr(x, "shape") for x in source.x):
            return selected
        trajectories = [to_numpy(x).astype(float, copy=False) for x in source.x]
        if ends is None:
            ends = tuple(np.array([x[row] for x in trajectories if len(x)]) for row in (0, -1))
        moved = drift(basis, selected.modes, *ends)
        if moved < DRIFT:
            return selected
        (segments,) = moments([basis], source, lagtime, False)
        total = sum(segments[1:], segments[0])
        one_way = modes_of(
            total, selected.regularization, max(self.n_components, MODES_OF_DENSITY), False
        )
        parts = [part.within(one_way.left).about(one_way.left_mean) for part in segments]
        self._one_way = Segments(parts, False)
        density = StationaryDensity(basis, one_way)
        weights, given = [density(x) for x in trajectories], source.weights
        if given is not None:
            rows = (
                np.concatenate([np.asarray(w) for w in given])
                if isinstance(given, (list, tuple))
                else given
            )
            weights = list(
                np.split(
                    np.concatenate(weights) * rows, np.cumsum([len(x) for x in trajectories])[:-1]
                )
            )
        flat = np.concatenate(weights)
        share = flat.sum() ** 2 / (len(flat) * np.sum(flat**2))
        warn(
            f"the trajectories did not start in equilibrium (a mode changes by {moved:.0f} "
            "standard errors from their starts to their ends): samples are reweighted (Koopman "
            f"reweighting, effective share {share:.2f}); for score and ck_test pass "
            "weights=stationary_weights(X), or use reversible=False"
        )
        (segments,) = moments(
            [basis], source._replace(x=trajectories, weights=weights), lagtime, True
        )
        candidate = selected.candidate._replace(segments=segments)
        self._density = density
        modes = modes_of(candidate.total(), selected.regularization, self.n_components, True)
        return selected._replace(candidate=candidate, modes=modes)

    def _pairs_or_trajectories(self, X: Any, y: Any, weights: Any) -> tuple[Source, int, Any]:
        """Return trajectories, the lagtime in their rows, and the states of the pairs if given."""
        refuse_two(X)
        if y is None or np.asarray(y).ndim < 2:
            return open_source(self, X, weights), self.lagtime, None
        first = self._check_points(X, fitting=True, least=2)
        found = paired(X, y, weights)
        rows = sum(len(part) for part in found.trajectories)
        source = Source(found.trajectories, np.concatenate(found.weights), rows, False)
        return source, found.lagtime, (first, as_points(y, name="y"))

    def fit_transform(self, X: Any, y: Any = None, weights: Any = None) -> Any:
        """Fit, and return the modes along these trajectories.

        See :meth:`fit` and :meth:`transform`.
        """
        return self.fit(X, y, weights).transform(X)

    def stationary_weights(self, X: Any) -> Any:
        """Return the weights of the samples in this fit.

        They are ones if the trajectories started in equilibrium.

        Parameters
        ----------
        X : array_like, shape (n, d), or list of these

        Returns
        -------
        ndarray, shape (n,), or list of these
        """
        if isinstance(X, (list, tuple)) and is_stream(X):
            return [self.stationary_weights(part) for part in X]
        x = self._check_points(X)
        return np.ones(len(x)) if self._density is None else self._density(x)

    def _keep(self, selected: Selected) -> None:
        modes = selected.modes
        basis: Any = selected.candidate.basis
        k = len(modes.singular_values)
        if k < self.n_components:
            more = (
                "a larger n_basis or a smaller bandwidth"
                if isinstance(self.basis, str)
                else "more functions"
            )
            warn(
                f"n_components={self.n_components}: the samples determine only {k} modes, and "
                f"there are {k}; {more} would give more"
            )
        self._modes, self._basis = modes, basis
        parts = [
            part.within(modes.left).about(modes.left_mean) for part in selected.candidate.segments
        ]
        self._segments = Segments(parts, bool(self.reversible))
        self.landmarks_, self.rank_ = centers_of(basis.basis), basis.size
        self.eigenvalues_, self.singular_values_ = modes.eigenvalues, modes.singular_values
        self.timescales_ = timescales(self.eigenvalues_, self.lagtime)
        warn_of_nan(self.timescales_, self.eigenvalues_)
        self.timescale_errors_ = self._errors(self._segments, k)
        # the errors of the stationary density, which the others leave out
        if self._one_way is not None:
            self.timescale_errors_ = np.fmax(self.timescale_errors_, self._errors(self._one_way, k))
        leading = self.eigenvalues_[0]
        self.spectral_gap_ = float(1.0 - (leading if self.reversible else np.abs(leading)))

    def _errors(self, segments: Segments, k: int) -> np.ndarray:
        """Return the standard errors of the time scales, by jackknife."""
        count = len(segments.parts[0].first_sum)
        return jackknife(
            lambda koopman: timescales(_slowest(koopman, k), self.lagtime), segments.without(count)
        )


class ImpliedTimescales(NamedTuple):
    """Time scales at several lagtimes: those of a Markov process do not depend on the lagtime."""

    lagtimes: np.ndarray  # (m,), in samples
    timescales: np.ndarray  # (m, k), in samples, NaN where there is none
    models: list[Any]  # the fitted operators
    std_errors: np.ndarray  # (m, k), of the time scales


def implied_timescales(
    data: Any,
    lagtimes: Sequence[int],
    n_timescales: int = 5,
    *,
    estimator: Any = None,
    weights: Any = None,
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
        Gives the parameters, except ``lagtime`` and ``n_components``; by default
        ``TransitionOperator()``.
    weights : as in :meth:`TransitionOperator.fit`, optional

    Returns
    -------
    ImpliedTimescales
        :func:`kmc.plot_implied_timescales` draws it.

    Raises
    ------
    ValueError, TypeError
        Lagtimes are not increasing whole numbers, the data are an iterator, or ``fit`` raises an
        error.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.spectral import TransitionOperator, implied_timescales
    >>> rng, x = np.random.default_rng(0), np.zeros((20_000, 1))
    >>> for t in range(1, len(x)):
    ...     x[t] = 0.9 * x[t - 1] + rng.standard_normal()
    >>> model = TransitionOperator(n_basis=30, random_state=0)
    >>> found = implied_timescales(x, [1, 5], 1, estimator=model)
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
    if (
        lags.ndim != 1
        or lags.dtype.kind not in "iu"
        or not lags.size
        or lags[0] < 1
        or np.any(np.diff(lags) <= 0)
    ):
        raise ValueError(
            f"lagtimes={lagtimes!r}: expected increasing whole numbers of samples, the first at "
            f"least 1"
        )
    return lags


def _slowest(koopman: np.ndarray, count: int) -> np.ndarray:
    """Return the ``count`` first eigenvalues without the constant's, descending by real part."""
    values = np.sort_complex(np.linalg.eigvals(koopman))[::-1]
    return np.delete(values, np.argmin(np.abs(values - 1.0)))[:count]
