r"""How good a run's draws are, against the truth.

Everything is computed per coordinate and reported for the worst one. ``ess(y)`` is ArviZ's effective sample size of the
mean of y over the chains, from this run's draws alone. A standard error is the one that a run of that effective size
would have on the true distribution (so that a run that misses the tails does not get small errors for it):

- mean: :math:`\mathrm{sd} / \sqrt{\mathrm{ess}(x)}`;
- sd: :math:`\mathrm{sd} \sqrt{(\kappa - 1) / 4\,\mathrm{ess}((x - \mu)^2)}`, with the true mean :math:`\mu` and
  kurtosis :math:`\kappa`; deviations are taken from the true mean;
- quantile at p: the share of draws below the true quantile is compared with p, in units of
  :math:`\sqrt{p (1 - p) / \mathrm{ess}(1[x \le q_p])}`;
- 5-95 % width: the slopes of the true quantile function carry the errors of the two shares over to the two quantiles;
  they are added as if independent.
"""

from __future__ import annotations

import arviz as az
import numpy as np
from targets import TAILS, Truth

WIDTH_TOLERANCE = 0.07


def quality(draws: np.ndarray, truth: Truth) -> dict[str, float]:
    """What the draws (chains, n, d) are worth.

    Returns
    -------
    dict
        ``ess`` and ``tail_ess``: the smallest bulk and tail ESS; ``rhat``: the largest; ``mean_error``, ``sd_error``,
        ``q05_error``, ``q95_error``: the largest, in standard errors; ``bias``: the largest error of a mean, in true
        sds; ``width_min`` and ``width_max``: 5-95 % widths over the true ones; ``width_excess``: by how much a width
        is further than .07 and three of its standard errors from 1, negative if none is.
    """
    flat = draws.reshape(-1, draws.shape[-1])
    square = (draws - truth.mean) ** 2
    mean_deviation = np.abs(flat.mean(0) - truth.mean) / truth.sd
    spread = np.sqrt((truth.kurtosis - 1) / 4 / _per_coordinate(square, az.ess, method="mean"))
    low_share, high_share = (_share_below(draws, q, p) for q, p in zip(truth.quantiles, TAILS))
    low, high = np.quantile(flat, TAILS, axis=0)
    true_width = truth.quantiles[1] - truth.quantiles[0]
    width = (high - low) / true_width
    width_error = np.hypot(low_share[1] * truth.slopes[0], high_share[1] * truth.slopes[1]) / true_width
    return {
        "ess": _per_coordinate(draws, az.ess, method="bulk").min(),
        "tail_ess": _per_coordinate(draws, az.ess, method="tail").min(),
        "rhat": _per_coordinate(draws, az.rhat).max(),
        "mean_error": (mean_deviation * np.sqrt(_per_coordinate(draws, az.ess, method="mean"))).max(),
        "sd_error": (np.abs(np.sqrt(square.mean((0, 1))) / truth.sd - 1) / spread).max(),
        "q05_error": (np.abs(low_share[0]) / low_share[1]).max(),
        "q95_error": (np.abs(high_share[0]) / high_share[1]).max(),
        "bias": mean_deviation.max(),
        "width_min": width.min(),
        "width_max": width.max(),
        "width_excess": (np.abs(width - 1) - WIDTH_TOLERANCE - 3 * width_error).max(),
    }


def _share_below(draws, quantile, p):
    """Error (d,) of the share of draws below the true quantile, and its standard error (d,)."""
    below = (draws <= quantile).astype(float)
    return below.mean((0, 1)) - p, np.sqrt(p * (1 - p) / _per_coordinate(below, az.ess, method="mean"))


def _per_coordinate(draws, statistic, **options):
    return np.array([float(statistic(draws[:, :, i], **options)) for i in range(draws.shape[-1])])
