"""Functions, metastable sets and the Chapman–Kolmogorov test of a fitted transition operator."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kmc.bases import Basis, Contraction, Whitened
from kmc.checks import is_whole
from kmc.estimator import Estimator
from kmc.forms import Lagged, accumulate, accumulate_folds
from kmc.forms.stream import length
from kmc.kernels import median_distance
from kmc.selection import held_out
from kmc.source import BLOCK, Source, check_lagtime, check_repeatable, folds, is_stream
from kmc.spectral.coarse import CoarseModel, Segments, coarse_model
from kmc.spectral.tails import Reach
from kmc.spectral.transition_modes import TransitionModes, covariances, paired, refuse_two, vamp2

SEGMENTS = 16
"""Parts of the data in time, left out one at a time for the standard errors."""


class TransitionFunctions(Estimator):
    """Base of :class:`TransitionOperator`, whose ``fit`` sets ``_modes`` in terms of ``_basis``."""

    _transformer = True

    lagtime: int
    reversible: bool
    landmarks_: np.ndarray | None
    eigenvalues_: np.ndarray
    _modes: TransitionModes
    _basis: Whitened
    _segments: Segments
    _sets: dict[int, np.ndarray]
    _reach: Reach | None

    def transform(self, X: Any) -> Any:
        """Return the modes at points: eigenfunctions, or left singular functions if not reversible.

        They have mean zero and variance one.

        Parameters
        ----------
        X : array_like, shape (n, d), or list of these

        Returns
        -------
        ndarray, shape (n, k), or list of these
        """
        if isinstance(X, (list, tuple)) and is_stream(X):
            return [self.transform(part) for part in X]
        return self._modes_at(X)

    def _modes_at(self, X: Any) -> np.ndarray:
        x = self._check_points(X)
        if self._reach is not None:
            self._reach.check(x)
        modes = self._left()
        parts = [modes.values(x[start : start + BLOCK]) for start in range(0, len(x), BLOCK)]
        return np.concatenate(parts) - self._modes.left_mean

    def gradient(self, X: Any) -> np.ndarray:
        """Return the gradients (n, k, d) of the modes at X (n, d), where the kernel has them."""
        x, left = self._check_points(X), self._left()
        return np.stack(
            [Contraction(left.basis, column).gradient(x) for column in left.matrix.T], axis=1
        )

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns of :meth:`transform`.

        They are transitionoperator0, transitionoperator1, ...
        """
        self._check_fitted()
        return self._names_out(len(self.eigenvalues_), input_features)

    def score(self, X: Any, y: Any = None, weights: Any = None) -> float:
        r"""Return the VAMP-2 score of the fitted modes on other trajectories.

        It is 1 + Σ σ² of the operator within their span. It is equal to deeptime's for the modes of
        a fit and the covariances of other data: up to noise, at most one plus the sum of the true
        squared singular values. Parameters as in :meth:`fit`.
        """
        self._check_fitted()
        refuse_two(X)
        lagtime = self.lagtime
        if y is not None and np.asarray(y).ndim == 2:
            X, weights, lagtime = paired(self._check_points(X), y, weights)
        elif not is_stream(X):
            X = self._check_points(X)
        check_lagtime(Source(X, None, length(X), False), lagtime)
        modes = self._modes
        k = modes.left.shape[1]
        both = modes.left if self.reversible else np.column_stack([modes.left, modes.right])
        basis = Whitened(self._basis.basis, self._basis.matrix @ both)
        lagged = accumulate(basis, X, ("lagged",), weights=weights, lagtime=lagtime).get("lagged")
        left = np.eye(basis.size)[:, :k]
        right = np.eye(basis.size)[:, -k:]
        return 1.0 + vamp2(covariances(lagged, self.reversible), left, right)

    def memberships(self, X: Any, n_sets: int = 2) -> Any:
        """Return the memberships of points in metastable sets.

        The sets are the corners of the simplex that the n_sets - 1 slowest modes fill. The corners
        are those of the samples of the fit (of at most 20,000 random ones).

        Parameters
        ----------
        X : array_like, shape (n, d), or list of these
        n_sets : int

        Returns
        -------
        ndarray, shape (n, n_sets), or list of these
            Linear in the modes; rows sum to one, entries may be slightly outside [0, 1]. The
            largest entry of a row (``argmax(axis=1)``) is its set.
        """
        rotation = self._membership_matrix(n_sets)
        if isinstance(X, (list, tuple)) and is_stream(X):
            return [self.memberships(part, n_sets) for part in X]
        modes = self._modes_at(X)[:, : n_sets - 1]
        return rotation[0] + modes @ rotation[1:]

    def predict(self, X: Any, n_sets: int = 2) -> Any:
        """Return the metastable set with the largest entry in each point's :meth:`memberships`.

        Parameters
        ----------
        X : array_like, shape (n, d), or list of these
        n_sets : int

        Returns
        -------
        ndarray of int, shape (n,), or list of these
            From 0 to n_sets - 1.
        """
        found = self.memberships(X, n_sets)
        return (
            [part.argmax(axis=1) for part in found]
            if isinstance(found, list)
            else found.argmax(axis=1)
        )

    def ck_test(self, X: Any, n_sets: int = 2, multiples: int = 5, weights: Any = None) -> CKTest:
        """Predict and estimate the probabilities of transitions between metastable sets.

        This is the Chapman–Kolmogorov test. If the lagtime is long enough for the modes to be those
        of a Markov process, powers of the operator agree with estimates from pairs of samples at
        multiples of the lagtime.

        Parameters
        ----------
        X : as in :meth:`fit`, not an iterator
        n_sets : int
            Number of metastable sets, see :meth:`memberships`.
        multiples : int
            Largest multiple of the lagtime, from 1.
        weights : as in :meth:`fit`, optional

        Returns
        -------
        CKTest
            :func:`kmc.plot_ck_test` draws it.
        """
        rotation = self._membership_matrix(n_sets)
        check_repeatable(X)
        if not is_whole(multiples) or multiples < 1:
            raise ValueError(f"multiples={multiples!r}: expected a whole number of at least 1")
        powers = np.arange(1, multiples + 1)
        check_lagtime(Source(X, None, length(X), False), int(self.lagtime * multiples))
        labels = folds(Source(X, None, length(X), False), SEGMENTS)[1]
        k = n_sets - 1
        mean = self._modes.left_mean[:k]
        basis = Whitened(self._basis.basis, self._basis.matrix @ self._modes.left[:, :k])
        found = [
            estimates(
                basis,
                mean,
                X,
                weights,
                int(m * self.lagtime),
                labels,
                rotation,
                bool(self.reversible),
            )
            for m in powers
        ]
        whole = np.zeros((len(self._modes.koopman), n_sets))
        whole[: k + 1] = rotation
        predicted = predictions(self._modes.koopman, whole, powers)
        return CKTest(
            powers * self.lagtime,
            predicted,
            np.array([e for e, _ in found]),
            np.array([s for _, s in found]),
        )

    def coarse_grain(self, n_sets: int = 2) -> CoarseModel:
        """Return a Markov chain of metastable sets.

        It has populations, rates, passage times and committors, with standard errors.

        Parameters
        ----------
        n_sets : int
            Number of sets, see :meth:`memberships`.

        Returns
        -------
        CoarseModel

        Examples
        --------
        >>> import numpy as np
        >>> from kmc.spectral import TransitionOperator
        >>> rng, state = np.random.default_rng(0), np.zeros(20_000)
        >>> for t in range(1, len(state)):  # leaves 0 with probability .01, and 1 with .02
        ...     state[t] = (state[t - 1] + (rng.random() < (0.02 if state[t - 1] else 0.01))) % 2
        >>> operator = TransitionOperator(n_components=1, bandwidth=0.5, random_state=0)
        >>> chain = operator.fit(state[:, None]).coarse_grain(2)
        >>> bool(np.all(np.abs(np.sort(chain.passage_times[[0, 1], [1, 0]]) - [50, 100]) < 20))
        True
        """
        return coarse_model(self._segments, self._membership_matrix(n_sets), int(self.lagtime))

    def committor(self, X: Any, source: int, target: int, n_sets: int = 2) -> Any:
        """Probability of reaching one metastable set before another, in the span of the slow modes.

        Parameters
        ----------
        X : array_like, shape (n, d), or list of these
        source, target : int
            Numbers of sets, columns of :meth:`memberships`.
        n_sets : int

        Returns
        -------
        ndarray, shape (n,), or list of these
            May be slightly outside [0, 1].
        """
        values = self.coarse_grain(n_sets).committor(source, target)
        found = self.memberships(X, n_sets)
        return [part @ values for part in found] if isinstance(found, list) else found @ values

    def to_deeptime(self) -> Any:
        """Return a ``deeptime.decomposition.CovarianceKoopmanModel`` with these modes.

        deeptime's VAMP and TICA return such a model. Its features are the modes. deeptime's tools
        for validation and plots take it, as
        ``deeptime.util.validation.implied_timescales([model, ...])``.

        Raises
        ------
        ImportError
            deeptime is not installed.

        Examples
        --------
        >>> import numpy as np
        >>> from kmc.spectral import TransitionOperator
        >>> rng, x = np.random.default_rng(0), np.zeros((5_000, 1))
        >>> for t in range(1, len(x)):
        ...     x[t] = 0.9 * x[t - 1] + rng.standard_normal()
        >>> operator = TransitionOperator(n_components=2, n_basis=30, random_state=0).fit(x)
        >>> model = operator.to_deeptime()  # doctest: +SKIP
        >>> model.timescales().round(0)  # doctest: +SKIP
        array([9., 5.])
        """
        self._check_fitted()
        try:
            from deeptime.covariance import CovarianceModel
            from deeptime.decomposition import CovarianceKoopmanModel
        except ImportError as error:
            raise ImportError("to_deeptime() needs deeptime: pip install deeptime") from error
        modes = self._modes
        values = modes.eigenvalues if self.reversible else modes.singular_values
        one = np.eye(len(values))  # the covariance of the modes at either end of a pair
        covariances = CovarianceModel(
            cov_00=one,
            cov_0t=np.diag(values),
            cov_tt=one,
            mean_0=modes.left_mean,
            mean_t=modes.right_mean,
            bessels_correction=False,
            symmetrized=bool(self.reversible),
            lagtime=int(self.lagtime),
            data_mean_removed=True,
        )
        sides = [
            Whitened(self._basis.basis, self._basis.matrix @ side).values
            for side in (modes.left, modes.right)
        ]
        ranks = {"rank_0": len(values), "rank_t": len(values), "dim": len(values)}
        return CovarianceKoopmanModel(
            one,
            values,
            one,
            covariances,
            **ranks,
            instantaneous_obs=sides[0],
            timelagged_obs=sides[1],
        )

    def _left(self) -> Whitened:
        return Whitened(self._basis.basis, self._basis.matrix @ self._modes.left)

    def _membership_matrix(self, n_sets):
        self._check_fitted()
        most = len(self.eigenvalues_) + 1
        if not is_whole(n_sets) or not 2 <= n_sets <= most:
            raise ValueError(
                f"n_sets={n_sets!r}: expected a whole number from 2 to {most}, one more than the "
                f"modes"
            )
        if n_sets not in self._sets:
            raise ValueError(
                f"n_sets={n_sets}: the modes of the samples have no {n_sets} corners, ask for "
                f"fewer sets"
            )
        return self._sets[n_sets]

    def _find_reach(self, x: np.ndarray) -> None:
        """Set how far from its landmarks the fit is known, by samples (n, d) of it."""
        centers = self.landmarks_
        self._reach = None if centers is None else Reach.of(centers, x, median_distance(x))

    def _find_sets(self, x: np.ndarray) -> None:
        """Set the membership matrix for each number of sets, by the corners of samples (n, d)."""
        modes = self._modes_at(x)
        self._sets = {}
        for n_sets in range(2, modes.shape[1] + 2):
            try:
                self._sets[n_sets] = membership_matrix(modes[:, : n_sets - 1])
            except (ValueError, np.linalg.LinAlgError):  # no more corners
                break


