"""Methods of fitted eigenfunctions of a self-adjoint operator."""

from __future__ import annotations

from typing import Any

import numpy as np

from kmc.bases import Basis
from kmc.bases.general import few
from kmc.checks import is_number
from kmc.estimator import Estimator


class EigenfunctionMap(Estimator):
    """Base of the estimators of eigenfunctions.

    They set ``eigenvalues_`` (k,), ``basis_``, ``coefficients_`` (p, k) and ``means_`` (k,).
    """

    _transformer = True

    eigenvalues_: np.ndarray
    basis_: Basis
    coefficients_: np.ndarray
    means_: np.ndarray

    def transform(self, X: Any) -> np.ndarray:
        """Return the eigenfunctions at the rows of X (n, d), shape (n, k).

        They have mean zero and variance one over the samples fitted.
        """
        return self._modes_at(X)

    def fit_transform(self, X: Any, y: Any = None, weights: Any = None) -> np.ndarray:
        """Fit, and return :meth:`transform` of X; an iterator of blocks cannot be read again."""
        return self.fit(X, y, weights).transform(X)  # type: ignore[attr-defined]

    def gradient(self, X: Any) -> np.ndarray:
        """Gradients of the eigenfunctions at the rows of X (n, d), shape (n, k, d)."""
        x = self._check_points(X)
        out = np.empty((len(x), self.coefficients_.shape[1], x.shape[1]))
        for rows in few(len(x)):
            out[rows] = self.basis_.contract_gradients_each(x[rows], self.coefficients_)
        return out

    def diffusion_distance(self, X: Any, Y: Any, t: float) -> np.ndarray:
        r"""Return the diffusion distances between points (Coifman and Lafon 2006).

        They are :math:`[\sum_j e^{-2\lambda_j t}(f_j(x) - f_j(y))^2]^{1/2}`.

        Parameters
        ----------
        X, Y : array_like, shapes (n, d) and (m, d)
        t : float
            Time, not negative.

        Returns
        -------
        ndarray, shape (n, m)
        """
        decay = np.exp(-self._checked_time(t) * self.eigenvalues_)
        a, b = self._modes_at(X) * decay, self._modes_at(Y) * decay
        return np.sqrt(sum((a[:, j, None] - b[None, :, j]) ** 2 for j in range(len(decay))))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns of :meth:`transform`."""
        self._check_fitted()
        return self._names_out(len(self.eigenvalues_), input_features)

    def _modes_at(self, X: Any) -> np.ndarray:
        return self._eigenfunctions(self._check_points(X))

    def _eigenfunctions(self, x: np.ndarray) -> np.ndarray:
        out = np.empty((len(x), len(self.eigenvalues_)))
        for rows in few(len(x)):
            out[rows] = self.basis_.values(x[rows]) @ self.coefficients_ - self.means_
        return out

    def _checked_time(self, t: float) -> float:
        self._check_fitted()
        if not is_number(t) or not 0 <= t < np.inf:
            raise ValueError(f"t={t!r}: expected a time, a finite number that is not negative")
        return float(t)
