"""The spectral gap of the Langevin dynamics of the target, estimated from draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import linalg

from kmc.checks import Seed
from kmc.diagnostics.draws import read_draws
from kmc.kernels import Gaussian, Metric, median_distance
from kmc.spectral.diffusion_map import DiffusionMap


def langevin_gap(
    data: Any,
    *,
    var_names: Sequence[str] | None = None,
    n_basis: int = 200,
    random_state: Seed = 0,
) -> float:
    r"""Smallest eigenvalue of the target's Langevin generator :math:`-\Delta - \langle \nabla\log p, \nabla\rangle`.

    Its inverse is the target's Poincaré constant. It is a property of the target in its parametrization, not of the
    sampler: a random walk with a small step has the spectral gap acceptance · step² / 2 times this one. A gap far below
    the inverse of the largest variance of a parameter indicates a barrier between modes, or a narrow passage.

    Parameters
    ----------
    data : as in :func:`kmc.diagnostics.slow_modes`
        All chains are pooled, so they should have converged. If the score ∇log p is known, pass it to
        :class:`kmc.spectral.DiffusionMap` instead, which is several times as accurate.
    var_names : sequence of str, optional
    n_basis : int
        Number of landmarks.
    random_state : int, Generator or None

    Returns
    -------
    float
        In 1 / (unit of the parameters)².

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
    draws = read_draws(data, var_names)
    x = draws.values.reshape(-1, len(draws.names))
    still = np.ptp(x, axis=0) == 0
    if np.any(still):
        raise ValueError(f"data: {draws.names[int(np.argmax(still))]!r} never moves, leave it out with var_names")
    values, vectors = linalg.eigh(np.atleast_2d(np.corrcoef(x, rowvar=False)))
    if values[0] < 1e-10:
        raise ValueError("data: a parameter is a linear function of others, leave it out with var_names")
    metric = (vectors / np.sqrt(values)).T / x.std(axis=0)
    unit = median_distance((x - x.mean(axis=0)) @ metric.T)
    kernel = Metric(Gaussian(unit), metric)
    return float(DiffusionMap(1, kernel, n_basis=n_basis, random_state=random_state).fit(x).spectral_gap_)
