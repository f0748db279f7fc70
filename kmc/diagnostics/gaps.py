"""Spectral gaps, with standard errors: of chains, and of the Langevin dynamics of their target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import linalg

from kmc.diagnostics.draws import blocks, read_draws
from kmc.diagnostics.modes import coordinates, correlations, slow_modes
from kmc.kernels import Gaussian, Metric, median_distance
from kmc.seeds import Seed
from kmc.spectral.coarse import jackknife
from kmc.spectral.diffusion_map import DiffusionMap


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
    data: Any,
    lagtime: int = 1,
    *,
    var_names: Sequence[str] | None = None,
    n_basis: int = 150,
    random_state: Seed = 0,
) -> Gap:
    """Estimate the spectral gap of chains, 1 - λ₁ for one draw.

    It is a property of the sampler on this target; :func:`langevin_gap` is one of the target alone.
    The slowest mode is fitted to one half of the draws, and λ₁ is its autocorrelation in the other
    half.

    Parameters
    ----------
    data, var_names, n_basis, random_state
        As in :func:`slow_modes`.
    lagtime : int
        In draws. A larger one is more informative about the slowest mode, as long as λ₁ is well
        above the noise.

    Returns
    -------
    Gap
        1 - λ₁^(1/lagtime), with the eigenvalue λ₁ at this lagtime: a float with the attribute
        ``std_error``. For independent draws it is one, up to noise; for a chain with alternating
        draws it is larger.

    Notes
    -----
    The standard error is by jackknife over chains, or parts of them if there are fewer than eight.
    It holds for the function that was found: the true gap is smaller if the chains never show a
    slower one. Intervals that hold without this condition (Hsu, Kontorovich and Szepesvári 2015,
    "Mixing time estimation in reversible Markov chains from a single sample path") are for chains
    with finitely many states.

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
    modes = slow_modes(
        data, 1, lagtime, var_names=var_names, n_basis=n_basis, random_state=random_state
    )
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
    r"""Estimate the smallest eigenvalue of the generator of the target's Langevin dynamics.

    The generator is :math:`-\Delta - \langle \nabla\log p, \nabla\rangle`. The inverse of the
    eigenvalue is the target's Poincaré constant. The eigenvalue is a property of the target in its
    parametrization, not of the sampler: chains of any speed have the same one. (A random walk with
    a small step has the :func:`spectral_gap` acceptance · step² / 2 times this one.) A gap far
    below the inverse of the largest variance of a parameter indicates a barrier between modes, or a
    narrow passage.

    Parameters
    ----------
    data, var_names, n_basis, random_state
        As in :func:`langevin_modes`, which has the functions as well.

    Returns
    -------
    Gap
        In 1 / (unit of the parameters)²: a float with the attribute ``std_error``. NaN, with a
        warning, if the draws support no mode.

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


if TYPE_CHECKING:
    import xarray


def langevin_modes(
    data: Any,
    n_modes: int = 5,
    *,
    var_names: Sequence[str] | None = None,
    n_basis: int = 200,
    random_state: Seed = 0,
) -> xarray.Dataset:
    r"""Find the slowest functions of the target's Langevin dynamics.

    They are the Laplacian coordinates of the target's draws, the eigenfunctions of
    :math:`-\Delta - \langle \nabla\log p, \nabla\rangle` with the smallest eigenvalues: functions
    that vary most for the least mean squared gradient, such as one that steps between two modes.
    Like :func:`langevin_gap`, and other than :func:`slow_modes`, they depend on the target in its
    parametrization only, not on the order of the draws.

    Parameters
    ----------
    data : as in :func:`slow_modes`
        All chains are pooled, so they should have converged. If the score ∇log p is known, pass it
        to :class:`kmc.spectral.DiffusionMap` instead, which is several times as accurate.
    n_modes : int
        Largest number of modes: there are fewer if the draws support fewer.
    var_names : sequence of str, optional
    n_basis : int
        Number of landmarks.
    random_state : int, Generator or None

    Returns
    -------
    xarray.Dataset
        The smallest eigenvalue first:

        - ``eigenvalue`` (mode): in 1 / (unit of the parameters)²;
        - ``std_error`` (mode): its standard error, by jackknife over chains, or parts of them if
          there are fewer than eight; at least ``std_errors_`` of
          :class:`kmc.spectral.DiffusionMap`;
        - ``value`` (chain, draw, mode): the eigenfunction at the draws, of mean zero and variance
          one;
        - ``correlation`` (mode, parameter): with the normal scores of each parameter.

    Raises
    ------
    ValueError, TypeError
        Draws are not finite; a parameter never moves or is a linear function of others; or an
        argument is out of its range.

    Warns
    -----
    KmcWarning
        As :meth:`kmc.spectral.DiffusionMap.fit`.

    Examples
    --------
    The first coordinate of two separate modes says in which of them a draw is:

    >>> import numpy as np
    >>> import kmc.diagnostics
    >>> rng = np.random.default_rng(0)
    >>> side = rng.choice([-1.0, 1.0], (4, 500))
    >>> x = np.stack(
    ...     [1.5 * side + 0.8 * rng.standard_normal((4, 500)), rng.standard_normal((4, 500))],
    ...     axis=-1,
    ... )
    >>> modes = kmc.diagnostics.langevin_modes(x, 1)
    >>> bool(abs(np.corrcoef(modes["value"].values.ravel(), side.ravel())[0, 1]) > 0.9)
    True
    """
    import xarray

    draws = read_draws(data, var_names)
    chains, n, d = draws.values.shape
    fitted = _fit(draws.values.reshape(-1, d), draws.names, n_modes, n_basis, random_state)
    value = fitted.transform(draws.values.reshape(-1, d)).reshape(chains, n, -1)
    errors = np.fmax(fitted.std_errors_, _errors(fitted, draws.values, value))
    return xarray.Dataset(
        {
            "eigenvalue": ("mode", fitted.eigenvalues_),
            "std_error": ("mode", errors),
            "value": (("chain", "draw", "mode"), value),
            "correlation": (
                ("mode", "parameter"),
                correlations(value, coordinates(draws.values).scores),
            ),
        },
        coords={
            "chain": np.arange(chains),
            "draw": np.arange(n),
            "mode": np.arange(value.shape[2]),
            "parameter": draws.names,
        },
    )


def _fit(
    x: np.ndarray, names: list[str], n_modes: int, n_basis: int, random_state: Seed
) -> DiffusionMap:
    """Fit a diffusion map to draws (n, d).

    Its kernel is one of the distance between standardized, uncorrelated draws.
    """
    still = np.ptp(x, axis=0) == 0
    if np.any(still):
        raise ValueError(
            f"data: {names[int(np.argmax(still))]!r} never moves, leave it out with var_names"
        )
    values, vectors = linalg.eigh(np.atleast_2d(np.corrcoef(x, rowvar=False)))
    if values[0] < 1e-10:
        raise ValueError(
            "data: a parameter is a linear function of others, leave it out with var_names"
        )
    metric = (vectors / np.sqrt(values)).T / x.std(axis=0)
    unit = median_distance((x - x.mean(axis=0)) @ metric.T)
    kernel = Metric(Gaussian(unit), metric)
    return DiffusionMap(n_modes, kernel, n_basis=n_basis, random_state=random_state).fit(x)


def _errors(fitted: DiffusionMap, draws: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Return standard errors of the Rayleigh quotients E |∇f|² / Var f (k,), by jackknife.

    The jackknife leaves out blocks of draws. An eigenvalue is stationary in its function, so that
    refitting without a block would change it by the same.
    """
    sums = np.array(
        [
            [
                np.full(f.shape[1], len(f)),
                f.sum(axis=0),
                (f**2).sum(axis=0),
                (fitted.gradient(x) ** 2).sum(axis=(0, 2)),
            ]
            for x, f in zip(blocks(draws), blocks(value))
        ]
    )
    return jackknife(_quotients, sums.sum(axis=0) - sums)


def _quotients(sums: np.ndarray) -> np.ndarray:
    count, first, second, energy = sums
    return (energy / count) / (second / count - (first / count) ** 2)
