"""Methods of a fitted transition operator."""

from __future__ import annotations

from typing import Any

import numpy as np

from kmc.bases import Whitened
from kmc.checks import is_whole
from kmc.estimator import Estimator
from kmc.forms import accumulate
from kmc.forms.stream import length
from kmc.source import BLOCK, Source, check_lagtime, check_repeatable, folds, is_stream
from kmc.spectral.chapman_kolmogorov import SEGMENTS, CKTest, estimates, predictions
from kmc.spectral.metastable import membership_matrix
from kmc.spectral.transition_model import TransitionModel
from kmc.spectral.transition_modes import TransitionModes, covariances, vamp2


class TransitionFunctions(Estimator):
    """Base of :class:`TransitionOperator`, whose ``fit`` sets ``_modes`` in the basis ``_basis``."""

    _transformer = True

    lagtime: int
    reversible: bool
    landmarks_: np.ndarray
    eigenvalues_: np.ndarray
    _modes: TransitionModes
    _basis: Whitened

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

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """transitionoperator0, transitionoperator1, ..."""
        self._check_fitted()
        return self._names_out(len(self.eigenvalues_), input_features)

    def score(self, X: Any, y: Any = None, weights: Any = None) -> float:
        r"""VAMP-2 score of the fitted modes on other trajectories: 1 + Σ σ² of the operator within their span.

        Equal to deeptime's for the modes of a fit and the covariances of other data: up to noise, at most one plus the
        sum of the true squared singular values. Parameters as in :meth:`fit`.
        """
        self._check_fitted()
        if not is_stream(X):
            X = self._check_points(X)
        check_lagtime(Source(X, None, length(X), False), self.lagtime)
        modes = self._modes
        k = modes.left.shape[1]
        both = modes.left if self.reversible else np.column_stack([modes.left, modes.right])
        basis = Whitened(self._basis.basis, self._basis.matrix @ both)
        lagged = accumulate(basis, X, ("lagged",), weights=weights, lagtime=self.lagtime).get("lagged")
        left = np.eye(basis.size)[:, :k]
        right = np.eye(basis.size)[:, -k:]
        return 1.0 + vamp2(covariances(lagged, self.reversible), left, right)

    def memberships(self, X: Any, n_sets: int = 2) -> np.ndarray:
        """Memberships of points in metastable sets, the corners of the simplex that the n_sets - 1 slowest modes fill.

        Parameters
        ----------
        X : array_like, shape (n, d)
        n_sets : int

        Returns
        -------
        ndarray, shape (n, n_sets)
            Linear in the modes; rows sum to one, entries may be slightly outside [0, 1]. The largest entry of a row
            (``argmax(axis=1)``) is its set.
        """
        rotation = self._membership_matrix(n_sets)
        modes = self.transform(X)[:, : n_sets - 1]
        return rotation[0] + modes @ rotation[1:]

    def ck_test(self, X: Any, n_sets: int = 2, multiples: int = 5, weights: Any = None) -> CKTest:
        """Chapman–Kolmogorov test: transition probabilities between metastable sets, predicted and estimated.

        If the lagtime is long enough for the modes to be those of a Markov process, powers of the operator agree with
        estimates from pairs of samples at multiples of the lagtime.

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
        """The fitted operator as a separate object, which deeptime's tools accept."""
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
        if not is_whole(n_sets) or not 2 <= n_sets <= most:
            raise ValueError(f"n_sets={n_sets!r}: expected a whole number from 2 to {most}, one more than the modes")
        return membership_matrix(self.transform(self.landmarks_)[:, : n_sets - 1])
