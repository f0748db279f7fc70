"""The invariant of every exact run: the value of a draw is the log-density there, to the bit."""

from collections.abc import Callable
from typing import Any

import numpy as np


def groups(idata: Any) -> set[str]:
    """Names of the groups of a result, in the container of the installed ArviZ."""
    names = idata.groups() if callable(idata.groups) else idata.groups
    return {name.strip("/") for name in names} - {""}


def check_values(idata: Any, log_density: Callable[[np.ndarray], float], dim: int) -> None:
    """Compare ``lp`` of every draw, and of warm-up and proposals where they are kept, with a
    function of x (d,).
    """
    of_draws = {
        "posterior": "sample_stats",
        "warmup_posterior": "warmup_sample_stats",
        "proposals": "proposals",
    }
    for group, statistics in of_draws.items():
        if group not in groups(idata):
            continue
        x = np.asarray(idata[group]["x"].transpose("chain", "draw", ...)).reshape(-1, dim)
        lp = np.asarray(idata[statistics]["lp"].transpose("chain", "draw")).ravel()
        np.testing.assert_array_equal(lp, [log_density(row) for row in x], err_msg=f"lp of {group}")
