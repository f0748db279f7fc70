"""Whether the chains agree, by ArviZ's measure."""

from __future__ import annotations

import numpy as np


def worst_rhat(positions: np.ndarray) -> float:
    """The largest rank-normalised split R-hat over coordinates of draws (chains, draws, d).

    Infinite where a coordinate never moves in any chain; NaN where there is nothing to compare (one chain, or fewer
    than four draws).
    """
    chains, draws, _ = positions.shape
    if chains < 2 or draws < 4:
        return float("nan")
    if np.any(np.ptp(positions, axis=1).max(axis=0) == 0):
        return float("inf")
    import arviz
    import xarray

    with np.errstate(divide="ignore", invalid="ignore"):  # where single chains never move
        rhat = arviz.rhat(xarray.Dataset({"x": (("chain", "draw", "x_dim_0"), positions)}))["x"].values
    return float("inf") if np.any(np.isnan(rhat)) else float(rhat.max())
