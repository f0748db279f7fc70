"""ArviZ's measures of convergence, for arrays."""

from __future__ import annotations

import numpy as np


def ess_and_rhat(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bulk effective sample size and rank-normalized split R-hat of values (chains, draws, k), each (k,).

    A single chain is split into two, as R-hat needs chains to compare. R-hat is infinite if chains differ and none of
    them moves; NaN if there are fewer than four draws of each, or if none of them differ.
    """
    import arviz
    import xarray

    if len(values) == 1:
        n = values.shape[1] // 2
        values = np.concatenate([values[:, :n], values[:, -n:]])
    dataset = xarray.Dataset({"x": (("chain", "draw", "k"), values)})
    with np.errstate(divide="ignore", invalid="ignore"):  # chains that never move
        ess, rhat = arviz.ess(dataset)["x"].values, arviz.rhat(dataset)["x"].values
    apart = np.isnan(rhat) & (np.ptp(values, axis=(0, 1)) > 0) & (values.shape[1] >= 4)
    return ess, np.where(apart, np.inf, rhat)
