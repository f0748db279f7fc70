"""The transition operator of a Markov process, from trajectories."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np

from kmc.bases import Whitened
from kmc.checks import as_generator, check_count
from kmc.errors import KmcWarning
from kmc.estimator import Estimator
from kmc.forms import accumulate, accumulate_folds_each
from kmc.forms.stream import length, trajectories
from kmc.spectral.chapman_kolmogorov import SEGMENTS, CKTest, estimates, predictions
from kmc.spectral.metastable import membership_matrix
from kmc.spectral.sections import MOST_FOR_LANDMARKS, candidates, draw_landmarks, whitened_sections
from kmc.spectral.selection import N_FOLDS, regularizations
from kmc.spectral.source import BLOCK, Source, check_repeatable, folds, is_stream, look, open_source
from kmc.spectral.timescales import timescales, warn_of_nan
from kmc.spectral.transition_model import TransitionModel
from kmc.spectral.transition_modes import Modes, covariances, vamp2
from kmc.spectral.transition_selection import Candidate, select


class TransitionOperator(Estimator):
    r"""Slow modes of a Markov process, from one trajectory of it or several.

    The operator takes a function f to its expectation a lagtime later, :math:`(Kf)(x) = E[f(x_{t+\tau}) | x_t = x]`.
    Its eigenfunctions with eigenvalues near one are the slow modes. They are sought in the span of kernel sections at
    landmarks, by the variational principle: of all functions of unit variance they have the largest autocorrelation.

    Parameters
    ----------
    lagtime : int
        τ, in samples.
    n_components : int
        Number of modes, the constant not counted.
    kernel : str or kernel
        As in :func:`kmc.kernels.kernel_of`.
    bandwidth : "cv", "median", float or sequence of float
        In the units of X; "median" is the median distance between samples. Of "cv" (1/8 to 2 median distances) or a
        sequence the one is taken whose modes have the best score on held-out parts of the trajectories.
    regularization : "cv", float or sequence of float
        ε, added to the covariance of the basis in units of its mean variance; chosen together with the bandwidth.
    n_basis : int
        Number of landmarks; all distinct samples if there are fewer.
    landmarks : {"uniform", "pivoted-cholesky", "k-means"} or array_like, shape (m, d)
    reversible : bool
        Whether the process is the same backwards in time, as most Markov chain Monte Carlo is: then each pair of
        samples counts in both directions, and the eigenvalues are real. If not, the modes are the singular functions of
        VAMP (Wu and Noé 2020).
    random_state : int, Generator or None
        For the landmarks.

    Attributes
    ----------
    eigenvalues_ : ndarray, shape (k,)
        Without the constant's 1. Real and descending if reversible; else of the operator within the span of the modes,
        complex, descending by absolute value.
    singular_values_ : ndarray, shape (k,)
        Descending; if reversible, the absolute eigenvalues.
    timescales_ : ndarray, shape (k,)
        -τ / log λ in samples; NaN, with a warning, for an eigenvalue that is complex or outside (0, 1).
    spectral_gap_ : float
        1 - λ₁ for one lagtime; 1 - |λ₁| if not reversible.
    bandwidth_, regularization_, landmarks_
        What was used.
    rank_ : int
        Functions left of ``n_basis`` sections that are linearly independent to working precision.
    cv_results_ : dict of ndarray
        The candidates (bandwidth, regularization) and their held-out VAMP-2 ``score``; empty if nothing was left open.
    n_features_in_ : int

    Notes
    -----
    Time O(n p²) for each bandwidth and p landmarks; memory O(block p + p²), whatever n is. All candidates are compared
    in one pass over the data, with sixteen parts in time as four folds (blocks of 2048 rows in turn where their number
    is not known). Of an iterator the landmarks and the median distance come from the first 20,000 rows, else from
    random ones. See [1]_ for the variational principle, [2]_ for the score.

    Modes that the trajectories never visit cannot be seen: if no trajectory leaves its basin, the slowest mode is that
    of the basins between trajectories, with an eigenvalue of one, and if all are in the same basin there is no sign of
    another.

    References
    ----------
    .. [1] Noé and Nüske (2013), "A variational approach to modeling slow processes in stochastic dynamical systems".
    .. [2] Wu and Noé (2020), "Variational approach for learning Markov processes from time series data".

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

    _transformer = True

    def __init__(
        self,
        lagtime: int = 1,
        n_components: int = 10,
        kernel: Any = "gaussian",
        bandwidth: Any = "cv",
        regularization: Any = "cv",
        n_basis: int = 200,
        landmarks: Any = "uniform",
        reversible: bool = True,
        random_state: Any = None,
    ):
        self.lagtime = lagtime
        self.n_components = n_components
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.regularization = regularization
        self.n_basis = n_basis
        self.landmarks = landmarks
        self.reversible = reversible
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, weights: Any = None) -> Self:
        """Fit to trajectories.

        Parameters
        ----------
        X : array_like (n, d), memory map, dask array, iterator of blocks (k, d), or list of these
            Each item of a list is a trajectory, anything else is one; rows follow each other in time. Repeated rows,
            such as rejected proposals of a Markov chain, belong to it.
        y : ignored
        weights : array_like, shape (n,), or list of these, one for each trajectory, optional
            Of the samples, not negative; a pair has the weight of its first sample.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            For trajectories that are all shorter than the lagtime, points that are not finite or all equal, or a
            parameter out of its range; the message names it.
        """
        for name, least in (("lagtime", 1), ("n_components", 1), ("n_basis", 2)):
            check_count(self, name, least)
        if not isinstance(self.reversible, (bool, np.bool_)):
            raise TypeError(f"reversible={self.reversible!r}: expected True or False")
        epsilons = regularizations(self.regularization)
        rng = as_generator(self.random_state)
        source = open_source(self, X, weights)
        _check_shapes(source, self.lagtime)
        sample, source = look(source, MOST_FOR_LANDMARKS, rng)
        self.n_features_in_ = sample.x.shape[1]
        bandwidths = candidates(self, sample)
        seed = int(rng.integers(2**63))  # the same landmarks for every bandwidth, unless their choice depends on it
        centres = [draw_landmarks(self, sample, b, np.random.default_rng(seed)) for b in bandwidths]
        bases = [whitened_sections(self.kernel, b, c) for b, c in zip(bandwidths, centres)]
        x, labels = folds(source, N_FOLDS)
        sums = accumulate_folds_each(bases, x, ("lagged",), labels, weights=source.weights, lagtime=self.lagtime)
        parts = [
            Candidate(b, basis, [part.get("lagged") for part in of]) for b, basis, of in zip(bandwidths, bases, sums)
        ]
        selected = select(parts, epsilons, self.n_components, self.reversible)
        self._keep(selected.modes, selected.candidate.basis)
        self.bandwidth_, self.regularization_ = selected.candidate.bandwidth, selected.regularization
        self.cv_results_ = selected.table
        return self

    def _keep(self, modes: Modes, basis: Any) -> None:
        k = len(modes.singular_values)
        if k < self.n_components:
            warnings.warn(
                f"n_components={self.n_components}: the samples determine only {k} modes, and there are {k}; a larger "
                "n_basis or a smaller bandwidth would give more",
                KmcWarning,
                stacklevel=3,
            )
        self._modes, self._basis = modes, basis
        self.landmarks_, self.rank_ = basis.basis.centres, basis.size
        self.eigenvalues_, self.singular_values_ = modes.eigenvalues, modes.singular_values
        self.timescales_ = timescales(self.eigenvalues_, self.lagtime)
        warn_of_nan(self.timescales_, self.eigenvalues_)
        leading = self.eigenvalues_[0]
        self.spectral_gap_ = float(1.0 - (leading if self.reversible else np.abs(leading)))

    def transform(self, X: Any) -> Any:
        """The modes at points: eigenfunctions, or left singular functions if not reversible; mean zero, variance one.

        Parameters
        ----------
        X : array_like, shape (n, d), or list of these

        Returns
        -------
        ndarray, shape (n, k), or list of these
        """
        if isinstance(X, (list, tuple)) and is_stream(X):
            return [self.transform(part) for part in X]
        x = self._check_points(X)
        modes = self._left()
        parts = [modes.values(x[start : start + BLOCK]) for start in range(0, len(x), BLOCK)]
        return np.concatenate(parts) - self._modes.left_mean

    def fit_transform(self, X: Any, y: Any = None, weights: Any = None) -> Any:
        """The modes along the trajectories they are fitted to; see :meth:`fit` and :meth:`transform`."""
        return self.fit(X, y, weights).transform(X)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """transitionoperator0, transitionoperator1, ..."""
        self._check_fitted()
        return np.array([f"transitionoperator{i}" for i in range(len(self.eigenvalues_))], dtype=object)

    def score(self, X: Any, y: Any = None, weights: Any = None) -> float:
        r"""VAMP-2 score of the fitted modes on other trajectories: 1 + Σ σ² of the operator within their span.

        The same number as deeptime's for the modes of a fit and the covariances of other data: at most one plus the sum
        of the true squared singular values, but for noise. Parameters as in :meth:`fit`.
        """
        self._check_fitted()
        if not is_stream(X):
            X = self._check_points(X)
        _check_shapes(Source(X, None, length(X), False), self.lagtime)
        modes = self._modes
        k = modes.left.shape[1]
        both = modes.left if self.reversible else np.column_stack([modes.left, modes.right])
        basis = Whitened(self._basis.basis, self._basis.matrix @ both)
        lagged = accumulate(basis, X, ("lagged",), weights=weights, lagtime=self.lagtime).get("lagged")
        left = np.eye(basis.size)[:, :k]
        right = np.eye(basis.size)[:, -k:]
        return 1.0 + vamp2(covariances(lagged, self.reversible), left, right)

    def memberships(self, X: Any, n_sets: int = 2) -> np.ndarray:
        """How far points belong to metastable sets, the corners of the simplex that the n_sets - 1 slowest modes fill.

        Parameters
        ----------
        X : array_like, shape (n, d)
        n_sets : int

        Returns
        -------
        ndarray, shape (n, n_sets)
            Linear in the modes; rows sum to one, entries may lie a little outside [0, 1]. The largest entry of a row
            (``argmax(axis=1)``) names its set.
        """
        rotation = self._membership_matrix(n_sets)
        modes = self.transform(X)[:, : n_sets - 1]
        return rotation[0] + modes @ rotation[1:]

    def ck_test(self, X: Any, n_sets: int = 2, multiples: int = 5, weights: Any = None) -> CKTest:
        """Chapman–Kolmogorov test: transition probabilities between metastable sets, predicted and estimated.

        Where the lagtime is long enough for the modes to be those of a Markov process, the powers of the operator
        predict what pairs of samples at multiples of the lagtime show.

        Parameters
        ----------
        X : as in :meth:`fit`, not an iterator
        n_sets : int
            Metastable sets, see :meth:`memberships`.
        multiples : int
            Of the lagtime, from 1 up to this one.
        weights : as in :meth:`fit`, optional

        Returns
        -------
        CKTest
            :func:`kmc.plot_ck_test` draws it.
        """
        rotation = self._membership_matrix(n_sets)
        check_repeatable(X)
        if not isinstance(multiples, (int, np.integer)) or multiples < 1:
            raise ValueError(f"multiples={multiples!r}: expected a whole number of at least 1")
        powers = np.arange(1, multiples + 1)
        _check_shapes(Source(X, None, length(X), False), int(self.lagtime * multiples))
        labels = folds(Source(X, None, length(X), False), SEGMENTS)[1]
        k = n_sets - 1
        mean = self._modes.left_mean[:k]
        basis = Whitened(self._basis.basis, self._basis.matrix @ self._modes.left[:, :k])
        found = [
            estimates(basis, mean, X, weights, int(m * self.lagtime), labels, rotation, bool(self.reversible))
            for m in powers
        ]
        whole = np.zeros((len(self._modes.koopman), n_sets))
        whole[: k + 1] = rotation
        predicted = predictions(self._modes.koopman, whole, powers)
        return CKTest(
            powers * self.lagtime, predicted, np.array([e for e, _ in found]), np.array([s for _, s in found])
        )

    def fetch_model(self) -> TransitionModel:
        """The fitted operator by itself, which deeptime's tools accept."""
        self._check_fitted()
        modes = self._modes
        return TransitionModel(
            int(self.lagtime), modes.eigenvalues, modes.singular_values, modes.koopman, self._left(), modes.left_mean
        )

    def _left(self) -> Whitened:
        return Whitened(self._basis.basis, self._basis.matrix @ self._modes.left)

    def _membership_matrix(self, n_sets):
        self._check_fitted()
        most = len(self.eigenvalues_) + 1
        if not isinstance(n_sets, (int, np.integer)) or not 2 <= n_sets <= most:
            raise ValueError(f"n_sets={n_sets!r}: expected a whole number from 2 to {most}, one more than the modes")
        return membership_matrix(self.transform(self.landmarks_)[:, : n_sets - 1])


def _check_shapes(source: Source, lagtime: int) -> None:
    """Of trajectories whose shapes are known unread, all are as wide, and at least one is longer than the lagtime."""
    parts = trajectories(source.x, 2)
    if len(widths := {part.shape[1] for part in parts if len(getattr(part, "shape", ())) == 2}) > 1:
        raise ValueError(f"X has trajectories of {sorted(widths)} columns: expected as many in each")
    lengths = [length(part) for part in parts]
    known = [n for n in lengths if n is not None]
    if len(known) < len(lengths) or not known:
        return
    if max(known) <= lagtime:
        raise ValueError(
            f"lagtime={lagtime}: n_samples={max(known)} in the longest trajectory, expected more than the lagtime"
        )
    if short := sum(n <= lagtime for n in known):
        warnings.warn(
            f"lagtime={lagtime}: {short} of {len(known)} trajectories are not longer than it and are left out",
            KmcWarning,
            stacklevel=3,
        )
