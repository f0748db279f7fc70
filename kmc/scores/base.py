"""What every score estimator does once it is fitted."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from kmc.estimator import Estimator
from kmc.scores.densities import point_parameters


class FittedDensity(Protocol):
    """An unnormalised log-density with its derivatives, at the rows of x (n, d)."""

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """(n,)."""

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """(n, d)."""

    def laplacian(self, x: np.ndarray) -> np.ndarray:
        """(n,)."""


class FittedExpansion(NamedTuple):
    """log q0(x) + f(x - centre): a base density times the exponential of a fitted function."""

    centre: np.ndarray  # (d,)
    base: Any  # q0, in the user's coordinates
    function: Any  # f, with values, gradient and laplacian at centred points

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """(n,)."""
        return self.base.log_density(x) + self.function.values(x - self.centre)

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """(n, d)."""
        return self.base.gradient(x) + self.function.gradient(x - self.centre)

    def laplacian(self, x: np.ndarray) -> np.ndarray:
        """(n,)."""
        return self.base.laplacian(x) + self.function.laplacian(x - self.centre)

    def point(self) -> Any:
        """The same for jitted loops; None if the base density is the user's own, or the kernel is."""
        base = point_parameters(self.base, len(self.centre))
        return None if base is None else self.function.point_state(base, self.centre)


class ScoreEstimator(Estimator):
    """Base of the score estimators: a subclass's ``fit`` leaves a FittedDensity in ``density_``."""

    density_: FittedDensity

    def log_density(self, X: Any) -> np.ndarray:
        """Unnormalised log-density at the rows of X (n, d), shape (n,)."""
        x = self._check_points(X)
        return self.density_.log_density(x)

    def gradient(self, X: Any) -> np.ndarray:
        """The estimated score function ∇ log p at the rows of X (n, d), shape (n, d)."""
        x = self._check_points(X)
        return self.density_.gradient(x)

    def laplacian(self, X: Any) -> np.ndarray:
        """Δ log p at the rows of X (n, d), shape (n,)."""
        x = self._check_points(X)
        return self.density_.laplacian(x)

    def objective(self, X: Any) -> float:
        r"""Empirical score-matching objective on X (n, d), lower is better.

        .. math:: \hat J = \frac1n \sum_b \Delta \log p(X_b) + \tfrac12 |\nabla \log p(X_b)|^2

        of the whole density, its base included: the Fisher divergence from the truth but for a constant that depends
        only on the truth (Hyvärinen 2005, theorem 1). For a uniform base it is the :math:`\hat J(f)` of Sutherland,
        Strathmann, Arbel and Gretton (2018), section 2.1.
        """
        x = self._check_points(X)
        gradient = self.density_.gradient(x)
        return float(np.mean(self.density_.laplacian(x) + 0.5 * np.einsum("ij,ij->i", gradient, gradient)))

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the objective: higher is better, as scikit-learn's model selection expects."""
        return -self.objective(X)
