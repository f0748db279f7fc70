"""Targets of ``shapes.py`` with a hundred parameters."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize


class Informed:
    """A standard normal prior and data that inform five directions, as in an inverse problem:
    precisions up to 200.
    """

    dim = 100

    def __init__(self):
        rng = np.random.default_rng(1)
        directions = np.linalg.qr(rng.standard_normal((self.dim, 5)))[0]
        self._precision = np.eye(self.dim) + (directions * np.geomspace(5, 200, 5)) @ directions.T
        self._root = np.linalg.cholesky(np.linalg.inv(self._precision))

    def __call__(self, x) -> float:
        return -0.5 * float(x @ self._precision @ x)

    def sample(self, rng, n) -> np.ndarray:
        """Independent exact draws (n, d)."""
        return rng.standard_normal((n, self.dim)) @ self._root.T


class LogisticColumns:
    """Logistic regression of a thousand outcomes on a hundred columns; standard normal
    coefficients.
    """

    dim = 100
    rows = 1000
    _wider = 1.04  # than the Laplace approximation
    _proposals = 8  # for each draw

    def __init__(self):
        rng = np.random.default_rng(3)
        columns = rng.standard_normal((self.rows, self.dim)) / np.sqrt(self.dim)
        outcome = rng.random(self.rows) < 1 / (1 + np.exp(-columns @ rng.standard_normal(self.dim)))
        self._signed = np.where(outcome, 1, -1)[:, None] * columns

    def __call__(self, x) -> float:
        return float(self._values(np.asarray(x)[None])[0])

    def sample(self, rng, n) -> np.ndarray:
        """Draws (n, d) by importance resampling from the Laplace approximation; some occur several
        times.
        """
        mode = minimize(
            lambda x: -self(x), np.zeros(self.dim), jac=self._downhill, method="L-BFGS-B"
        ).x
        share = 1 / (1 + np.exp(self._signed @ mode))
        precision = (self._signed * (share * (1 - share))[:, None]).T @ self._signed + np.eye(
            self.dim
        )
        root = self._wider * np.linalg.cholesky(np.linalg.inv(precision))
        unit = rng.standard_normal((self._proposals * n, self.dim))
        x = mode + unit @ root.T
        log_weights = np.concatenate(
            [self._values(part) for part in np.array_split(x, 100)]
        ) + 0.5 * np.sum(unit**2, 1)
        weights = np.exp(log_weights - log_weights.max())
        return x[rng.choice(len(x), n, p=weights / weights.sum())]

    def _values(self, x):
        return -np.logaddexp(0, -x @ self._signed.T).sum(axis=1) - 0.5 * np.sum(x**2, axis=1)

    def _downhill(self, x):
        return x - self._signed.T @ (1 / (1 + np.exp(self._signed @ x)))