class CKTest(NamedTuple):
    """Transition probabilities between metastable sets, from rows to columns, within some time."""

    lagtimes: np.ndarray  # (m,), in samples
    predicted: np.ndarray  # (m, s, s), powers of the operator fitted at the first lagtime
    estimated: np.ndarray  # (m, s, s), from pairs of samples that far apart
    # (m, s, s), of the estimates, by jackknife over parts of the data in time
    std_error: np.ndarray

    def largest_error(self) -> float:
        """Return the largest |predicted - estimated|.

        It is a few standard errors if the process is Markov at the lagtime.
        """
        return float(np.nanmax(np.abs(self.predicted - self.estimated)))


def predictions(koopman: np.ndarray, membership: np.ndarray, powers: np.ndarray) -> np.ndarray:
    """<χ_i, K^m χ_j> / <χ_i> for each power m, (len(powers), s, s).

    Parameters
    ----------
    koopman : ndarray, shape (k + 1, k + 1)
        In orthonormal functions ψ, the first of them is constant.
    membership : ndarray, shape (k + 1, s)
        χ = ψ B.
    powers : ndarray of int
    """
    mean = membership[0][:, None]
    return np.array(
        [membership.T @ np.linalg.matrix_power(koopman, int(m)) @ membership / mean for m in powers]
    )


