"""What a fitted transition operator is, without the estimator around it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kmc.spectral.timescales import timescales


@dataclass(frozen=True, eq=False)
class TransitionModel:
    """A fitted transition operator in the words of deeptime, whose tools for validation and plots accept it.

    Among them ``deeptime.util.validation.implied_timescales([model, ...])`` and ``ck_test([model, ...], observable)``.

    Attributes
    ----------
    lagtime : int
        τ, in samples.
    eigenvalues, singular_values : ndarray, shape (k,)
        As of :class:`TransitionOperator`; the constant's is left out.
    koopman_matrix : ndarray, shape (k + 1, k + 1)
        K with E[ψ_j(x_{t+τ}) | x_t] = Σ_i ψ_i(x_t) K_ij for ψ = (1, modes).
    modes : object
        With ``values(x)``, the modes at the rows of x (n, d), shape (n, k).
    mean : ndarray, shape (k,)
        Taken off the modes' values.
    """

    lagtime: int
    eigenvalues: np.ndarray
    singular_values: np.ndarray
    koopman_matrix: np.ndarray
    modes: Any
    mean: np.ndarray

    @property
    def output_dimension(self) -> int:
        """Number of modes."""
        return len(self.mean)

    def timescales(self, k: int | None = None, lagtime: int | None = None) -> np.ndarray:
        """The slowest k time scales, in units of ``lagtime`` / τ samples; NaN for eigenvalues that have none."""
        return timescales(self.eigenvalues[:k], self.lagtime if lagtime is None else lagtime)

    def transform(self, data: Any) -> np.ndarray:
        """The modes at the rows of data (n, d), shape (n, k)."""
        return self.modes.values(np.asarray(data, dtype=float)) - self.mean

    def forward(self, data: Any, steps: int = 1) -> np.ndarray:
        """Their expected values ``steps`` lagtimes later, shape (n, k)."""
        now = self.transform(data)
        extended = np.column_stack([np.ones(len(now)), now])
        return (extended @ np.linalg.matrix_power(self.koopman_matrix, steps))[:, 1:]
