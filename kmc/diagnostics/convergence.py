"""ArviZ's measures of convergence, for arrays."""

from __future__ import annotations

import numpy as np


def ess_and_rhat(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bulk effective sample size and rank-normalised split R-hat of values (chains, draws, k), each (k,).

    NaN where there are fewer than four draws, or none of them differ.
    """
    import arviz
    import xarray

    dataset = xarray.Dataset({"x": (("chain", "draw", "k"), values)})
    with np.errstate(divide="ignore", invalid="ignore"):  # where chains never move
        return arviz.ess(dataset)["x"].values, arviz.rhat(dataset)["x"].values