def estimates(
    basis: Basis,
    mean: np.ndarray,
    x: Any,
    weights: Any,
    lagtime: int,
    labels: np.ndarray,
    membership: np.ndarray,
    reversible: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Estimates at one lagtime from pairs of samples, with jackknife standard errors, each (s, s).

    Parameters
    ----------
    basis : Basis
        The functions ψ without the constant, before their ``mean`` (k,) is subtracted.
    labels : ndarray of int, shape (n,)
        The part of the data that each sample belongs to.
    """
    parts = accumulate_folds(basis, x, ("lagged",), labels, weights=weights, lagtime=lagtime)
    sums = [part.get("lagged") for part in parts]
    whole = sum(sums[1:], sums[0])
    estimate = _probabilities(whole, mean, membership, reversible)
    left_out = held_out([part for part in sums if 0 < part.weight < whole.weight], whole)
    if len(left_out) < 2:
        return estimate, np.full_like(estimate, np.nan)
    without = np.array([_probabilities(rest, mean, membership, reversible) for rest, _ in left_out])
    n = len(without)
    return estimate, np.sqrt((n - 1) / n * np.sum((without - without.mean(axis=0)) ** 2, axis=0))


def corners(modes: np.ndarray) -> np.ndarray:
    """Rows of the points nearest to the corners of the simplex that slow modes fill.

    The values of the k - 1 slowest modes of a process with k metastable sets lie near k corners,
    one for each set, and on the paths between them. The two points farthest apart in one direction
    are chosen first, then repeatedly the one farthest from the plane through those chosen: the
    inner simplex algorithm of Weber and Galliat (2002), the start of PCCA+ (Deuflhard and Weber
    2005).

    Parameters
    ----------
    modes : ndarray, shape (n, k - 1)

    Returns
    -------
    ndarray of int, shape (k,)
    """
    count = modes.shape[1] + 1
    first = int(np.argmax(np.sum(modes**2, axis=1)))
    apart = modes - modes[first]
    chosen = [first]
    for _ in range(count - 1):
        distance = np.sum(apart**2, axis=1)
        following = int(np.argmax(distance))
        if not distance[following] > 0:
            raise ValueError(
                f"n_sets={count}: the modes of the samples have no {count} corners, ask for fewer "
                f"sets"
            )
        direction = apart[following] / np.sqrt(distance[following])
        apart = apart - np.outer(apart @ direction, direction)
        chosen.append(following)
    return np.array(chosen)


def membership_matrix(modes: np.ndarray) -> np.ndarray:
    """Return B (k, k) such that (1, modes) B are memberships in k sets.

    Memberships sum to one, and are one at a set's own corner. A corner is the mean of the twentieth
    of all samples nearest to it (at most half of its set), since the outermost of many samples is
    noise. A membership is slightly outside [0, 1] for a sample beyond the corner.
    """
    n, k = len(modes), modes.shape[1] + 1
    extended = np.column_stack([np.ones(n), modes])
    membership = extended @ np.linalg.inv(extended[corners(modes)])
    sets = np.argmax(membership, axis=1)
    means = []
    for number in range(k):
        own = np.flatnonzero(sets == number)
        most = max(min(round(0.05 * n), len(own) // 2), 1)
        means.append(
            extended[own[np.argsort(-membership[own, number], kind="stable")[:most]]].mean(axis=0)
        )
    return np.linalg.inv(np.array(means))


def _probabilities(lagged: Lagged, mean, membership, reversible):
    first, second = (
        lagged.first_sum / lagged.weight - mean,
        lagged.second_sum / lagged.weight - mean,
    )
    moments = np.empty((len(mean) + 1, len(mean) + 1))
    moments[0, 0] = 1.0
    moments[0, 1:], moments[1:, 0] = second, first
    moments[1:, 1:] = lagged.cross_scatter / lagged.weight + np.outer(first, second)
    if reversible:
        moments = 0.5 * (moments + moments.T)
    return membership.T @ moments @ membership / (membership.T @ moments[:, 0])[:, None]
