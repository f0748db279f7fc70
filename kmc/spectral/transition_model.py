"""A fitted transition operator as a separate object, and the time scales of its eigenvalues."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from kmc.errors import KmcWarning


@dataclass(frozen=True, eq=False)
class TransitionModel:
    """A fitted transition operator with deeptime's attribute names, accepted by its tools for validation and plots.

    Among them ``deeptime.util.validation.implied_timescales([model, ...])`` and ``ck_test([model, ...], observable)``.

    Attributes
    ----------
    lagtime : int
        τ, in samples.
    eigenvalues, singular_values : ndarray, shape (k,)
        As of :class:`TransitionOperator`, without the constant's.
    koopman_matrix : ndarray, shape (k + 1, k + 1)
        K with E[ψ_j(x_{t+τ}) | x_t] = Σ_i ψ_i(x_t) K_ij for ψ = (1, modes).
    modes : object
        With ``values(x)``, the modes at the rows of x (n, d), shape (n, k).
    mean : ndarray, shape (k,)
        Subtracted from the modes' values.
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


def timescales(eigenvalues: np.ndarray, lagtime: int) -> np.ndarray:
    """-τ / log λ of each eigenvalue, in samples; NaN for one that is complex or outside (0, 1).

    Such an eigenvalue is not an exponential decay: it is noise, an oscillation, or a mode that the samples never
    leave. The logarithm of its absolute value would have no meaning.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.spectral.transition_model import timescales
    >>> timescales(np.array([0.9, -0.9, 1.0, 0.5 + 0.5j]), lagtime=2).round(2)
    array([18.98,   nan,   nan,   nan])
    """
    values = np.real(eigenvalues)
    real = np.abs(np.imag(eigenvalues)) <= 1e-12
    decays = real & (values > 0.0) & (values < 1.0)
    return np.where(decays, -lagtime / np.log(np.where(decays, values, 0.5)), np.nan)


def warn_of_nan(scales: np.ndarray, eigenvalues: np.ndarray) -> None:
    """Issue a KmcWarning that names the eigenvalues without a time scale, if there are any."""
    bad = eigenvalues[np.isnan(scales)]
    if len(bad):
        shown = ", ".join(f"{value:.4g}" for value in bad[:5]) + (", ..." if len(bad) > 5 else "")
        warnings.warn(
            f"{len(bad)} of {len(eigenvalues)} eigenvalues are complex or outside (0, 1) and have no time scale "
            f"({shown}): their entries of timescales_ are NaN; ask for fewer components or give more samples",
            KmcWarning,
            stacklevel=4,
        )
