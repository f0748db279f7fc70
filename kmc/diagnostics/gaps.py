"""Spectral gaps, with standard errors: of chains, and of the Langevin dynamics of their target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from kmc.diagnostics.langevin import langevin_modes
from kmc.diagnostics.modes import slow_modes
from kmc.seeds import Seed


class Gap(float):
    """A number with its standard error, the attribute ``std_error``."""

    std_error: float

    def __new__(cls, value: float, std_error: float) -> Self:
        gap = super().__new__(cls, value)
        gap.std_error = float(std_error)
        return gap

    def __reduce__(self) -> tuple[type[Gap], tuple[float, float]]:
        return Gap, (float(self), self.std_error)

    def __repr__(self) -> str:
        return f"{float(self):.4g} ± {self.std_error:.2g}"


def spectral_gap(
    data: Any, lagtime: int = 1, *, var_names: Sequence[str] | None = None, n_basis: int = 150, random_state: Seed = 0
) -> Gap:
    """Estimate the spectral gap of chains, 1 - λ₁ for one draw.

    It is a property of the sampler on this target; :func:`langevin_gap` is one of the target alone. The slowest mode is
    fitted to one half of the draws, and λ₁ is its autocorrelation in the other half.

    Parameters
    ----------
    data, var_names, n_basis, random_state
        As in :func:`slow_modes`.
    lagtime : int
        In draws. A larger one is more informative about the slowest mode, as long as λ₁ is well above the noise.

    Returns
    -------
    Gap
        1 - λ₁^(1/lagtime), with the eigenvalue λ₁ at this lagtime: a float with the attribute ``std_error``. For
        independent draws it is one, up to noise; for a chain with alternating draws it is larger.

    Notes
    -----
    The standard error is by jackknife over chains, or parts of them if there are fewer than eight. It holds for the
    function that was found: the true gap is smaller if the chains never show a slower one. Intervals that hold without
    this condition (Hsu, Kontorovich and Szepesvári 2015, "Mixing time estimation in reversible Markov chains from a
    single sample path") are for chains with finitely many states.

    Examples
    --------
    >>> import numpy as np
    >>> import kmc.diagnostics
    >>> rng, x = np.random.default_rng(0), np.zeros((4, 5000))
    >>> for t in range(1, 5000):
    ...     x[:, t] = 0.8 * x[:, t - 1] + rng.standard_normal(4)
    >>> gap = kmc.diagnostics.spectral_gap(x)
    >>> bool(abs(gap - 0.2) < 3 * gap.std_error < 0.03)
    True
    """
    modes = slow_modes(data, 1, lagtime, var_names=var_names, n_basis=n_basis, random_state=random_state)
    eigenvalue, error = float(modes["eigenvalue"][0]), float(modes["std_error"][0])
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.abs(eigenvalue) ** (1.0 / lagtime - 1.0) / lagtime
        return Gap(1.0 - np.sign(eigenvalue) * abs(eigenvalue) ** (1.0 / lagtime), slope * error)


def langevin_gap(
    data: Any,
    *,
    var_names: Sequence[str] | None = None,
    n_basis: int = 200,
    random_state: Seed = 0,
) -> Gap:
    r"""Smallest eigenvalue of the target's Langevin generator :math:`-\Delta - \langle \nabla\log p, \nabla\rangle`.

    Its inverse is the target's Poincaré constant. It is a property of the target in its parametrization, not of the
    sampler: chains of any speed have the same one. (A random walk with a small step has the :func:`spectral_gap`
    acceptance · step² / 2 times this one.) A gap far below the inverse of the largest variance of a parameter indicates
    a barrier between modes, or a narrow passage.

    Parameters
    ----------
    data, var_names, n_basis, random_state
        As in :func:`langevin_modes`, which has the functions as well.

    Returns
    -------
    Gap
        In 1 / (unit of the parameters)²: a float with the attribute ``std_error``. NaN, with a warning, if the draws
        support no mode.

    Raises
    ------
    ValueError
        Draws are not finite, or a parameter never moves or is a linear function of others.

    Examples
    --------
    For independent normal parameters it is the inverse of the largest variance:

    >>> import numpy as np
    >>> import kmc.diagnostics
    >>> x = np.random.default_rng(0).standard_normal((4, 500, 2)) * [1.0, 10.0]
    >>> bool(0.008 < kmc.diagnostics.langevin_gap(x) < 0.012)
    True
    """
    modes = langevin_modes(data, 1, var_names=var_names, n_basis=n_basis, random_state=random_state)
    if not modes.sizes["mode"]:
        return Gap(np.nan, np.nan)
    return Gap(float(modes["eigenvalue"][0]), float(modes["std_error"][0]))
